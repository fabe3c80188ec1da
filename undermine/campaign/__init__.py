"""The loop of a hunt: prepare, propose, run, confirm, replay. Never injects a fault itself."""
