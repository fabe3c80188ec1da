"""The user's plug-in file in processes of its own: its declarations, and calls into it. Never loads user code into the tool."""
