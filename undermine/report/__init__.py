"""What a campaign found, for people and machines. Only reads: the store and the run folders stay as they are."""
