"""Traces as arrays: rows in groups, threads and tasks, and readable names from stacks. Never reads a file."""
