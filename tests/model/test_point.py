"""Points: the identity that must be the same in every run, on every machine and in every agent."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from tables import for_each

from undermine.model.event import Trace, ordered
from undermine.model.point import CLIENT, KEYS, Point, client_point, point_of, stack_id
from undermine.testing import event, point

FULL = {"op": "file.write", "loc": "app:save#2", "node": "n1", "role": "store", "target": "log/<n>", "stack": "ab12"}


def test_the_order_in_which_keys_are_given_does_not_matter() -> None:
    backwards = dict(reversed(FULL.items()))
    assert Point.of(FULL) == Point.of(backwards)
    assert Point.of(FULL).id == Point.of(backwards).id
    assert hash(Point.of(FULL)) == hash(Point.of(backwards))


def test_the_id_is_the_same_on_every_machine() -> None:
    text = "loc=app:save#2\nnode=n1\nop=file.write\nrole=store\nstack=ab12\ntarget=log/<n>"
    assert Point.of(FULL).id == hashlib.blake2b(text.encode(), digest_size=5).hexdigest()
    assert Point.of(FULL).id == "8141fdd294"


@pytest.mark.parametrize("key", sorted(FULL))
def test_every_key_is_part_of_the_identity(key: str) -> None:
    other = Point.of({**FULL, key: "another"})
    assert other != Point.of(FULL)
    assert other.id != Point.of(FULL).id


def test_abstract_in_keeps_only_the_named_keys() -> None:
    assert Point.of(FULL).abstract_in(["op", "node", "unknown"]).as_dict() == {"op": "file.write", "node": "n1"}
    assert Point.of(FULL).abstract_in([]).items == ()


def test_abstract_out_drops_only_the_named_keys() -> None:
    dropped = Point.of(FULL).abstract_out(["stack", "target", "unknown"])
    assert dropped.as_dict() == {k: v for k, v in FULL.items() if k not in ("stack", "target")}


def test_abstracting_takes_a_one_pass_iterable() -> None:
    assert Point.of(FULL).abstract_in(iter(["op", "loc"])).as_dict().keys() == {"op", "loc"}
    assert "op" not in Point.of(FULL).abstract_out(iter(["op"])).as_dict()


def test_missing_keys_match_anything_and_present_ones_must_be_equal() -> None:
    full = Point.of(FULL)
    assert full.matches(full)
    assert full.abstract_in(["op"]).matches(full)
    assert Point(()).matches(full)
    assert not full.matches(full.abstract_in(["op"]))
    assert not Point.of({"op": "file.read"}).matches(full)


def test_items_are_read_by_name() -> None:
    full = Point.of(FULL)
    assert full["loc"] == "app:save#2"
    assert full.get("none", "else") == "else"
    with pytest.raises(KeyError):
        full["none"]


def test_points_are_described() -> None:
    assert str(Point.of(FULL)) == "file.write log/<n> at app:save#2 on n1"
    assert str(Point.of({**FULL, "content": "7"})) == "file.write log/<n> with content 7 at app:save#2 on n1"
    assert str(Point.of({"op": "net.accept", "role": "store"})) == "net.accept on store"
    assert str(Point(())) == "any operation"


@for_each(
    ("op", "io_type", "kind"),
    [
        ("file.read", "read", "file"),
        ("file.map_read", "read", "file"),
        ("file.stat", "read", "file"),
        ("file.list", "read", "file"),
        ("net.recv", "read", "net"),
        ("net.accept", "read", "net"),
        ("file.write", "write", "file"),
        ("file.map_write", "write", "file"),
        ("net.send", "write", "net"),
        ("file.open", "write", "file"),
        ("file.close", "close", "file"),
        ("file.fsync", "flush", "file"),
        ("net.close", "close", "net"),
        ("msg.recv", "read", "msg"),
        ("msg.send", "write", "msg"),
        ("db.read", "read", "db"),
        ("db.commit", "write", "db"),
    ],
)
def test_operations_are_reads_writes_or_neither_and_of_a_kind(op: str, io_type: str, kind: str) -> None:
    assert (point(op).io_type, point(op).kind) == (io_type, kind)


@pytest.mark.parametrize(
    ("op", "target", "peer", "message_kind"),
    [
        ("net.send", "peer:n2", "n2", ""),
        ("net.recv", "accepted", "", ""),
        ("msg.send", "append entries peer:n2", "n2", "append entries"),
        ("msg.recv", "vote other", "", "vote"),
        ("db.write", "SET key peer:n3", "n3", "SET"),
        ("db.commit", "COMMIT table data.db", "", "COMMIT"),
        ("file.write", "a peer:n2", "", ""),
    ],
)
def test_a_target_names_the_peer_and_the_kind_of_message(
    op: str, target: str, peer: str, message_kind: str
) -> None:
    made = point(op, target=target)
    assert (made.peer, made.message_kind) == (peer, message_kind)


def test_the_stack_id_is_what_the_protocol_page_says() -> None:
    """It is "the BLAKE2b-48 hash (hex) of the `loc`s joined by a newline"."""
    stack = ("app:save#2", "app:serve#1")
    assert stack_id(stack) == hashlib.blake2b(b"app:save#2\napp:serve#1", digest_size=48 // 8).hexdigest()
    assert stack_id(stack) == "5203961d19c8"
    assert stack_id(reversed(stack)) != stack_id(stack)


def test_a_point_of_an_event_has_all_keys_and_no_locator() -> None:
    first = event(thread="t1", pid=1, seq=1, t_ns=5, resource="data/17", incarnation=1)
    later = event(thread="t2", pid=2, seq=9, t_ns=99, resource="data/18", incarnation=2, line=7, size=3)
    assert tuple(sorted(KEYS)) == tuple(name for name, _ in point_of(first).items)
    assert point_of(first) == point_of(later)


def test_a_point_has_a_content_only_if_its_event_has_one() -> None:
    one, two, none = (point_of(event("msg.send", content=content)) for content in ("1", "2", ""))
    assert len({one.id, two.id, none.id}) == 3
    assert one["content"] == "1"
    assert one.abstract_out(("content",)) == none
    assert none.matches(one)
    assert not one.matches(two)


def test_a_client_point_is_of_the_pseudo_node() -> None:
    made = client_point("put", "n2")
    assert (made["op"], made["loc"], made["node"], made["role"], made["target"]) == (
        "client.op",
        "put",
        CLIENT,
        CLIENT,
        "n2",
    )


def test_points_survive_json() -> None:
    made = Point.of({**FULL, "target": 'ü "quoted"\n'})
    again = msgspec.json.decode(msgspec.json.encode(made), type=Point)
    assert again == made
    assert again.id == made.id


def test_events_are_ordered_by_time_and_ties_are_broken_the_same_way_each_time() -> None:
    events = [event(t_ns=2), event(t_ns=1, node="n2"), event(t_ns=1, seq=2), event(t_ns=1, seq=1), event(t_ns=1, pid=9)]
    expected = [(1, "n1", 9, 1), (1, "n1", 100, 1), (1, "n1", 100, 2), (1, "n2", 100, 1), (2, "n1", 100, 1)]
    assert [(e.t_ns, e.node, e.pid, e.seq) for e in ordered(events)] == expected
    assert ordered(events[::-1]) == ordered(events)


def test_a_trace_is_iterated_in_its_order() -> None:
    trace = Trace((event(seq=1), event(seq=2)))
    assert [e.seq for e in trace] == [1, 2]
    assert len(trace) == 2
