"""The part of a line that recurs, also if the line is hostile."""

from __future__ import annotations

import pytest

from undermine.checkers.text import mask, printable, telling_line


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("bad record 17", "bad record <n>"),
        ("version 1.2.3 at 10.0.0.1:80", "version <n> at <n>:<n>"),
        ("object at 0x7f00DEADbeef", "object at <hex>"),
        ("block 9f86d081884c7d65 lost", "block <hex> lost"),
        ("the facade decade", "the facade decade"),
        ("no such file /var/lib/x-1/y.log here", "no such file <path> here"),
        ("either/or and a / b", "either/or and a / b"),
        ("  padded \t", "padded"),
        ("", ""),
    ],
)
def test_numbers_addresses_and_paths_are_masked(line: str, masked: str) -> None:
    assert mask(line) == masked


def test_masking_twice_changes_nothing_more() -> None:
    once = mask("OSError 5 at 0xdeadbeef in /a/b/c after 1.5 s")
    assert mask(once) == once


@pytest.mark.parametrize(
    "line",
    ["\x1b[2J\x1b[31mred", "a\x00b\x07c", "right\u202eleft", "zero\u200bwidth", "\udc80 alone", "one\rtwo\nthree"],
)
def test_only_printable_characters_come_out(line: str) -> None:
    assert mask(line).isprintable()
    assert printable(line).isprintable()


@pytest.mark.parametrize("line", ["a" * 10**6, "0" * 10**5, "/a" * 10**5, "f" * 10**5 + "!", "\x00" * 10**5])
def test_a_huge_line_comes_out_short(line: str) -> None:
    assert len(printable(line)) <= 200
    assert len(mask(line)) <= 1200


def test_a_long_line_recurs_although_a_number_in_it_has_more_digits() -> None:
    rest = " ".join(f"word{chr(97 + n % 26)}" for n in range(60))
    assert mask(f"task 9 failed: {rest}") == mask(f"task 10000 failed: {rest}")


def test_a_line_recurs_although_it_holds_a_uuid() -> None:
    first = mask("request 550e8400-e29b-41d4-a716-446655440000 was lost")
    assert first == mask("request 6ba7b810-9dad-11d1-80b4-00c04fd430c8 was lost")


def test_the_telling_line_of_a_traceback_is_its_exception() -> None:
    log = 'hello\nTraceback (most recent call last):\n  File "x", line 1, in f\n    boom()\nOSError: [Errno 5] no\n\n'
    assert telling_line(log) == "OSError: [Errno 5] no"


def test_the_telling_line_of_a_chained_traceback_is_the_last_exception() -> None:
    head = "Traceback (most recent call last):\n  somewhere\n"
    log = f"{head}KeyError: 1\n\nDuring handling …:\n\n{head}ValueError: 2"
    assert telling_line(log) == "ValueError: 2"


@pytest.mark.parametrize("log", ["", "\n\n", "   indented only\n", "Traceback (most recent call last):\n  a\n"])
def test_a_log_that_says_nothing_has_no_telling_line(log: str) -> None:
    assert telling_line(log) == ""


def test_the_telling_line_of_a_hostile_log_is_short_and_printable() -> None:
    line = telling_line("fine\n\x1b]0;owned\x07" + "x" * 100_000)
    assert line.isprintable()
    assert len(line) == 200
