"""The campaign store on disk: its database, its points and its run folders. Never starts a run and never judges one."""
