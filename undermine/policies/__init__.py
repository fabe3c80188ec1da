"""Pruning: keeps the proposed plans that are worth running, and says why it drops the others. Never runs a plan."""
