"""Helpers to read traces as arrays: groups of rows, threads and tasks, readable names from stacks. Never reads a
file."""
