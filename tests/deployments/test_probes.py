"""Probes of servers that answer in odd ways: each probe ends, and reads no more than it needs."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from undermine.deployments import probes

Answering = Callable[[Iterable[bytes]], int]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Starts a server that sends these parts to its first client until the client has gone; returns its port."""
    threads: list[threading.Thread] = []

    def start(parts: Iterable[bytes]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            with listener, contextlib.suppress(OSError), listener.accept()[0] as client:
                client.recv(65536)
                for part in parts:
                    client.sendall(part)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for thread in threads:
        thread.join()


def ask(port: int, timeout_s: float = 60) -> str:
    return probes.http_status("127.0.0.1", port, "/up", 200, timeout_s)


@pytest.mark.parametrize(
    "rest",
    [
        [b"Content-Length: 0\r\n\r\n"],
        itertools.repeat(b"X-Endless: yes\r\n" * 1000),
        itertools.chain([b"\r\n"], itertools.repeat(b"x" * 65536)),
    ],
    ids=["usual", "endless headers", "endless body"],
)
def test_only_the_status_line_counts(answering: Answering, rest: Iterable[bytes]) -> None:
    assert ask(answering(itertools.chain([b"HTTP/1.1 200 OK\r\n"], rest))) == ""


def test_another_status_is_named(answering: Answering) -> None:
    assert "answered 503, not 200" in ask(answering([b"HTTP/1.1 5", b"03 Unavailable\r\n\r\n"]))


def test_a_status_that_comes_in_small_parts_does_not_extend_the_time(answering: Answering) -> None:
    def slowly() -> Iterator[bytes]:
        for byte in b"HTTP/1.1" + b" " * 100 + b"200 OK\r\n\r\n":
            yield bytes([byte])
            time.sleep(0.05)

    assert "timed out" in ask(answering(slowly()), timeout_s=0.5)


def test_answers_that_announce_another_one_are_not_followed(answering: Answering) -> None:
    announced = [b"HTTP/1.1 100 Continue\r\n\r\n"] * 1000 + [b"HTTP/1.1 200 OK\r\n\r\n"]
    assert "answered 100, not 200" in ask(answering(announced))


@pytest.mark.parametrize("parts", [[b"\x1b[31m\xffhello\n"], [b"x" * 1_000_000], []])
def test_an_answer_that_is_not_http_is_no_status(answering: Answering, parts: list[bytes]) -> None:
    why = ask(answering(parts))
    assert "GET /up on 127.0.0.1" in why
    assert "failed" in why
    assert why.isprintable()
    assert len(why) < 200
