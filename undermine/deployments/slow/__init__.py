"""Devices below a node: disks and networks that are slow, and disks that lose power. Never decides which node is hit."""
