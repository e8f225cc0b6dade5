"""The state of a session as a fold of its events: what may follow what, one rule per event, listeners. Pure."""
