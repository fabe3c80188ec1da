"""When a step of the plan fires, and what it then does to an operation, a connection or the whole node.

The only room that changes what the target does. It hooks nothing: hooks ask it through `core`.
"""
