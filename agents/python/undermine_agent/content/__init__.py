"""Contents: digests of the tokens in the bytes that operations move, if the configuration asks for them.

`tokens` finds the tokens of a buffer, `moved` the bytes that an operation moved, and `recording` records both together.
"""
