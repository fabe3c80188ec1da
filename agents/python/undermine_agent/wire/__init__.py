"""Everything that leaves the process: the event file, requests to the tool, and dumps of all stacks.

protocol/README.md describes these formats. This room never decides anything and never changes what the target does.
"""
