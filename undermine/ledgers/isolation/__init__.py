"""Isolation of transactions that append to lists and read them: anomalies, and cycles of dependencies (after Elle, 2020).

`transactions.py` reads the history and finds what one transaction alone shows. `dependencies.py` finds which transaction came
before which. `cycles.py` finds and names the cycles. `ledger.py` is the ledger. They never guess: a cycle is reported only if the
answers of clients prove each of its steps.
"""
