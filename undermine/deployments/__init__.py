"""Runs the cluster under test on this machine: its processes, networks, ports and folders.

It starts, kills, freezes and isolates nodes. It never decides which fault to inject, and never reads traces.
"""
