"""Which event led to which, and which event ended whose wait. Never mixes the two."""
