"""Text from targets is shown as text, never as markup."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from undermine.cli.console import plain


def shown(text: str) -> str:
    """The text as a console prints it."""
    out = io.StringIO()
    Console(file=out, width=500, color_system=None).print(text)
    return out.getvalue()


def test_control_characters_are_replaced_and_line_breaks_stay() -> None:
    assert plain("a\x1b[31mb\x07\x00\u202e\r\tc\nd") == "a?[31mb???? c\nd"


@pytest.mark.parametrize(
    "text", ["[bold]x[/bold]", "[link=http://x]y[/link]", "[/]", "[red", "back\\slash[b]", "list[int]"]
)
def test_markup_is_shown_as_it_was_written(text: str) -> None:
    assert shown(plain(text)) == text + "\n"
    assert Text.from_markup(plain(text)).spans == []


def test_text_that_ends_with_a_backslash_keeps_the_markup_after_it() -> None:
    assert "[/bold]" not in shown(f"[bold]{plain('C:' + chr(92))}[/bold]")


def test_ordinary_text_is_left_alone() -> None:
    assert plain("Grüße, 世界 – 5 × 3") == "Grüße, 世界 – 5 × 3"
