"""Who holds which lock while locks are taken and released one after the other. Knows no trace: owners, locks and events
are numbers.

A reentrant lock is held until it was released as often as it was taken. Locks taken for reading and for writing are
released as such. A thread that waits in a condition has given the condition's lock up meanwhile. Plain locks and
semaphores may be released by others. If an exclusive lock is taken while another owner has it, that owner released it
unseen.
"""

from __future__ import annotations

TAKES, GIVES = ("lock.acquire", "sem.acquire"), ("lock.release", "sem.release")
ONCE = "lock"
"""The target of what only one can hold, and only once."""
ALONE = ("lock", "rlock", "monitor")
"""The targets of what only one can hold at a time."""


class HeldLock:
    """A lock that was taken and not given back: by whom, and with which event."""

    __slots__ = ("ended", "event", "key", "owner", "target")

    def __init__(self, key: int, owner: int, event: int, target: str) -> None:
        self.key, self.owner, self.event, self.target = key, owner, event, target
        self.ended = False
        """The owner has ended with it."""


class LockTable:
    """Who holds which lock, while one taking or giving back follows the other. Owners, locks and events are numbers."""

    def __init__(self) -> None:
        self.of: dict[int, list[HeldLock]] = {}
        """By lock, the first taken first."""
        self.by: dict[int, list[HeldLock]] = {}
        """By owner, the first taken first."""
        self.waiting: dict[int, int] = {}
        """How many conditions an owner waits in: what others take meanwhile, it gets back."""

    def take(self, key: int, owner: int, event: int, target: str) -> list[int]:
        """Also says who lost it."""
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
        """One's own, the last that was taken as this target, or the last one; or another's. Says what is given back."""
        holds = self.of.get(key)
        if not holds:
            return None
        hold = holds.pop(_given(holds, owner, target))
        self._forget(hold)
        return hold

    def wait(self, owner: int) -> None:
        self.waiting[owner] = self.waiting.get(owner, 0) + 1

    def waited(self, owner: int) -> None:
        """The wait is over: what was given up for it is held again."""
        self.waiting[owner] = max(0, self.waiting.get(owner, 0) - 1)
        for hold in self.by.get(owner, ()):
            holds = self.of.setdefault(hold.key, [])
            if hold not in holds:
                holds.append(hold)

    def end(self, owner: int) -> None:
        """A thread ends: nobody holds what it held, but it was never given back."""
        for hold in self.by.pop(owner, []):
            hold.ended = True

    def held(self, owner: int) -> tuple[int, ...]:
        """The events with which this one took what it holds."""
        return tuple(hold.event for hold in self.by.get(owner, ()))


def _given(holds: list[HeldLock], owner: int, target: str) -> int:
    last = 0
    for at in range(len(holds) - 1, -1, -1):
        if holds[at].owner == owner and not holds[at].ended:
            if holds[at].target == target:
                return at
            last = last or at
    return last
