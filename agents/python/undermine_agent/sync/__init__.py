"""Hooks of everything a thread, process or task waits with: locks, conditions, queues, futures, clocks, timeouts.

These operations are only observed: no fault is ever injected at them.
"""
