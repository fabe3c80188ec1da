"""Plug-ins for Undermine to copy from: a strategy, a checker and an adapter."""
