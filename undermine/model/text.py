"""Text that a target wrote is hostile: only short, printable text goes on."""

from __future__ import annotations


def printable(text: str, length_max: int = 200) -> str:
    cut = text[:length_max].replace("\t", " ")
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)
