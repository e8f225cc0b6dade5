"""The files an agent works on: what it saw of each, and whether somebody else changed it since."""
