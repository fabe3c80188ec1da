"""Text of targets: control characters go, lengths are bounded, and what was left out is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.report.text import LOG_LINES_MAX, clean, clip, clip_middle, count, duration, held, tail_of


def test_control_direction_and_surrogate_characters_go() -> None:
    assert clean("a\x00b\x07c\u202ed\ud800e") == "a\ufffdb\ufffdc\ufffdd\ufffde"


def test_newlines_tabs_and_odd_spaces_stay_readable() -> None:
    assert clean("a\r\n\tb\u00a0c") == "a\n\tb c"


def test_colours_of_terminals_go() -> None:
    assert clean("\x1b[1;31mred\x1b[0m \x1b]0;title\x07x") == "red x"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert clean("x" * 5000, 10) == "xxxxxxxxxx … (4,990 more characters)"


@pytest.mark.parametrize("size", [1, 9, 10, 11, 500])
def test_clips_never_exceed_their_width(size: int) -> None:
    text = "ab" * size
    for short in (clip(text, 10), clip_middle(text, 10)):
        assert len(short) <= 10
        assert (short == text) == (len(text) <= 10)


def test_the_middle_is_what_a_long_name_loses() -> None:
    assert clip_middle("store-eu-west-0001", 11) == "store…-0001"


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % i for i in range(100)))
    tail = tail_of(path)
    assert tail.lines[-1] == "line 99"
    assert len(tail.lines) == LOG_LINES_MAX
    assert tail.note == "70 earlier lines are not shown"


def test_the_tail_of_one_endless_line_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xff\xfe<b>" * 1_000_000)
    tail = tail_of(path)
    assert len(tail.lines) == 1
    assert len(tail.lines[0]) < 500
    assert "bytes come before it" in tail.note


def test_a_line_whose_beginning_was_not_read_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 70_000 + b"\nlast\n")
    assert tail_of(path).lines == ("last",)


def test_an_empty_log_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert tail_of(tmp_path / "log").lines == ()


def test_words_for_numbers() -> None:
    assert [duration(s) for s in (0.84, 42.2, 185, 120, 7440)] == ["0.8 s", "42 s", "3 min 5 s", "2 min", "2 h 4 min"]
    assert [held(ns) for ns in (0, 5_000, 8_000_000_000)] == ["", "0.005 ms", "8.000 s"]
    assert [count(1, "run"), count(1200, "run")] == ["1 run", "1,200 runs"]
