"""Pairs of operations that a badly timed fault would tear apart: a wait and its signal, a write and recovery's read. Never
decides what is injected."""
