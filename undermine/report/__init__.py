"""The results of a campaign, for people and machines. Only reads: it never changes the campaign store or a run
folder."""
