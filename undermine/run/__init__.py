"""Executes one run, from an empty folder to a stored record. Never chooses a fault and never judges."""
