"""The regions of a program in which a slow operation hurts: locks, barriers, time limits, leases, loops. Never runs
code."""
