"""Each kind of agent that the tool knows: how it is recognised, built, configured and loaded. Never runs inside a target.

`table.py` lists them. A new runtime is one module that implements `base.Runtime`, and one line in that table.
"""
