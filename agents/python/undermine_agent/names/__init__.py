"""Names that recur from run to run: of files and other subjects, of call sites and stacks, and of threads.

It only names things. It never records an event and never decides about a fault.
"""
