"""Text for the terminal. Text that comes from a target is shown as text, never as markup."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape


def console() -> Console:
    """A console that wraps lines on a terminal, and never in a file or a pipe."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Return text of a target with its markup escaped and without control characters."""
    return escape(printable(text))


def printable(text: str) -> str:
    """Return the text with every control character but the line break replaced."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c == "\t" else "?" for c in text)
