"""One file for each strategy. A strategy proposes plans from history; it never starts a process and never reads a file."""
