"""Options of commands for a CI: files that it reads, and limits that make a job fail. Never starts a run."""
