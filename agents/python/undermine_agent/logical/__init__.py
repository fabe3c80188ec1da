"""Logical operations: functions of the target or of a library that count as one operation each.

It never knows a particular library: the modules in `adapters` describe those.
"""
