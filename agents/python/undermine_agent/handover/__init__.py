"""Hooks of everything that carries work from one place to another: threads, tasks, callbacks, pools, child processes.

They record who gave what to whom, so that causes can be followed. No fault is ever injected at them.
"""
