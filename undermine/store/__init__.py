"""The campaign on disk: its database, its points and its run folders. Never runs or judges anything."""
