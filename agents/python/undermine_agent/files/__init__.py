"""Hooks of files, mapped files, pipes and sqlite databases.

They record operations and carry out what was decided. They never decide about a fault themselves.
"""
