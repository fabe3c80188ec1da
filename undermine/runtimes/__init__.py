"""Recognises, builds, configures and loads each kind of agent. Never runs inside a target.

`table.py` lists the runtimes. A new runtime is one module that implements `base.Runtime`, and one line in that table.
"""
