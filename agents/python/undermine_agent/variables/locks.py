"""Says whether another thread holds a lock of an object: then its values may be half changed."""

from __future__ import annotations

import _thread

from undermine_agent.interpreter.plain import ABSENT, attribute, imported, own_values

# Most attributes have one of these types; by their addresses.
_PLAIN = frozenset(map(id, (type(None), bool, int, float, str, bytes, list, tuple, dict, set)))
_LOCK, _RLOCK = _thread.LockType, _thread.RLock
_is_locked, _is_mine, _describe = _LOCK.locked, _RLOCK._is_owned, _RLOCK.__repr__  # type: ignore[attr-defined]


def held_elsewhere(owner) -> bool:
    """True if one of the owner's own attributes is a lock that another thread holds.

    A plain lock doesn't know its holder: a locked one counts.
    """
    for value in own_values(owner):
        kind = type(value)
        if id(kind) in _PLAIN:
            continue
        if kind is not _LOCK and kind is not _RLOCK:
            condition = imported("threading", "Condition")
            if condition is ABSENT or not issubclass(kind, condition):
                continue
            value = attribute(value, "_lock")
            kind = type(value)
        if kind is _LOCK:
            if _is_locked(value):
                return True
        elif kind is _RLOCK and not _is_mine(value) and _describe(value).startswith("<locked"):
            return True
    return False
