"""The error in a node's last log lines is found, whatever logger wrote them."""

from __future__ import annotations

import pytest
from tables import for_each

from undermine.checkers.last_words import last_words, message_of


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
        "2024-01-02 03:04:05,123 - app.worker - INFO - it broke",
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
    assert last_words(log).frame == "b.py:load"
    assert last_words(f"{log}04:57:01 CRITICAL stopping\n").frame == "b.py:load"


def test_of_several_tracebacks_the_last_counts() -> None:
    log = f"{HEAD}{frame('/a/first.py', 'f')}KeyError: 1\n\nDuring handling …:\n\n{HEAD}{frame('/a/last.py', 'g')}ValueError"
    assert last_words(log).frame == "last.py:g"


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
    assert last_words(log).frame == ""


def test_frames_that_are_indented_by_tabs_belong_to_their_exception() -> None:
    frames = "\tat java.base/java.util.Optional.get(Optional.java:1)\n\tat org.app.Log.append(Log.java:42)\n"
    assert last_words(f'Exception in thread "main" java.lang.IllegalStateException: lost\n{frames}').frame == "Log.append"


def test_only_frames_of_the_target_are_shown() -> None:
    foreign = frame("/usr/lib/python3.11/socket.py", "connect") + frame("/x/undermine_agent/net/sockets.py", "connect")
    log = f"{HEAD}{frame('/app/a.py', 'run')}{foreign}ValueError: no\n"
    assert last_words(log).lines == [HEAD.strip(), '  File "/app/a.py", line 3, in run', "    x = y", "ValueError: no"]
    alone = last_words(f"{HEAD}{foreign}ValueError: no\n").lines
    assert alone == [HEAD.strip(), '  File "/usr/lib/python3.11/socket.py", line 3, in connect', "    x = y", "ValueError: no"]


def test_frames_of_the_jvm_agent_are_not_shown() -> None:
    frames = "\tat undermine.agent.net.Hooks.send(Hooks.java:1)\n\tat org.app.Log.append(Log.java:42)\n"
    lines = last_words(f'Exception in thread "main" java.lang.IllegalStateException: lost\n{frames}').lines
    assert lines[1:] == ["\tat org.app.Log.append(Log.java:42)"]


def test_an_exception_group_ends_with_the_member_that_says_something() -> None:
    log = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/app/a.py", line 2, in main\n'
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        f"    | {HEAD}"
        '    |   File "/app/a.py", line 9, in boom\n'
        "    |     gone()\n"
        "    |     ^^^^^^\n"
        "    | RuntimeError: gone\n"
        "    +------------------------------------\n"
    )
    said = last_words(log)
    assert (said.line, said.frame) == ("RuntimeError: gone", "a.py:boom")
    assert said.lines[-2:] == ["    gone()", "RuntimeError: gone"]


def test_an_exception_that_was_only_handled_is_not_a_cause() -> None:
    during = "During handling of the above exception, another exception occurred:\n\n"
    cause = "The above exception was the direct cause of the following exception:\n\n"
    errors = {"a": "KeyError", "b": "ValueError", "c": "OSError"}
    parts = [f"{HEAD}{frame(f'/app/{name}.py', 'f')}{error}: no\n\n" for name, error in errors.items()]
    assert last_words(parts[0] + during + parts[1] + cause + parts[2]).lines[-1] == "caused by ValueError: no, at b.py:f"
    assert "caused by" not in last_words(parts[0] + cause + parts[1] + during + parts[2]).lines[-1]


def test_a_chain_ends_with_its_first_cause() -> None:
    log = (
        f"{HEAD}{frame('/app/disk.py', 'read')}OSError: no space\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        f"{HEAD}{frame('/app/a.py', 'run')}ValueError: no\n"
    )
    assert last_words(log).line == "ValueError: no; caused by OSError: no space"
    assert last_words(log).lines[-1] == "caused by OSError: no space, at disk.py:read"


@pytest.mark.parametrize(
    ("handler", "lost"),
    [("    raise Unavailable(name)\n", True), ("    cache[name]\n", False)],
)
def test_an_exception_that_a_handler_raises_on_purpose_has_the_handled_one_as_its_cause(handler: str, lost: bool) -> None:
    log = (
        f"{HEAD}{frame('/app/a.py', 'run')}{frame('/app/net.py', 'read')}"
        "ConnectionResetError: [Errno 104] Connection reset by peer\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        f'{HEAD}  File "/app/a.py", line 3, in run\n{handler}app.Problem: no\n'
    )
    said = last_words(log)
    assert said.lost_connection is lost
    assert (said.lines[-1] == "caused by ConnectionResetError: [Errno 104] Connection reset by peer, at net.py:read") is lost


def test_a_jvm_chain_ends_with_its_innermost_cause() -> None:
    log = (
        'Exception in thread "main" java.lang.RuntimeException: no\n\tat org.app.Main.run(Main.java:1)\n'
        "Caused by: org.app.Failure: x\n\tat org.app.Queue.take(Queue.java:2)\n\t... 1 more\n"
        "Caused by: java.net.ConnectException: Connection refused\n\tat java.base/java.net.Socket.connect(Socket.java:3)\n"
        "\tat org.app.Link.open(Link.java:4)\n\t... 2 more\n"
    )
    said = last_words(log)
    assert said.line.endswith("java.lang.RuntimeException: no; caused by java.net.ConnectException: Connection refused")
    assert (said.frame, said.lost_connection) == ("Main.run", True)
    assert said.lines[-1] == "caused by java.net.ConnectException: Connection refused, at Link.open"


def test_a_member_of_a_group_that_was_only_cancelled_does_not_count() -> None:
    def member(number: int, error: str, function: str) -> str:
        begin = "+-+" if number == 1 else "  +"
        return (
            f"  {begin}---------------- {number} ----------------\n    | {HEAD}"
            f'    |   File "/app/a.py", line 9, in {function}\n    | {error}\n'
        )

    head = "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: unhandled errors (2 sub-exceptions)\n"
    end = "    +------------------------------------\n"
    errors = ("ZeroDivisionError: division by zero", "asyncio.CancelledError")
    for order in (errors, errors[::-1]):
        log = head + "".join(member(n, error, error.split(":")[0]) for n, error in enumerate(order, 1)) + end
        said = last_words(log)
        assert (said.frame, said.lost_connection) == ("a.py:ZeroDivisionError", False)


def test_an_exception_of_a_function_that_a_handler_calls_is_another_one() -> None:
    log = (
        f"{HEAD}{frame('/app/a.py', 'run')}{frame('/app/net.py', 'read')}ConnectionResetError: gone\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        f"{HEAD}{frame('/app/a.py', 'run')}"
        '  File "/app/a.py", line 9, in repair\n    raise ValueError("corrupt")\nValueError: corrupt\n'
    )
    assert not last_words(log).lost_connection
