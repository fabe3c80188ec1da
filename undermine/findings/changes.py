"""Ways to make an answer wrong, and the parts of it that can be changed. Answers are JSON values. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Change = Callable[[Any, random.Random], Any]
"""Returns the changed value, or None if the change does not apply to it."""
Path = tuple[Any, ...]

_PLACES_MAX = 40
_DEPTH_MAX = 3
_WORD = "planted"


def _emptied(value: Any, _: random.Random) -> Any:
    return type(value)() if isinstance(value, list | dict | str) and value else None


def _shortened(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, list) or not value:
        return None
    left_out = rng.randrange(len(value))
    return value[:left_out] + value[left_out + 1 :]


def _doubled(value: Any, rng: random.Random) -> Any:
    return [*value, rng.choice(value)] if isinstance(value, list) and value else None


def _disordered(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, list):
        return None
    pairs = [i for i in range(len(value) - 1) if value[i] != value[i + 1]]
    if not pairs:
        return None
    i = rng.choice(pairs)
    return [*value[:i], value[i + 1], value[i], *value[i + 2 :]]


def _widened(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, list):
        return None
    return [*value, _other(rng.choice(value), rng) if value else _WORD]


def _other(value: Any, _: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value + 1
    return f"{value}-{_WORD}" if isinstance(value, str) else None


def _opposite(value: Any, _: random.Random) -> Any:
    return not value if isinstance(value, bool) else None


def _less(value: Any, _: random.Random) -> Any:
    return value - 1 if isinstance(value, int | float) and not isinstance(value, bool) else None


CHANGES: dict[str, Change] = {
    "lacks an element": _shortened,
    "has an element twice": _doubled,
    "has two elements the other way round": _disordered,
    "has an element that is not there": _widened,
    "is empty": _emptied,
    "says the opposite": _opposite,
    "is another one": _other,
    "is one less": _less,
}


def places(value: Any) -> Iterator[Path]:
    """Paths to the parts that can be changed: the value itself, then its parts, level by level, up to a limit."""
    level: list[tuple[Path, Any]] = [((), value)]
    left = _PLACES_MAX
    for _ in range(_DEPTH_MAX):
        for path, _value in level[:left]:
            yield path
        left -= len(level)
        if left <= 0:
            return
        level = [((*path, key), inner) for path, outer in level for key, inner in _parts(outer)]


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def changed(value: Any, path: Sequence[Any], change: Change, rng: random.Random) -> Any:
    """A copy of the value with the part at `path` changed."""
    if not path:
        return change(value, rng)
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = changed(value[key], rest, change, rng)
    return copy


def scalars(value: Any) -> Iterator[Any]:
    """Texts and numbers in the value, the last first: an operation's written value tends to come after its key."""
    if isinstance(value, dict | list):
        inner = list(value.values()) if isinstance(value, dict) else value
        for part in reversed(inner):
            yield from scalars(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def without(value: Any, gone: Any) -> Any:
    """The value without this element, wherever it is in a list or a table."""
    if isinstance(value, list):
        return [without(part, gone) for part in value if part != gone]
    if isinstance(value, dict):
        return {key: without(part, gone) for key, part in value.items() if key != gone and part != gone}
    return value
