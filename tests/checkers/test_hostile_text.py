"""Whatever a target prints, reading it ends, loses nothing and yields short printable text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from undermine.checkers.entries import entries
from undermine.checkers.last_words import last_words, message_of
from undermine.checkers.text import mask, telling_line, words
from undermine.checkers.vocabulary import Vocabulary
from undermine.findings.grouping.groups import template
from undermine.model.run import LogLine

PIECES = (
    "Traceback (most recent call last):",
    '  File "/srv/app/store.py", line 3, in apply',
    "    table[key]",
    "KeyError: 'k17'",
    "During handling of the above exception, another exception occurred:",
    "Exception in thread Thread-1 (apply):",
    'Exception in thread "main" java.io.IOException: gone',
    "\tat org.example.Store.put(Store.java:17)",
    "Caused by: java.io.EOFException",
    "panic: no more",
    "goroutine 7 [running]:",
    "main.serve(0xc000, 0x1)",
    "thread 'main' panicked at src/main.rs:7:5:",
    "note: run with `RUST_BACKTRACE=1`",
    "  + Exception Group Traceback (most recent call last):",
    "    +-+---------------- 1 ----------------",
    "2026-11-16 04:07:23,123 ERROR [apply] app.store: lost 4711 of 0xdeadbeef in /var/data/n1",
    "",
)
LINES = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=60)), max_size=20)
"""The lines that stack traces are made of in any order, among lines of any characters."""


def logged(lines: list[str]) -> list[LogLine]:
    return [LogLine("n1", "err", line, 1) for line in lines]


@given(LINES)
def test_entries_have_every_line_that_is_not_blank_once_and_in_order(lines: list[str]) -> None:
    found = [line for entry in entries(logged(lines)) for line in entry.lines]
    assert found == [line for line in lines if line.strip()]


@given(LINES)
def test_an_entry_shows_short_printable_text(lines: list[str]) -> None:
    for entry in entries(logged(lines)):
        for shown in (entry.says, entry.symptom, *entry.words):
            assert shown.isprintable()
            assert len(shown) <= 500
        assert entry.error or not entry.uncaught, "an exception that nobody caught has a class"


@given(LINES)
def test_the_last_words_are_one_short_printable_line_of_the_log(lines: list[str]) -> None:
    tail = "\n".join(lines)
    assert telling_line(tail).isprintable()
    assert len(telling_line(tail)) <= 200
    assert last_words(tail).frame.isprintable()


@given(st.text(max_size=300), st.sampled_from(("", "n1")))
def test_a_message_is_a_part_of_its_line(line: str, node: str) -> None:
    assert message_of(line, node) in line
    assert bool(message_of(line, node)) is bool(line.strip())


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(PIECES))
def test_lines_that_differ_in_numbers_alone_are_masked_alike(one: int, other: int, piece: str) -> None:
    assert mask(f"{piece} took {one} ms") == mask(f"{piece} took {other} ms")
    assert template(f"{piece} took {one} ms") == template(f"{piece} took {other} ms")
    assert words(f"{piece} took {one} ms") == words(f"{piece} took {other} ms")


@given(st.text(max_size=300))
def test_masked_text_is_short_and_printable_and_has_no_digit_left(line: str) -> None:
    assert mask(line).isprintable()
    assert len(mask(line)) <= 200
    assert not any(character.isdecimal() for character in mask(line))


@given(st.lists(st.lists(st.sampled_from(("a", "b", "<*>")), min_size=1, max_size=4), max_size=6), st.data())
def test_a_vocabulary_knows_exactly_what_fits_one_of_its_templates(
    templates: list[list[str]], data: st.DataObject
) -> None:
    said = data.draw(st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=4))
    fits = any(
        len(known) == len(said) and all(word in (heard, "<*>") for word, heard in zip(known, said, strict=True))
        for known in templates
    )
    assert Vocabulary(map(" ".join, templates)).knows(said) is fits
