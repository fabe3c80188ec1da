"""What threads are called in events and stacks: by their names, with a number where a living thread has the name already.

A thread keeps what it was called first, also if it is renamed.
"""

from __future__ import annotations


class ThreadNames:
    """Nothing is locked: what must not happen twice is one operation on a dictionary."""

    def __init__(self):
        self._forget()

    def _forget(self) -> None:
        self.by_ident: dict = {}  # of a thread: its name and number, and what it is called
        self.holders: dict = {}  # what threads are called: their idents
        self.free: dict = {}  # a name: where to look for a number that is free, if not at 2

    def take(self, ident: int, name: str) -> str:
        """What a thread is called from now on that has just begun, or was not known."""
        if type(name) is not str:
            return name
        self.give_back(ident)  # of a thread whose end was not seen, and whose ident is used again
        called, number = name, 1
        while self.holders.setdefault(called, ident) != ident:
            number = number + 1 if number > 1 else self.free.get(name, 2)
            called = "%s#%d" % (name, number)
        self.by_ident[ident] = name, number, called
        if number > 1:
            self.free[name] = number + 1
        return called

    def give_back(self, ident: int) -> None:
        """The thread has ended: another one may be called so."""
        name, number, called = self.by_ident.pop(ident, ("", 0, ""))
        if number:
            self.holders.pop(called, None)
        if number == 2:
            self.free.pop(name, None)
        elif 2 < number < self.free.get(name, 2):
            self.free[name] = number

    def get(self, ident: int):
        """What this thread is called; None if it has not been seen."""
        known = self.by_ident.get(ident)
        return None if known is None else known[2]

    def after_fork(self, ident: int) -> None:
        """In the child there is no thread but this one."""
        known = self.by_ident.get(ident)
        self._forget()
        if known is not None:
            self.by_ident[ident] = known
            self.holders[known[2]] = ident
