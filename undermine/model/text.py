"""Text that a target wrote may be hostile: only short, printable text is passed on."""

from __future__ import annotations


def printable(text: str, length_max: int = 200) -> str:
    """The first characters of a text, with `?` for those that cannot be printed."""
    cut = text[:length_max].replace("\t", " ")
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)
