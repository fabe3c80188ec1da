"""The command line: options, progress, results and exit codes. Never does the work itself: `undermine.api` does."""
