"""Deciding when a fault fires and telling the agents. Never starts a process and never chooses a fault."""
