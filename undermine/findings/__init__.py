"""Groups failing runs into findings and decides which re-runs they need. Never runs a plan."""
