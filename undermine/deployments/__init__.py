"""Where a cluster under test lives: its processes, ports and folders on this machine.

It starts and ends nodes and nothing else: it never decides which fault to inject, and never reads traces.
"""
