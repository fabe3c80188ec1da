"""One file a strategy. A strategy proposes plans from history; it never starts a process."""
