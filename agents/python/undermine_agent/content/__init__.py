"""Contents: digests of the tokens in the bytes that operations move, and their labels, if the configuration asks for them.

`tokens` finds the tokens of a buffer, `moved` the bytes that an operation moved, and `recording` records both together.
`labelled` labels what a process reads, and records the labels of what it stores.
"""
