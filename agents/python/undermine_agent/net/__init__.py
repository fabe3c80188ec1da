"""Hooks of sockets, TLS and asyncio's transports, and the names of the peers and connections behind them.

Unix sockets and the agent's own connection to the tool are never seen here.
"""
