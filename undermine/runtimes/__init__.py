"""Recognises, builds, configures and loads each kind of agent. Never runs inside a target.

`table.py` lists the runtimes. A new runtime is one module that implements `base.Runtime`, one line
in that table, and its name in the key `agent` of `config/schema.py`.
"""
