"""The source of a target as data: its files, names, values, calls and control flow. Never imports or runs any of it."""
