"""Loads the user's plug-in file in a process of its own, and calls its functions there. Never loads user code into the tool."""
