"""Going on after a process ended: fold, put right what was left open, report."""
