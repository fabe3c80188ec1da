"""Which words fit which templates."""

from __future__ import annotations

import pytest

from undermine.checkers.text import words
from undermine.checkers.vocabulary import Vocabulary

KNOWN = Vocabulary(["INFO put <*> ok", "INFO <*> x ok", "<*> is down", "INFO ready"])


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("INFO put a ok", True),
        ("INFO get x ok", True),
        ("INFO put a failed", False),
        ("INFO put a ok twice", False),
        ("INFO put", False),
        ("n1 is down", True),
        ("INFO ready", True),
        ("", False),
    ],
)
def test_each_word_is_the_same_or_any(line: str, known: bool) -> None:
    assert KNOWN.knows(line.split()) is known


def test_word_for_word_means_without_any() -> None:
    assert KNOWN.has("INFO ready")
    assert not KNOWN.has("INFO put a ok")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("2026-11-16 04:07:23,926 INFO op 17 took 1.5 s", "INFO op <n> took <n> s"),
        ("2026-11-16T04:07:23.926Z INFO x", "INFO x"),
        ("2026/11/16 04:07:23 http: x", "http: x"),
        ("[04:07:23] x", "x"),
        ("1731729443 x", "x"),
        ("17", ""),
        ("  ", ""),
        ("read /a/b/c at 0xdeadbeef", "read <path> at <hex>"),
    ],
)
def test_words_of_a_line_are_masked_and_without_its_time(line: str, found: str) -> None:
    assert " ".join(words(line)) == found


def test_words_are_few_and_short() -> None:
    assert len(words("w " * 1000)) == 40
    assert words("w" * 1000) == ("w" * 80,)
