"""Bringing a damaged session back to a state that verifies: a plan, its single steps; nothing left is lost."""
