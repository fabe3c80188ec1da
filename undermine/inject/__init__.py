"""Decides when the steps of a plan fire, and answers the agents. Never starts a process and never chooses a fault."""
