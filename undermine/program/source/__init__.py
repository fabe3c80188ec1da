"""A target's source as data: files, names, values, calls and control flow. Never imports or runs any of it."""
