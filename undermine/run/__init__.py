"""One run, from an empty folder to a record of what happened. Never chooses a fault and never judges."""
