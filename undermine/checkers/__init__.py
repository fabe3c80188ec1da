"""Judging a run that is over. Checkers are pure and never look at the target, so they can judge stored runs again."""
