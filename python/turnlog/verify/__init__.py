"""Reading everything again and saying whether it is what was written. Writes no byte."""
