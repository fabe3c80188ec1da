"""Says in words and source lines what a finding is: on the screen, on its card, and as a bug report. Never executes a file."""
