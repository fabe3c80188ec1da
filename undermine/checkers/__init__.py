"""Judging a run that is over. Checkers are pure: they can be run again on stored runs."""
