"""The target's source files in the user's repository, and the functions that changed in it. Never imports or runs a file."""
