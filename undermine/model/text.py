"""Text that a target wrote. It may be hostile: only short, printable text is passed on. It may name nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache


def printable(text: str, length_max: int = 200) -> str:
    """The first characters of a text, with `?` for those that cannot be printed."""
    cut = text[:length_max].replace("\t", " ")
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)


def names_in(text: str, names: Iterable[str]) -> list[str]:
    """The names that occur in a text as whole words, in its order."""
    return _words(frozenset(names)).findall(text)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A copy in which all these names are replaced at once, where they are whole words. The text of a set stays sorted."""
    if not names:
        return text
    new = _words(frozenset(names)).sub(lambda found: names[found[0]], text)
    if new != text and new.startswith("{") and new.endswith("}"):
        return "{" + ", ".join(sorted(new[1:-1].split(", "))) + "}"
    return new


@lru_cache(64)
def _words(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(names)))})(?![\w-])")
