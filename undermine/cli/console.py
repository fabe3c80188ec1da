"""Text for the terminal. Text that comes from a target is shown as text, never as markup."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape


def console() -> Console:
    """Wraps for people; what goes into a file or a pipe keeps its lines whole."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text that may come from a target: no markup, no control characters."""
    return escape(printable(text))


def printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else " " if c == "\t" else "?" for c in text)
