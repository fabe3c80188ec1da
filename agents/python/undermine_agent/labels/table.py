"""The labels of values, in a table beside them. The values stay what they are: a hook never changes a type.

A label says that a part of a value was made from some bytes of a *source*: an operation that read or received them. A
value's labels are segments:

    (begin, end, source, low, high, exact)

The elements of the value from `begin` to `end` were made from the bytes `low` to `high` of the source. If `exact` is true,
they are those bytes (or characters) in the same order, so that a part of the segment comes from a part of the bytes. A value
without elements, such as a number, has segments from 0 to 1.

The table knows a value by its address and keeps it alive, so that the address stays its own. Values that nobody else has any
more are removed now and then. The interpreter shares some values: small integers, texts of one character, constants. A
labelled one is a copy of its own (`own`); `plain` is the shared one, for programs that compare values by `is`.
"""

from __future__ import annotations

from _weakref import ref
from sys import getrefcount

from undermine_agent.interpreter import fast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SEGMENTS_MAX = 256
SWEEP_VALUES = 20_000
SWEEP_BYTES = 64 << 20
_SHARED_REFERENCES = 5
"""A value that was made just now has fewer references than this in `put`."""
_UNUSED_REFERENCES = 3
"""The references to a value that only the table has, in `_sweep`."""
_LEAVES = (str, bytes, int, float, bytearray)
_DEPTH_MAX = 6
_ELEMENTS_MAX = 2000
_CODE = (type(fast), type(fast.load), type(len))

labels: dict = {}
"""By address: the value, its segments, and the value that it is a copy of."""
_state = [0, 0, SWEEP_VALUES]  # values and bytes since the last sweep; the number of values that the next one waits for


def begin() -> None:
    """Let hooks work from now on: an empty table says that nothing has labels."""
    labels[0] = None, (), None


def clear() -> None:
    labels.clear()


def of(value) -> Any:
    """The segments of a value."""
    entry = labels.get(id(value))
    return entry[1] if entry is not None else ()


def plain(value):
    """The value that this one is a copy of, or the value itself."""
    entry = labels.get(id(value))
    return value if entry is None or entry[2] is None else entry[2]


def put(value, segments):
    """Label a value that was made just now. Return it, or its own copy of a shared one."""
    if not segments:
        return value
    cls = type(value)
    shared = None
    if cls is int:
        if -6 < value < 1025 or getrefcount(value) > _SHARED_REFERENCES:
            shared, value = value, own(value)
    elif cls is str or cls is bytes:
        if not value:
            return value
        if len(value) == 1 or getrefcount(value) > _SHARED_REFERENCES and id(value) not in labels:
            shared, value = value, own(value)
    elif cls is bool or value is None:
        return value
    if shared is not None and value is shared:
        return value  # it cannot be copied: its label is lost
    keep(value, segments, shared)
    return value


def keep(value, segments, shared=None) -> None:
    """Replace the labels of an object that isn't shared."""
    if len(segments) > SEGMENTS_MAX:
        segments = _coarse(segments)
    if type(value) is memoryview:  # while it is alive, its buffer cannot grow: only the target keeps it alive
        address = id(value)
        labels[address] = ref(value, lambda _: labels.pop(address, None)), tuple(segments), None
        return
    labels[id(value)] = value, tuple(segments), shared
    state = _state
    state[0] += 1
    if type(value) in (bytes, str, bytearray):
        state[1] += len(value)
    if state[0] >= state[2] or state[1] >= SWEEP_BYTES:
        _sweep()


def drop(value) -> None:
    labels.pop(id(value), None)


def _sweep() -> None:
    """Remove the values that nobody else has. No other thread can get hold of such a value meanwhile."""
    state = _state
    state[0] = state[1] = 0
    for address, entry in list(labels.items()):
        value = entry[0]
        if type(value) is not ref and getrefcount(value) <= _UNUSED_REFERENCES:
            labels.pop(address, None)
        del entry
    state[2] = max(SWEEP_VALUES, len(labels))


def own(value):
    """A copy of an integer, a text or bytes; the same object if this interpreter cannot make one."""
    if fast.module is not None:
        return fast.module.own(value)
    if type(value) is int:
        return value if -6 < value < 1025 else int(str(value))
    if len(value) < 2:
        return value
    return value[:1] + value[1:]


# --- segments


def shifted(segments, by: int) -> list:
    return [(begin + by, end + by, *rest) for begin, end, *rest in segments] if by else list(segments)


def cut(segments, low: int, high: int) -> list:
    """The segments of the part of a value from `low` to `high`."""
    found = []
    for begin, end, source, first, last, exact in segments:
        left, right = max(begin, low), min(end, high)
        if left >= right:
            continue
        if exact:
            first, last = first + left - begin, last - (end - right)
        found.append((left - low, right - low, source, first, last, exact))
    return found


def joined(segments: list) -> list:
    """The same with neighbours made one. They are in order."""
    found: list = []
    for segment in segments:
        if found:
            begin, end, source, low, high, exact = found[-1]
            if exact and segment[5] and end == segment[0] and source == segment[2] and high == segment[3]:
                found[-1] = begin, segment[1], source, low, segment[4], True
                continue
        found.append(segment)
    return found


def over(size: int, *several) -> list:
    """Segments that say: all of a value was made from everything that these segments were made from."""
    return [(0, size, source, low, high, False) for source, low, high in sources(*several)]


def sources(*several) -> list:
    """The ranges of sources in some segments, in order and without overlaps."""
    by_source: dict = {}
    for segments in several:
        for _, _, source, low, high, _ in segments:
            by_source.setdefault(source, set()).add((low, high))
    found: list = []
    for source, ranges in sorted(by_source.items()):
        last = None
        for low, high in sorted(ranges):
            if last is not None and low <= last[2]:
                last[2] = max(last[2], high)
            else:
                last = [source, low, high]
                found.append(last)
    return [tuple(each) for each in found]


def _coarse(segments) -> list:
    """A shorter list that says less: one segment for each source."""
    hulls: dict = {}
    for begin, end, source, low, high, _ in segments:
        known = hulls.get(source)
        if known is None:
            hulls[source] = [begin, end, low, high]
        else:
            hulls[source] = [min(known[0], begin), max(known[1], end), min(known[2], low), max(known[3], high)]
    kept = sorted(hulls.items())[-SEGMENTS_MAX:]
    return [(begin, end, source, low, high, False) for source, (begin, end, low, high) in kept]


# --- values in containers


def within(value, objects: bool = False) -> list:
    """The segments of all values in a value: in containers and, if asked for, in attributes of objects."""
    found: list = []
    _collect(value, found, _DEPTH_MAX, [_ELEMENTS_MAX], objects)
    return found


def _collect(value, found: list, depth: int, left: list, objects: bool) -> None:
    entry = labels.get(id(value))
    if entry is not None:
        found.extend(entry[1])
        return
    cls = type(value)
    if cls in _LEAVES or not depth or left[0] <= 0:
        return
    for part in parts_of(value, objects):
        left[0] -= 1
        _collect(part, found, depth - 1, left, objects)


def parts_of(value, objects: bool):
    """The values in a container, or in attributes of an object; nothing whose reading would run the target's code."""
    if isinstance(value, dict):
        return [part for item in list(dict.items(value)) for part in item]
    if isinstance(value, list):
        return list.__iter__(value)
    if isinstance(value, tuple):
        return tuple.__iter__(value)
    if isinstance(value, (set, frozenset)):
        return list(value) if type(value) in (set, frozenset) else ()
    if not objects or isinstance(value, type):
        return ()
    try:
        return list(object.__getattribute__(value, "__dict__").values())
    except (AttributeError, TypeError):
        return ()


def relabelled(value, label, depth: int = _DEPTH_MAX):
    """Label the texts, bytes and numbers in a new value by `label(leaf, segments)`. Return it, or a copy of a tuple."""
    cls = type(value)
    if cls in _LEAVES:
        return label(value)
    if not depth:
        return value
    if cls is tuple:
        changed = [relabelled(part, label, depth - 1) for part in value]
        return tuple(changed) if any(map(_differ, value, changed)) else value
    if cls is list:
        for at, part in enumerate(value):
            _replace(value, at, part, relabelled(part, label, depth - 1))
    elif cls is dict:
        for key, part in list(value.items()):
            if type(key) in _LEAVES:
                label(key)
            _replace(value, key, part, relabelled(part, label, depth - 1))
    elif cls not in _CODE and not isinstance(value, type) and not hasattr(cls, "_member_map_"):  # members of an enum aren't new
        try:
            names = object.__getattribute__(value, "__dict__")
        except (AttributeError, TypeError):
            return value
        if type(names) is dict:
            for key, part in list(names.items()):
                _replace(names, key, part, relabelled(part, label, depth - 1))
    return value


def _replace(container, key, part, new) -> None:
    if new is not part:
        container[key] = new


def _differ(one, other) -> bool:
    return one is not other
