"""Lines that belong together are one entry, and uncaught errors are told apart from logged ones."""

from __future__ import annotations

import pytest
from tables import for_each

from undermine.checkers.entries import LogEntry, entries
from undermine.model.run import LogLine

THREAD = """\
Exception in thread Thread-1 (worker):
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/srv/app/store.py", line 3, in apply
    return json.loads("{bad")
           ^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode
    obj, end = self.scan_once(s, idx)
json.decoder.JSONDecodeError: Expecting value: line 1 column 2 (char 1)"""

CHAINED = """\
2026-11-16 04:07:23,926 ERROR root could not apply op 17
Traceback (most recent call last):
  File "/srv/app/store.py", line 7, in read
    {}["x"]
KeyError: 'x'
The above exception was the direct cause of the following exception:
Traceback (most recent call last):
  File "/srv/app/store.py", line 9, in chained
    raise ValueError("wrapped 5") from e
ValueError: wrapped 5"""

TASK = """\
ERROR asyncio Task exception was never retrieved
future: <Task finished name='Task-2' coro=<boom() done> exception=RuntimeError('gone')>
Traceback (most recent call last):
  File "/srv/app/peer.py", line 11, in boom
    raise RuntimeError("gone")
RuntimeError: gone"""

GROUP = """\
ERROR asyncio Task exception was never retrieved
future: <Task finished name='Task-1' coro=<main() done>>
  + Exception Group Traceback (most recent call last):
  |   File "/srv/app/main.py", line 21, in main
  |     async with asyncio.TaskGroup() as g: g.create_task(boom())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/app/main.py", line 11, in boom
    |     raise RuntimeError("gone")
    | RuntimeError: gone
    +------------------------------------"""

JVM = """\
Exception in thread "Worker-3" java.lang.NullPointerException: Cannot invoke "String.length()"
    at java.base/java.util.Objects.requireNonNull(Objects.java:233)
    at org.app.store.Log.append(Log.java:42)
    at java.base/java.lang.Thread.run(Thread.java:833)
Caused by: java.io.IOException: disk
    at org.app.store.Disk.write(Disk.java:9)
    ... 2 more"""

JVM_LOGGED = """\
2026-11-16 04:07:23,926 [myid:1] - WARN  [Peer@129] - Exception when following the leader
java.io.EOFException
    at java.base/java.io.DataInputStream.readInt(DataInputStream.java:393)
    at org.app.quorum.Learner.readPacket(Learner.java:158)"""

JVM_WITH_TABS = """\
Exception in thread "main" java.lang.IllegalStateException: no quorum: 1 of 3
\tat java.base/java.util.Optional.orElseThrow(Optional.java:403)
\tat org.app.Server.start(Server.java:31)
\tat org.app.Server.main(Server.java:12)
\tSuppressed: java.io.IOException: closed
\t\tat org.app.Socket.close(Socket.java:5)
\t\t... 2 more
Caused by: org.app.QuorumException: lost
\tat org.app.Peer.vote(Peer.java:9)
\t... 2 more
Caused by: java.net.ConnectException: refused
\t... 3 more"""

JVM_LOGGED_WITH_TABS = JVM_LOGGED.replace("    ", "\t")

GO = """\
panic: runtime error: index out of range [5] with length 3
goroutine 1 [running]:
panic({0x1, 0x2})
    /usr/lib/go/src/runtime/panic.go:884 +0x212
main.(*Store).apply(0xc000012345, 0x5)
    /srv/app/store.go:9 +0x1d
exit status 2"""

GO_WITH_TABS = GO.replace("    ", "\t")

GO_RECOVERED = """\
2026/11/16 04:07:24 http: panic serving 127.0.0.1:3: boom
goroutine 5 [running]:
net/http.(*conn).serve.func1()
    /usr/lib/go/src/net/http/server.go:1 +0x1"""

RUST = """\
thread 'raft-1' panicked at src/raft/log.rs:88:13:
called `Option::unwrap()` on a `None` value
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"""

DOTNET = """\
Unhandled exception. System.NullReferenceException: Object reference not set.
   at Shop.Cart.Add(Item item) in /srv/Cart.cs:line 12
   at Shop.Program.Main()"""


def of(text: str) -> list[LogEntry]:
    return list(entries(LogLine("n1", "err", line, 1) for line in text.splitlines()))


@for_each(
    ("text", "symptom", "uncaught"),
    [
        (THREAD, "uncaught JSONDecodeError at store.py:apply", True),
        (CHAINED, "uncaught ValueError at store.py:chained", False),
        (TASK, "uncaught RuntimeError at peer.py:boom", True),
        (GROUP, "uncaught RuntimeError at main.py:boom", True),
        (JVM, "uncaught NullPointerException at Log.append", True),
        (JVM_LOGGED, "uncaught EOFException at Learner.readPacket", False),
        (JVM_WITH_TABS, "uncaught IllegalStateException at Server.start", True),
        (JVM_LOGGED_WITH_TABS, "uncaught EOFException at Learner.readPacket", False),
        (GO, "uncaught panic at main.(*Store).apply", True),
        (GO_WITH_TABS, "uncaught panic at main.(*Store).apply", True),
        (RUST, "uncaught panic at log.rs", True),
        (DOTNET, "uncaught NullReferenceException at Cart.Add", True),
    ],
)
def test_a_trace_is_one_entry_with_its_class_and_place(text: str, symptom: str, uncaught: bool) -> None:
    before, entry, after = of(f"INFO started\n{text}\nINFO continues")
    assert (before.says, after.says) == ("INFO started", "INFO continues")
    assert entry.lines == tuple(text.splitlines())
    assert (entry.symptom, entry.uncaught) == (symptom, uncaught)


def test_all_of_them_one_after_the_other_are_as_many_entries() -> None:
    texts = [THREAD, CHAINED, TASK, GROUP, JVM, JVM_LOGGED, JVM_WITH_TABS, JVM_LOGGED_WITH_TABS]
    texts += [GO, GO_WITH_TABS, GO_RECOVERED, RUST, DOTNET]
    assert ["\n".join(entry.lines) for entry in of("\n".join(texts))] == texts


def test_an_entry_says_what_it_is_in_one_line() -> None:
    (entry,) = of(CHAINED)
    assert entry.says == (
        "2026-11-16 04:07:23,926 ERROR root could not apply op 17: ValueError: wrapped 5 at store.py:chained"
    )
    assert entry.words == ("ValueError@store.py:chained", "ERROR", "root", "could", "not", "apply", "op", "<n>")


@pytest.mark.parametrize("error", ["ConnectionResetError", "asyncio.exceptions.IncompleteReadError", "TimeoutError"])
def test_a_server_that_lost_a_connection_has_only_ended_what_that_was_for(error: str) -> None:
    def handler(raised: str) -> LogEntry:
        frame = '  File "/srv/app/peer.py", line 1, in serve'
        (entry,) = of(
            "Unhandled exception in client_connected_cb\ntransport: <_SelectorSocketTransport fd=8>\n"
            f"Traceback (most recent call last):\n{frame}\n{raised}: x"
        )
        return entry

    assert not handler(error).uncaught
    assert handler("KeyError").uncaught


def test_a_traceback_without_a_header_was_caught_by_who_printed_it() -> None:
    first, entry = of("INFO ready\nTraceback (most recent call last):\n  File \"/a/b.py\", line 1, in f\nKeyError: 'x'")
    assert first.says == "INFO ready"
    assert (entry.error, entry.uncaught) == ("KeyError", False)


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        "Exception in thread T:\nTraceback (most recent call last):",
        "Exception in thread T:\nTraceback (most recent call last):\n    ???\n*** garbage",
        "panic: no stack follows",
        "    at nothing(",
        "  + Exception Group Traceback\n  +-+---------------- 1 ----------------",
        "thread 'x' panicked at ",
        "goroutine 1 [running]:",
        "Caused by: nobody",
    ],
)
def test_what_is_torn_is_still_an_entry(text: str) -> None:
    found = of(text)
    assert [line for entry in found for line in entry.lines] == text.splitlines()
    assert not any(entry.uncaught and not entry.error for entry in found)


def test_entries_do_not_span_files() -> None:
    lines = [LogLine("n1", "err", "ERROR one", 1), LogLine("n1", "err", "  more", 2), LogLine("n2", "err", "  other", 2)]
    assert [(e.node, e.incarnation, e.lines) for e in entries(lines)] == [
        ("n1", 1, ("ERROR one",)),
        ("n1", 2, ("  more",)),
        ("n2", 2, ("  other",)),
    ]


def test_where_all_frames_are_of_the_standard_library_the_innermost_counts() -> None:
    outer = '  File "/usr/lib/python3.11/socketserver.py", line 1, in serve'
    inner = '  File "/usr/lib/python3.11/queue.py", line 1, in get'
    (entry,) = of(f"Exception in thread T:\nTraceback (most recent call last):\n{outer}\n{inner}\n_queue.Empty")
    assert entry.symptom == "uncaught Empty at queue.py:get"
