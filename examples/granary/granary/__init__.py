"""Granary: a small replicated store with append-only logs and batch jobs."""
