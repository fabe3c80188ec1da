"""Tokens of contents, at each method of the JDK that moves bytes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_tool import Outcome
from free_ports import free_port
from token_digests import tokens_of

from undermine.analysis.common_data.tokens import TOKENS

Start = Callable[..., Any]


def moved(outcome: Outcome) -> list[tuple[str, set[str]]]:
    """The operations with tokens in order, each with its tokens. The event of the tokens follows its operation."""
    by_seq = {event.seq: event for event in outcome.trace}
    found = []
    for event in outcome.of(TOKENS):
        operation = by_seq[event.size]
        assert (event.thread, event.stack, event.target) == (operation.thread, operation.stack, "")
        assert operation.end_ns <= event.t_ns == event.end_ns
        assert event.resource.split() == sorted(event.resource.split())
        found.append((operation.op, set(event.resource.split())))
    return found


def text(op: str, *ways: str) -> list[tuple[str, set[str]]]:
    return [(op, set(tokens_of(f"text-{way}".encode()))) for way in ways]


def there(*ways: str) -> list[tuple[str, set[str]]]:
    """Each text is sent, and then received."""
    return [each for way in ways for op in ("net.send", "net.recv") for each in text(op, way)]


def test_nothing_is_recorded_unless_it_is_asked_for(content_program: Start) -> None:
    assert content_program(content=False).seen("streams", "sockets").of(TOKENS) == []


def test_streams_of_files(content_program: Start) -> None:
    outcome = content_program().seen("streams")
    assert moved(outcome) == [*text("file.write", "array", "part"), *text("file.read", "array", "part")]


def test_random_access_to_files(content_program: Start) -> None:
    numbers = [set(tokens_of(number)) for number in (bytes([0, 0, 0, 1, 0, 0, 0, 2]), bytes([0, 0xAB, 0xCD, 0xEF]))]
    outcome = content_program().seen("random")
    assert moved(outcome) == [
        *(("file.write", tokens) for tokens in numbers),
        *text("file.write", "latin"),
        ("file.write", set(tokens_of("abcdef".encode("utf-16-be")))),
        *text("file.write", "array"),
        *(("file.read", tokens) for tokens in numbers),
        *text("file.read", "latin", "array"),
    ]


def test_channels_of_files(content_program: Start) -> None:
    ways = ("buffer", "gathertext-ed", "placed")
    outcome = content_program().seen("channels")
    assert moved(outcome) == [*text("file.write", *ways), *text("file.read", *ways)]


def test_streams_of_sockets(content_program: Start) -> None:
    assert moved(content_program().seen("sockets")) == there("stream")


def test_channels_of_sockets(content_program: Start) -> None:
    assert moved(content_program().seen("blocking")) == there("buffer", "gathertext-ed", "adaptor")


def test_channels_that_never_block(content_program: Start) -> None:
    """Only the part that a short write sent counts, and a read that got nothing has no tokens."""
    begin = tokens_of(b"text-begin." + bytes(100))
    assert moved(content_program().seen("selected")) == [*there("buffer"), ("net.send", set(begin))]


def test_datagrams(content_program: Start) -> None:
    assert moved(content_program().seen("datagrams")) == there("packet", "datagram")


def test_the_payload_of_encrypted_connections(content_program: Start, tmp_path: Path) -> None:
    program = content_program()
    keys = tmp_path / "keys.p12"
    named = ["-alias", "a", "-keyalg", "EC", "-dname", "CN=localhost", "-storetype", "PKCS12", "-validity", "2"]
    command = [program.java.parent / "keytool", "-genkeypair", *named, "-keystore", keys, "-storepass", "secret"]
    subprocess.run(command, check=True, capture_output=True)
    outcome = program.seen("secure", options=(f"-Dkeys={keys}",))
    assert sorted(moved(outcome)) == sorted(there("secret"))


def test_bytes_below_a_named_method(content_program: Start) -> None:
    program, port = content_program(), free_port()
    program.tool.addresses = {f"127.0.0.1:{port}": "s2"}
    program.tool.more_config["operations"] = [
        {"function": ":ContentTarget.send", "op": "msg.send", "kind": {"text": "hello"}, "peer": {"argument": "to"}}
    ]
    assert moved(program.seen("named", options=(f"-Dport={port}",))) == text("raw.send", "named")
