"""Facts from traces, pure: traces in, facts out. Never reads a file and never starts anything."""
