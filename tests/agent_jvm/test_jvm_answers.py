"""Injected errors and delays look to the program like those of the JDK itself, at every kind of operation."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

REFUSED = {
    "create": ("file.create", "create -> FileNotFoundException: create (Input/output error)"),
    "ioOpen": ("file.open", "ioOpen -> FileNotFoundException: ioOpen (Input/output error)"),
    "write": ("file.write", "write -> IOException: Input/output error"),
    "read": ("file.read", "read -> IOException: Input/output error"),
    "sync": ("file.fsync", "sync -> SyncFailedException: sync failed"),
    "truncate": ("file.truncate", "truncate -> IOException: Input/output error"),
    "close": ("file.close", "close -> IOException: Input/output error"),
    "mkdir": ("file.mkdir", "mkdir -> false"),
    "delete": ("file.unlink", "delete -> false"),
    "rename -> renamed": ("file.rename", "rename -> false"),
    "list": ("file.list", "list -> null"),
    "stat": ("file.stat", "stat -> false"),
    "nioOpen": ("file.open", "nioOpen -> FileSystemException: nioOpen: Input/output error"),
    "nioRead": ("file.read", "nioRead -> IOException: Input/output error"),
    "nioWrite": ("file.write", "nioWrite -> IOException: Input/output error"),
    "nioSync": ("file.fsync", "nioSync -> IOException: Input/output error"),
    "nioClose": ("file.close", "nioClose -> IOException: Input/output error"),
    "nioMkdir": ("file.mkdir", "nioMkdir -> FileSystemException: nioMkdir: Input/output error"),
    "nioDelete": ("file.unlink", "nioDelete -> FileSystemException: nioDelete: Input/output error"),
    "nioMove -> nioMoved": ("file.rename", "nioMove -> FileSystemException: nioMove -> nioMoved: Input/output error"),
}
"""The target of the error, its operation, and the line that the program prints."""
AS_EVER = {"write again -> written", "valid -> false", "nioClosed -> false"}
EARLIER = {"write": 1, "nioWrite": 1, "sync": 0, "close": 1, "nioClose": 1, "ioOpen": 0, "nioOpen": 0}
"""The number of such operations that prepare the file."""


def _refuse_all(tool: Any, place: str) -> None:
    for name, (op, _) in REFUSED.items():
        fault = {"fault": "error", "error": "EIO", "scope": "once"}
        tool.step(fault, {"op": op, "target": name, "place": place, "nth": 1 + EARLIER.get(name, 0)})


@pytest.mark.parametrize("place", ["before", "after"])
def test_errors_of_files_are_those_of_the_jdk(target: Any, place: str) -> None:
    _refuse_all(target.tool, place)
    outcome = target.run("refusals").ok()
    assert target.troubles() == ""
    assert set(outcome.out.splitlines()) == {told for _, told in REFUSED.values()} | AS_EVER
    done = {
        name for name in ("create", "mkdir", "renamed", "nioMkdir", "nioMoved") if (target.tool.data / name).exists()
    }
    assert done == (set() if place == "before" else {"create", "mkdir", "renamed", "nioMkdir", "nioMoved"})
    assert len(outcome.receipts) == len(REFUSED)
    errors = [event.error for event in outcome.trace if event.op != "file.stat" and event.error]
    assert errors == ([] if place == "after" else ["EIO"] * (len(REFUSED) - 1))


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back everything it receives."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(ConnectionResetError):
                while data := connection.recv(100):
                    connection.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.close()


CALLS = [
    ("net.connect", 1, "ECONNREFUSED", "connect -> ConnectException: Connection refused"),
    ("net.send", 1, "EPIPE", "send -> SocketException: Broken pipe"),
    ("net.recv", 1, "ECONNRESET", "recv -> SocketException: Connection reset"),
    ("net.close", 1, "EIO", "close -> SocketException: Input/output error"),
    ("net.send", 3, "ECONNRESET", "nioSend -> SocketException: Connection reset"),
    ("net.recv", 3, "ECONNRESET", "nioRecv -> SocketException: Connection reset"),
]


def test_errors_of_sockets_are_those_of_the_jdk(target: Any, echo: int) -> None:
    target.tool.addresses = {f"127.0.0.1:{echo}": "s2"}
    for op, nth, error, _ in CALLS:
        fault = {"fault": "error", "error": error, "scope": "once"}
        target.tool.step(fault, {"op": op, "target": "peer:s2", "nth": nth})
    outcome = target.run("calls", options=(f"-Dport={echo}",)).ok()
    assert target.troubles() == ""
    told = set(outcome.out.splitlines()) - {"closed -> true", "closed -> false"}  # JDKs differ in that
    assert told == {told for *_, told in CALLS} | {
        "connect again -> connected", "send again -> sent", "recv again -> 1", "start -> started",
        "nioSend again -> 1", "nioRecv again -> 1",
    }  # fmt: skip
    assert sorted(event.error for event in outcome.trace if event.error) == sorted(error for _, _, error, _ in CALLS)


def test_a_channel_that_could_not_connect_is_closed(target: Any, echo: int) -> None:
    target.tool.addresses = {f"127.0.0.1:{echo}": "s2"}
    for nth in (1, 2):
        target.tool.step({"fault": "error", "error": "ECONNREFUSED", "scope": "once"}, {"op": "net.connect", "nth": nth})
    outcome = target.run("unconnected", options=(f"-Dport={echo}",)).ok()
    assert target.troubles() == ""
    *told, again = outcome.out.splitlines()
    refused = "ConnectException: Connection refused"
    assert told == [f"channel -> {refused}", "open -> false", f"socket -> {refused}"]
    assert again.startswith("again -> SocketException: Socket")
    assert outcome.of("net.close") == []


def test_an_error_after_a_non_blocking_delay_is_raised(target: Any, echo: int) -> None:
    target.tool.addresses = {f"127.0.0.1:{echo}": "s2"}
    target.tool.step({"fault": "delay", "delay_s": 0.1, "mode": "operation"}, {"op": "net.recv", "nth": 3})
    reset = {"fault": "error", "error": "ECONNRESET", "scope": "once"}
    target.tool.step(reset, {"op": "net.recv", "nth": 3, "place": "after"})
    outcome = target.run("calls", options=(f"-Dport={echo}",)).ok()
    assert "nioRecv -> SocketException: Connection reset" in outcome.out
    assert {receipt.step for receipt in outcome.receipts} == {0, 1}


def test_delays_hold_operations_of_files_and_sockets(target: Any, echo: int) -> None:
    target.tool.addresses = {f"127.0.0.1:{echo}": "s2"}
    delay = {"fault": "delay", "delay_s": 0.3, "mode": "thread"}
    for op, place in (
        ("net.connect", "before"),
        ("net.recv", "after"),
        ("file.fsync", "before"),
        ("file.list", "after"),
    ):
        target.tool.step(delay, {"op": op, "place": place})
    target.tool.step({"fault": "delay", "delay_s": 0.3, "mode": "operation"}, {"op": "net.recv", "nth": 3})
    outcome = target.run("calls", "file", "channel", options=(f"-Dport={echo}",)).ok()
    assert target.troubles() == ""
    assert "nioRecv -> 1" in outcome.out
    held = {receipt.step: receipt.held_ns for receipt in outcome.receipts}
    assert sorted(held) == [0, 1, 2, 3, 4]
    assert all(ns >= 300_000_000 for ns in held.values())


def test_a_lasting_error_hits_all_operations_on_a_file(target: Any) -> None:
    target.tool.step({"fault": "error", "error": "EIO", "scope": "disk"}, {"op": "file.write"})
    outcome = target.run("streams", "paths").ok()
    assert outcome.out.splitlines()[0] == "java.io.IOException: Input/output error"
    assert outcome.out.splitlines()[1].startswith("java.nio.file.FileSystemException: ")
    assert [event.error for event in outcome.of("file.mkdir")] == ["EIO"]
