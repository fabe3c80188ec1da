"""Which reads only go on with the read before."""

from __future__ import annotations

import pytest
from tables import for_each

from undermine.analysis.reads import first_reads
from undermine.model.event import Event
from undermine.testing import event


def read(source: str = "a", op: str = "net.recv", **more: object) -> Event:
    fields: dict[str, object] = {"target": f"peer:{source}", "resource": f"{source}:1", "thread": "t1", **more}
    return event(op, **fields)  # type: ignore[arg-type]


def other(op: str, **more: object) -> Event:
    return read("z", op, **more)


def flags(*events: Event) -> list[bool]:
    return list(first_reads(events))


@pytest.mark.parametrize("op", ["file.read", "file.map_read", "net.recv", "msg.recv"])
def test_a_read_of_the_same_source_right_after_one_is_its_continuation(op: str) -> None:
    assert flags(read(op=op), read(op=op), read(op=op, loc="m:else#1")) == [True, False, False]


@pytest.mark.parametrize("op", ["file.read", "file.map_read", "net.recv", "msg.recv"])
def test_a_read_of_another_source_is_first_and_so_is_the_return_to_the_one_before(op: str) -> None:
    assert flags(read("a", op), read("b", op), read("a", op), read("a", op)) == [True, True, True, False]


@pytest.mark.parametrize("key", ["node", "pid", "thread"])
def test_each_thread_has_a_memory_of_its_own(key: str) -> None:
    elsewhere: dict[str, object] = {key: {"node": "n2", "pid": 101, "thread": "t2"}[key]}
    assert flags(read(), read(**elsewhere), read(), read(**elsewhere)) == [True, True, False, False]


def test_files_whose_names_differ_only_in_numbers_are_different_files() -> None:
    one, two = (read(op="file.read", target="log-<n>", resource=f"/data/log-{n}") for n in (1, 2))
    assert flags(one, two, two) == [True, True, False]


def test_another_connection_of_the_same_peer_carries_another_message() -> None:
    assert flags(read(resource="10.0.0.1:5000"), read(resource="10.0.0.1:5001")) == [True, True]


@for_each("kind", ["net.recv", "msg.recv"])
@for_each("op", ["net.send", "net.connect", "net.accept", "net.close", "msg.send", "db.write"])
def test_after_anything_else_on_the_network_the_next_message_begins(kind: str, op: str) -> None:
    assert flags(read(op=kind), read(op=kind), other(op), read(op=kind), read(op=kind)) == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_a_send_of_another_thread_ends_a_message_and_its_connect_does_not() -> None:
    """The one that reads need not be the one that answers."""
    assert flags(read(), other("net.send", thread="t2"), read()) == [True, True, True]
    assert flags(read(), other("net.connect", thread="t2"), read()) == [True, True, False]
    assert flags(read(), other("net.send", pid=99), read()) == [True, True, False]


@pytest.mark.parametrize("op", ["net.send", "file.write", "file.close", "file.open", "lock.acquire", "net.recv"])
def test_a_file_that_was_read_stays_read_whatever_else_the_thread_does(op: str) -> None:
    for kind in ("file.read", "file.map_read"):
        assert flags(read(op=kind), other(op), read(op=kind)) == [True, True, False]


@pytest.mark.parametrize("op", ["file.read", "file.write", "lock.release", "sleep"])
def test_a_message_goes_on_whatever_the_thread_does_that_is_not_on_the_network(op: str) -> None:
    assert flags(read(), other(op), read()) == [True, True, False]


@pytest.mark.parametrize(
    "op",
    [
        "file.write",
        "file.map_write",
        "file.stat",
        "file.list",
        "net.send",
        "net.accept",
        "db.read",
        "file.open",
        "thread.start",
    ],
)
def test_an_operation_that_reads_no_bytes_always_counts(op: str) -> None:
    assert flags(other(op), other(op), other(op)) == [True, True, True]


@pytest.mark.parametrize("op", ["file.read", "file.map_read", "net.recv", "msg.recv"])
def test_a_thread_that_ended_has_nothing_in_common_with_the_next_of_its_name(op: str) -> None:
    assert flags(read(op=op), read(op=op), other("thread.end"), read(op=op)) == [True, False, True, True]
    assert flags(read(op=op), other("thread.end", thread="t2"), read(op=op)) == [True, True, False]


def test_a_request_and_its_answer_in_pieces_as_a_server_and_a_client_see_them() -> None:
    """Header and body; only the header of each is first, on both sides."""
    server = [read("c"), read("c"), other("net.send"), read("c"), read("c"), other("net.send")]
    client = [other("net.send"), read("s"), read("s"), other("net.send"), read("s"), read("s")]
    assert flags(*server) == [True, False, True, True, False, True]
    assert flags(*client) == [True, True, False, True, True, False]
