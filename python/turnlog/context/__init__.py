"""What each step was sent, stored by reference: runs of earlier contexts, known messages, new ones. Pure."""
