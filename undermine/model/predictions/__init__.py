"""Predicted plans with their reasons, and the landings of the runs that have tried plans. Never decides what to run."""
