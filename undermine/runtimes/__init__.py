"""What the tool knows of each kind of agent: how it is built, configured and loaded. Never runs inside a target."""
