"""Slow disks and networks below a node, for operations that the device must delay. Never decides which node is slow."""
