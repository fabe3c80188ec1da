"""Direct access to the interpreter: the C accelerator, memory and C types, and safety across forks.

The lowest room: it imports no other room of the agent, and it knows nothing of operations or faults.
"""
