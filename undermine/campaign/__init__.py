"""The loop of a hunt: prepare, propose, run, confirm, replay. Never starts a process and never reads the target's files."""
