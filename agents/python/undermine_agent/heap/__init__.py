"""Accesses to the heap: attributes, items and globals that handlers of the target share.

`rewriting` puts a hook at each access, `imports` applies it to the target's modules, `names` names objects so that two
runs agree, and `accesses` records.
"""
