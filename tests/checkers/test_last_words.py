"""The error in a node's last log lines is found, whatever logger wrote them."""

from __future__ import annotations

import pytest
from tables import for_each

from undermine.checkers.last_words import fatal_frame, message_of


@for_each(
    "line",
    [
        "03:04:05.123 CRITICAL n1 [MainThread] app.process: it broke",
        "2024-01-02 03:04:05,123 - ERROR - [main] - org.acme.Foo: it broke",
        "2024-01-02 03:04:05,123 [myid:1] - ERROR [main:PeerMain@99] - it broke",
        "2024-01-02T03:04:05.123456+00:00 [123] FATAL:  it broke",
        "Jan 02, 2024 3:04:05 AM SEVERE: it broke",
        "E0102 03:04:05.123456    1234 file.go:12] it broke",
        "1700000000.12 error store.disk: it broke",
        "ERROR:root:it broke",
        "[ERROR] it broke",
        "it broke",
    ],
)
def test_what_is_said_is_left(line: str) -> None:
    assert message_of(line, "n1") == "it broke"


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: bad record 4711",
        "error: config: cannot be read",
        "panic: runtime error: index out of range",
        "12 records lost",
        "n1: failed",
        "java.io.IOException: no space",
        "INFO",
        "2024-01-02T03:04:05Z",
        "",
    ],
)
def test_a_line_without_a_prefix_or_with_nothing_else_is_left_as_it_is(line: str) -> None:
    assert message_of(line, "n1") == line


def test_the_name_of_an_exception_is_not_taken_for_a_logger() -> None:
    assert message_of("04:57:01 ERROR java.io.IOException: no space") == "java.io.IOException: no space"


@pytest.mark.parametrize("line", ["[" * 10**5, "00:00:00 " * 10**5, "ERROR:" * 10**5, "a." * 10**5, "1-1-1" * 10**5])
def test_a_hostile_line_is_read_at_once(line: str) -> None:
    assert len(message_of(line)) <= 4000


HEAD = "Traceback (most recent call last):\n"


def frame(path: str, function: str) -> str:
    return f'  File "{path}", line 3, in {function}\n    x = y\n        ^^^\n'


def test_the_innermost_frame_outside_the_standard_library_is_where_it_arose() -> None:
    library = frame("/usr/lib/python3.11/json/decoder.py", "decode")
    log = f"hello\n{HEAD}{frame('/app/a.py', 'run')}{frame('/app/b.py', 'load')}{library}ValueError: no\n"
    assert fatal_frame(log) == "b.py:load"
    assert fatal_frame(f"{log}04:57:01 CRITICAL stopping\n") == "b.py:load"


def test_of_several_tracebacks_the_last_counts() -> None:
    log = f"{HEAD}{frame('/a/first.py', 'f')}KeyError: 1\n\nDuring handling …:\n\n{HEAD}{frame('/a/last.py', 'g')}ValueError"
    assert fatal_frame(log) == "last.py:g"


@pytest.mark.parametrize(
    "log",
    [
        "",
        "it broke\n",
        f"{HEAD}{frame('/app/a.py', 'run')}ValueError: no\ngoing on\nmuch later: it broke\n",
        f"{HEAD}{frame('/app/a.py', 'run')}",
    ],
)
def test_where_it_arose_is_not_guessed(log: str) -> None:
    assert fatal_frame(log) == ""


def test_frames_that_are_indented_by_tabs_belong_to_their_exception() -> None:
    frames = "\tat java.base/java.util.Optional.get(Optional.java:1)\n\tat org.app.Log.append(Log.java:42)\n"
    assert fatal_frame(f'Exception in thread "main" java.lang.IllegalStateException: lost\n{frames}') == "Log.append"
