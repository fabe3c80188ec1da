"""Linearizability: can every answer be explained by an order in which operations took effect one after the other?

`models.py`, `queues.py` and `sets.py` say how an object behaves if one client uses it alone. `search.py` looks for an order.
`smallest.py` reduces a history without one to a few operations. `ledger.py` is the ledger. They never look at anything but the
history.
"""
