"""Pruning: which of the proposed plans are worth running, and why the others are dropped. Never runs a plan."""
