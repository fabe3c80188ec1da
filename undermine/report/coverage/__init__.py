"""The report's sections on coverage and strategies: which operations faults hit, in the target's source, and what was skipped.
Never writes to the campaign store."""
