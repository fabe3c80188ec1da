"""The names of threads in events and stacks. A number is added if a living thread already has the name.

A thread keeps its first name, even if it is renamed.
"""

from __future__ import annotations


class ThreadNames:
    """Uses no lock: whatever must not happen twice is one operation on a dictionary."""

    def __init__(self):
        self._forget()

    def _forget(self) -> None:
        self.by_ident: dict = {}  # ident of a thread -> its name, its number, and both together
        self.holders: dict = {}  # name with number -> ident of its thread
        self.free: dict = {}  # name -> where to look for a free number, if not at 2

    def take(self, ident: int, name: str) -> str:
        """Name a thread that has just begun or was unknown so far."""
        if type(name) is not str:
            return name
        self.give_back(ident)  # left by a thread whose end was not seen, and whose ident is used again
        called, number = name, 1
        while self.holders.setdefault(called, ident) != ident:
            number = number + 1 if number > 1 else self.free.get(name, 2)
            called = "%s#%d" % (name, number)
        self.by_ident[ident] = name, number, called
        if number > 1:
            self.free[name] = number + 1
        return called

    def give_back(self, ident: int) -> None:
        """The thread has ended: another one may get its name."""
        name, number, called = self.by_ident.pop(ident, ("", 0, ""))
        if number:
            self.holders.pop(called, None)
        if number == 2:
            self.free.pop(name, None)
        elif 2 < number < self.free.get(name, 2):
            self.free[name] = number

    def get(self, ident: int):
        """The name of this thread; None if it has not been seen."""
        known = self.by_ident.get(ident)
        return None if known is None else known[2]

    def after_fork(self, ident: int) -> None:
        """In the child only this thread exists."""
        known = self.by_ident.get(ident)
        self._forget()
        if known is not None:
            self.by_ident[ident] = known
            self.holders[known[2]] = ident
