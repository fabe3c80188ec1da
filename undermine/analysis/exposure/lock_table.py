"""The holders of locks while locks are taken and released one after the other. Knows no trace: owners, locks and events
are numbers.

A reentrant lock is held until it was released as often as it was taken. Locks taken for reading and for writing are
released as such. A thread that waits in a condition has given the condition's lock up meanwhile. Plain locks and
semaphores may be released by others. If an exclusive lock is taken while another owner has it, that owner released it
unseen.
"""

from __future__ import annotations

TAKES, GIVES = ("lock.acquire", "sem.acquire"), ("lock.release", "sem.release")
ONCE = "lock"
"""The target of a lock that one owner can hold once."""
ALONE = ("lock", "rlock", "monitor")
"""The targets of exclusive locks: one owner at a time."""


class HeldLock:
    """A lock that was taken and not released: its owner, and the event that took it."""

    __slots__ = ("ended", "event", "key", "owner", "target")

    def __init__(self, key: int, owner: int, event: int, target: str) -> None:
        self.key, self.owner, self.event, self.target = key, owner, event, target
        self.ended = False
        """True if the owner ended without releasing it."""


class LockTable:
    """The locks that are held at a moment. Call its methods in the order in which locks are taken and released."""

    def __init__(self) -> None:
        self.of: dict[int, list[HeldLock]] = {}
        """By lock, in the order of taking."""
        self.by: dict[int, list[HeldLock]] = {}
        """By owner, in the order of taking."""
        self.waiting: dict[int, int] = {}
        """The number of conditions that an owner waits in. It gets its locks back afterwards, even if others took them
        meanwhile."""

    def take(self, key: int, owner: int, event: int, target: str) -> list[int]:
        """Take a lock. Returns the owners that must have released it unseen."""
        lost = [] if target not in ALONE else self._lose(key, owner, target == ONCE)
        hold = HeldLock(key, owner, event, target)
        self.of.setdefault(key, []).append(hold)
        self.by.setdefault(owner, []).append(hold)
        return lost

    def _lose(self, key: int, owner: int, once: bool) -> list[int]:
        holds = self.of.get(key)
        if not holds:
            return []
        lost = []
        for hold in list(holds):
            if hold.owner == owner and not once and not hold.ended:
                continue
            holds.remove(hold)
            if not self.waiting.get(hold.owner):
                lost.append(hold.owner)
                self._forget(hold)
        return lost

    def _forget(self, hold: HeldLock) -> None:
        mine = self.by.get(hold.owner, [])
        if hold in mine:
            mine.remove(hold)

    def give(self, key: int, owner: int, target: str) -> HeldLock | None:
        """Release a lock: the owner's own, preferably taken as this target, else another owner's. Returns what was
        released."""
        holds = self.of.get(key)
        if not holds:
            return None
        hold = holds.pop(_given(holds, owner, target))
        self._forget(hold)
        return hold

    def wait(self, owner: int) -> None:
        self.waiting[owner] = self.waiting.get(owner, 0) + 1

    def waited(self, owner: int) -> None:
        """The owner's wait is over: it holds the locks again that it gave up."""
        self.waiting[owner] = max(0, self.waiting.get(owner, 0) - 1)
        for hold in self.by.get(owner, ()):
            holds = self.of.setdefault(hold.key, [])
            if hold not in holds:
                holds.append(hold)

    def end(self, owner: int) -> None:
        """An owner ends without releasing its locks."""
        for hold in self.by.pop(owner, []):
            hold.ended = True

    def held(self, owner: int) -> tuple[int, ...]:
        """The events that took the locks which this owner holds."""
        return tuple(hold.event for hold in self.by.get(owner, ()))


def _given(holds: list[HeldLock], owner: int, target: str) -> int:
    last = 0
    for at in range(len(holds) - 1, -1, -1):
        if holds[at].owner == owner and not holds[at].ended:
            if holds[at].target == target:
                return at
            last = last or at
    return last
