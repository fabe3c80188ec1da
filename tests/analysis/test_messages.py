"""Messages: by bytes, by logical operations, by order; their kinds, and the functions that handled them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from undermine.analysis.causality.causality import causality
from undermine.analysis.messages.logical import BACKWARDS, COUNTS_DIFFER, NEVER_RECEIVED, NO_AGENT, NOT_KNOWN
from undermine.analysis.messages.messages import Messages, messages
from undermine.analysis.messages.pairing import pair
from undermine.analysis.reading.naming import sent_from
from undermine.model.columns import Columns
from undermine.model.event import AgentInfo, Event
from undermine.model.point import stack_id
from undermine.testing import event

A, B = "10.0.0.1:41200", "10.0.0.2:20001"
SENDING = ("app:Peer.send#1", "app:main#3")
LOOP = ("app:read_frame#2", "app:serve#1")


def did(op: str, node: str, t: int, end: int = -1, **more: object) -> Event:
    """An operation of the only thread of a node; over at once, unless it is said when it ends."""
    fields = {"pid": int(node[1:]), "seq": t, "t_ns": t, "end_ns": t + 1 if end == -1 else end, "thread": "T", **more}
    return event(op, node, resource=fields.pop("resource", "x"), target=fields.pop("target", "x"), **fields)


def sends(t: int, size: int, op: str = "net.send", **more: object) -> Event:
    more = {"stack": SENDING, "target": "peer:n2", **more}
    return did(op, "n1", t, resource=f"{A}>{B}/1", size=size, result=size, **more)


def takes(t: int, size: int, op: str = "net.recv", **more: object) -> Event:
    more = {"stack": LOOP, "target": "peer:n1", **more}
    more.setdefault("resource", f"{B}>{A}/1")
    return did(op, "n2", t, more.pop("end", -1), size=999, result=size, **more)


def says(t: int, end: int, kind: str, **more: object) -> Event:
    return did("msg.send", "n1", t, end, target=f"{kind} peer:n2", stack=SENDING, **more)


def hears(t: int, end: int, kind: str, **more: object) -> Event:
    return did("msg.recv", "n2", t, end, target=f"{kind} peer:n1", stack=LOOP, **more)


def found(*events: Event, agent: str = "") -> Messages:
    """The messages in a trace whose processes have this agent, if one is given."""
    owners = {(e.node, e.incarnation, e.pid) for e in events if agent}
    columns = Columns.of(events, [AgentInfo(*owner, agent, "", 2) for owner in sorted(owners)])
    pairing = pair(columns)
    known = causality(columns, pairing)
    assert known.problems() == []
    return messages(columns, pairing, known.contexts, known.cause)


def pairs(some: Messages) -> list[tuple[int, int]]:
    """By the numbers of the events, which are their times."""
    seq = some.columns.seq
    return [(int(seq[one.send]), int(seq[one.receive])) for one in some]


def whys(some: Messages) -> list[tuple[int, str]]:
    return [(int(some.columns.seq[one.index]), one.why) for one in some.unpaired]


# --- by bytes


def test_a_message_is_a_send_and_what_took_its_last_byte() -> None:
    some = found(sends(1, 10), sends(3, 5), takes(11, 4), takes(13, 7), takes(15, 4))
    assert pairs(some) == [(1, 13), (3, 15)]
    assert some.bytes.tolist() == [10, 5]
    assert (some[0].sender, some[0].receiver) == ("n1", "n2")
    assert some[0].kind == f"app:main > Peer.send#1 {stack_id(SENDING)}"


def test_a_partly_received_message_does_not_count() -> None:
    assert pairs(found(sends(1, 10), takes(11, 9))) == []


def test_a_read_at_a_stream_receives_the_message() -> None:
    some = found(sends(1, 10), sends(3, 5), takes(11, 15), takes(13, 12, "stream.read"), takes(15, 3, "stream.read"))
    assert pairs(some) == [(1, 13), (3, 15)]


def test_senders_with_different_stacks_send_different_kinds() -> None:
    other = ("app:Peer.send#1", "app:heartbeat#1")
    some = found(sends(1, 10), sends(3, 5, stack=other), takes(11, 15))
    assert len({one.kind for one in some}) == 2


def test_no_messages() -> None:
    some = found()
    assert (len(some), whys(some)) == (0, [])
    assert len(found(did("clock", "n1", 1))) == 0


def test_a_stream_of_which_nothing_is_paired_has_no_messages() -> None:
    closes = did("net.recv", "n1", 3, resource=f"{A}>{B}/1", target="peer:n2", size=999)
    assert len(found(closes, takes(11, 0), takes(13, 0, "stream.read"))) == 0


# --- logical operations


def test_a_logical_operation_sends_all_its_bytes_and_says_the_kind() -> None:
    some = found(says(1, 8, "vote"), sends(2, 4, "raw.send"), sends(5, 10, "raw.send"), takes(11, 14))
    assert pairs(some) == [(1, 11)]
    assert (some[0].kind, int(some.bytes[0])) == ("vote", 14)


def test_a_logical_operation_of_which_a_part_was_not_received_is_no_message() -> None:
    some = found(says(1, 8, "vote"), sends(2, 4, "raw.send"), sends(5, 10, "raw.send"), takes(11, 4))
    assert pairs(some) == []
    assert whys(some) == [(1, NEVER_RECEIVED)]


def test_a_logical_operation_receives_the_bytes_within_it() -> None:
    some = found(
        *(says(1, 4, "vote"), sends(2, 4, "raw.send"), says(5, 9, "append"), sends(6, 6, "raw.send")),
        *(hears(10, 20, "vote"), takes(12, 4, "raw.recv"), hears(21, 30, "append"), takes(23, 6, "raw.recv")),
    )
    assert pairs(some) == [(1, 10), (5, 21)]


def test_bytes_left_in_a_buffer_are_received_by_later_reads() -> None:
    said = [one for t in (1, 5, 9) for one in (says(t, t + 3, "vote"), sends(t + 1, 4, "raw.send"))]
    some = found(*said, hears(20, 25, "vote"), takes(21, 12, "raw.recv"), hears(26, 27, "vote"), hears(28, 29, "vote"))
    assert pairs(some) == [(1, 20), (5, 26), (9, 28)]


def test_a_handler_is_found_in_what_the_receive_led_to() -> None:
    some = found(
        *(says(1, 4, "vote"), sends(2, 4, "raw.send"), takes(11, 4), hears(13, 20, "on_vote")),
        did("file.write", "n2", 15, stack=("app:Log.add#1", "app:on_vote#1", *LOOP)),
    )
    assert pairs(some) == [(1, 13)]
    assert (some[0].kind, some[0].handler) == ("vote", "app:on_vote")


def test_a_function_that_is_named_is_the_handler_also_in_the_module_that_receives() -> None:
    some = found(
        *(says(1, 4, "vote"), sends(2, 4, "raw.send"), takes(11, 4), hears(13, 20, "vote")),
        did("file.write", "n2", 15, stack=("log:add#1", "app:on_vote#1", *LOOP)),
    )
    assert some[0].handler == "app:on_vote"


def test_a_handler_that_is_named_tells_the_kind_of_mere_sends() -> None:
    some = found(sends(1, 4), sends(3, 10), takes(11, 14), hears(13, 20, "vote"))
    assert pairs(some) == [(1, 13), (3, 13)]
    assert {one.kind for one in some} == {"vote"}


def test_the_rest_of_a_message_is_of_the_same_kind_however_it_came() -> None:
    """A server sends its answer in two parts, and who asked has read one of them when it knows what it is."""
    answer, parts = [sends(1, 4), sends(3, 10)], [hears(10, 20, "200"), takes(12, 4, "raw.recv")]
    asks = did("net.send", "n2", 23, resource=f"{B}>{A}/1", target="peer:n1", size=4, result=4)
    stack_kind = f"app:main > Peer.send#1 {stack_id(SENDING)}"
    assert [one.kind for one in found(*answer, *parts, takes(25, 10))] == ["200", "200"]
    assert [one.kind for one in found(*answer, *parts, asks, takes(25, 10))][:2] == ["200", stack_kind]
    assert found(*answer, *parts, hears(21, 22, "201"), takes(25, 10))[1].kind == stack_kind
    assert [one.kind for one in found(*answer, *parts, takes(25, 10, thread="other"))] == ["200", stack_kind]


def test_a_send_to_somebody_else_is_no_part_of_a_logical_operation() -> None:
    some = found(says(1, 8, "vote"), sends(2, 4, target="peer:n3"), takes(11, 4))
    assert pairs(some) == [(2, 11)]
    assert whys(some) == [(1, COUNTS_DIFFER)]


def test_a_peer_without_a_name_is_known_by_its_address() -> None:
    """An answer to a client, which isn't a node."""
    says_it = did("msg.send", "n1", 1, 8, target="answer other", resource=f"answer {B}", stack=SENDING)
    some = found(says_it, sends(2, 4, target="accepted"), takes(11, 4))
    assert (pairs(some), whys(some), some[0].kind) == ([(1, 11)], [], "answer")
    elsewhere = replace(says_it, resource="answer 10.0.0.3:20001")
    some = found(elsewhere, sends(2, 4, target="accepted"), takes(11, 4))
    assert (pairs(some), whys(some)) == ([(2, 11)], [(1, NOT_KNOWN)])


def test_while_faults_last_the_raw_operations_to_the_same_peer_are_part_of_it() -> None:
    some = found(says(1, 8, "vote"), sends(2, 4), takes(11, 4))
    assert pairs(some) == [(1, 11)]


def test_a_database_command_is_the_kind_of_its_bytes() -> None:
    some = found(did("db.write", "n1", 1, 9, target="SET key peer:n2"), sends(2, 4, "raw.send"), takes(11, 4))
    assert (pairs(some), some[0].kind) == ([(2, 11)], "SET key")


# --- by order


def test_logical_operations_without_bytes_are_paired_by_order_if_they_are_as_many() -> None:
    some = found(
        says(1, 2, "a"), says(3, 4, "b"), says(5, 6, "a"), hears(11, 12, "b"), hears(13, 14, "a"), hears(15, 16, "a")
    )
    assert pairs(some) == [(1, 13), (3, 11), (5, 15)]


def test_kinds_may_have_other_names_at_the_other_end() -> None:
    assert pairs(found(says(1, 2, "a"), says(3, 4, "b"), hears(11, 12, "on_a"), hears(13, 14, "on_b"))) == [
        (1, 11),
        (3, 13),
    ]


def test_handling_elsewhere_is_found_by_order_though_the_bytes_are_known() -> None:
    some = found(says(1, 4, "a"), sends(2, 4, "raw.send"), takes(11, 4), hears(20, 21, "a", thread="other"))
    assert pairs(some) == [(1, 20)]


def test_the_sender_of_the_bytes_is_the_peer_of_a_receive_that_names_none() -> None:
    """Messages are buffered, and sent later, two at once."""
    later = sends(10, 8, stack=("app:Peer.flush#1",))
    heard = [did("msg.recv", "n2", t, t + 1, target=f"{kind} other", stack=LOOP) for t, kind in ((13, "a"), (15, "b"))]
    some = found(says(1, 2, "a"), says(3, 4, "b"), later, takes(11, 8), *heard)
    assert {(1, 13), (3, 15)} <= set(pairs(some))
    assert whys(some) == []


def flushed(t: int, buffered: int, port: int = 0) -> list[Event]:
    """A message that is buffered at a moment, sent at another one from elsewhere, received and handled."""
    a = A[:-1] + str(port)
    later = did(
        "net.send", "n1", t, resource=f"{a}>{B}/1", target="peer:n2", size=4, result=4, stack=("app:Peer.flush#1",)
    )
    return [says(buffered, buffered + 1, "a"), later, takes(t + 2, 4, resource=f"{B}>{a}/1"), hears(t + 4, t + 5, "a")]


def test_buffered_messages_are_paired_by_order_also_if_it_is_seen_who_sends_them() -> None:
    some = found(*flushed(10, 1), *flushed(20, 3))
    assert (pairs(some), whys(some)) == ([(1, 14), (3, 24)], [])


@pytest.mark.parametrize(
    "events",
    [
        [*flushed(10, 11)],
        [*flushed(10, 1), *flushed(20, 3, port=1)],
        [*flushed(10, 1), *flushed(20, 3), says(5, 6, "a")],
    ],
    ids=["sent before", "two connections", "one more"],
)
def test_messages_that_were_sent_directly_are_not_taken_for_buffered_ones(events: list[Event]) -> None:
    some = found(*events)
    assert pairs(some) == [(one.seq, one.seq + 4) for one in events if one.op == "net.send"]
    assert {why for _, why in whys(some)} == {COUNTS_DIFFER}


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([says(1, 2, "a"), says(3, 4, "a"), hears(11, 12, "a")], COUNTS_DIFFER),
        ([says(20, 21, "a"), hears(11, 12, "a")], BACKWARDS),
        ([did("msg.send", "n1", 1, target="a other")], NOT_KNOWN),
        ([did("msg.send", "n1", 1, target="a peer:store")], NO_AGENT),
    ],
)
def test_why_logical_operations_have_no_other_end(events: list[Event], why: str) -> None:
    some = found(*events)
    assert pairs(some) == []
    assert {reason for _, reason in whys(some)} == {why}
    assert len(some.unpaired) == len(events)


def test_a_message_to_a_store_goes_to_a_peer_without_an_agent() -> None:
    subscribes = did("msg.send", "n1", 1, 8, target="SUBSCRIBE peer:redis", stack=SENDING)
    hidden = did("raw.send", "n1", 2, resource=f"{A}>10.0.0.9:6379/1", target="peer:redis", size=4, result=4)
    assert whys(found(subscribes, hidden)) == [(1, NO_AGENT)]


def test_a_dropped_message_does_not_count() -> None:
    some = found(says(1, 2, "a"), says(3, 4, "a", error="LOST"), hears(11, 12, "a"))
    assert (pairs(some), whys(some)) == ([(1, 11)], [])


# --- handlers


def test_the_handler_is_the_outermost_function_that_was_called_because_of_the_receive() -> None:
    some = found(
        *(sends(1, 4), takes(11, 4), did("lock.acquire", "n2", 13, stack=("app:serve#2",))),
        did("file.write", "n2", 15, stack=("app:Log.add#1", "app:Store.put#1", "app:serve#4")),
    )
    assert some[0].handler == "app:Store.put"


def test_a_callback_is_a_handler_itself() -> None:
    some = found(
        *(sends(1, 4), takes(11, 4, stack=("asyncio.selector_events:_SelectorTransport._read#1",))),
        did("file.write", "n2", 15, stack=("app:Log.add#1", "app:Protocol.data_received#1")),
    )
    assert some[0].handler == "app:Protocol.data_received"


def test_a_function_that_receives_and_does_all_the_work_is_the_handler() -> None:
    did_it = did("file.write", "n2", 15, stack=("app:serve#2",))
    assert found(sends(1, 4), takes(11, 4), did_it)[0].handler == "app:serve"
    assert found(sends(1, 4), takes(11, 4))[0].handler == "app:read_frame"


@pytest.mark.parametrize(
    "reads", [("app:main#9",), ("app:read_frame#2", "app:main#9"), ("asyncio.streams:StreamReader.read#3",)]
)
def test_the_task_of_a_limited_wait_is_called_by_who_waits(reads: tuple[str, ...]) -> None:
    """Before Python 3.12 the function that waits is not in the stack of what `wait_for` reads."""
    loop = ("app:main#9",) if reads[0].startswith("app") else ("asyncio.events:Handle._run#1",)
    serve = ("app:serve#1", *(loc for loc in loop if loc.startswith("app")))
    some = found(
        *(sends(1, 4), did("task.start", "n2", 2, resource="serve-1")),
        did("handover.take", "n2", 3, 10, resource="serve-1", stack=loop),
        did("timeout", "n2", 4, 41, resource="", target="wait_for", size=1000, stack=serve),
        did("task.start", "n2", 5, 5, resource="read-2", stack=serve),
        did("handover.take", "n2", 20, 30, resource="read-2", stack=loop),
        takes(21, 4, end=22, stack=reads),
        did("handover.take", "n2", 40, 60, resource="serve-1", stack=loop),
        did("file.write", "n2", 45, stack=("app:Log.add#1", "app:Store.put#1", "app:serve#4", *serve[1:])),
    )
    assert some[0].handler == "app:Store.put"


def test_that_a_limited_wait_makes_a_task_is_no_handling() -> None:
    serve, close = ("app:serve#1",), ("app:close#2", "app:serve#3")
    some = found(
        *(sends(1, 4), did("task.start", "n2", 2, resource="serve-1", stack=serve)),
        did("handover.take", "n2", 3, 60, resource="serve-1", stack=serve),
        takes(11, 4),
        did("net.close", "n2", 20, stack=close),
        did("timeout", "n2", 30, 50, resource="", target="wait_for", size=1000, stack=close),
        did("task.start", "n2", 31, 31, resource="closed-2", stack=close),
        did("file.write", "n2", 55, stack=("app:put#1", "app:serve#4")),
    )
    assert some[0].handler == "app:put"


def test_a_handshake_does_not_end_the_handling() -> None:
    calls = {"resource": f"{B}>10.0.0.3:1/2+tls", "size": 0, "stack": ("app:Store.put#1", "app:serve#4")}
    greets = did("net.recv", "n2", 13, result=0, **calls)
    later = did("file.write", "n2", 15, stack=("app:Store.put#2", "app:serve#4"))
    assert found(sends(1, 4), takes(11, 4), greets, later)[0].handler == "app:Store.put"


def test_the_end_of_a_thread_is_no_handling() -> None:
    end = did("thread.end", "n2", 15, stack=("threading:Thread._bootstrap#1",))
    assert found(sends(1, 4), takes(11, 4), end)[0].handler == "app:read_frame"


def test_operations_after_the_next_receive_are_not_part_of_the_handling() -> None:
    later = did("file.write", "n2", 25, stack=("app:Store.put#1", "app:serve#4"))
    some = found(sends(1, 4), takes(11, 4), sends(15, 4), takes(21, 4), later)
    assert [one.handler for one in some] == ["app:read_frame", "app:Store.put"]


def test_a_pool_that_takes_its_socket_back_is_not_the_handler() -> None:
    asking = ("rpc:Pool.call#1", "app:Shard.push#1", "app:main#1")
    reply = takes(11, 4, stack=("rpc:read_frame#2", *asking))
    back = did("lock.acquire", "n2", 13, stack=("rpc:Pool._give_back#1", *asking))
    assert found(sends(1, 4), reply, back)[0].handler == "app:Shard.push"
    goes_on = did("lock.release", "n2", 15, stack=("app:Shard.push#2", "app:main#1"))
    assert found(sends(1, 4), reply, back, goes_on)[0].handler == "app:Shard.push"
    calls = did("file.write", "n2", 15, stack=("log:Log.add#1", "app:Shard.push#2", "app:main#1"))
    assert found(sends(1, 4), reply, back, calls)[0].handler == "log:Log.add"


def test_the_handler_is_the_function_that_a_dispatcher_calls() -> None:
    serve = ("rpc:Server._serve#1", "process:spawn.<locals>.run#1")
    request = takes(11, 4, stack=("rpc:read_frame#2", *serve))
    called = ("shard:Shard.put#1", "shard:methods.<locals>.<lambda>#1", "rpc:Server._answer#1", *serve)
    assert found(sends(1, 4), request, did("lock.acquire", "n2", 13, stack=called))[0].handler == "shard:Shard.put"
    answers = did("net.send", "n2", 13, stack=("rpc:send_frame#1", *serve))
    assert found(sends(1, 4), request, answers)[0].handler == "rpc:Server._serve"


def test_once_the_function_that_polled_has_returned_the_handling_is_over() -> None:
    tick = ("app:tick#2", "app:run#1")
    polled = did("poll", "n2", 5, stack=("poller:Poller.poll#1", *tick))
    got = takes(11, 4, stack=("net:Link.read#1", "poller:Poller.poll#2", *tick))
    handles = did("file.write", "n2", 13, stack=("journal:add#1", "app:on_message#1", "poller:Poller.poll#2", *tick))
    next_tick = did("file.write", "n2", 15, stack=("journal:flush#1", "app:tick#3", "app:run#1"))
    assert found(sends(1, 4), polled, got, handles, next_tick)[0].handler == "app:on_message"
    again = [
        replace(one, t_ns=one.t_ns + 20, end_ns=one.end_ns + 20, seq=one.seq + 20) for one in (polled, got, next_tick)
    ]
    both = found(sends(1, 4), polled, got, handles, next_tick, sends(21, 4), *again)
    assert [one.handler for one in both] == ["app:on_message", "net:Link.read"]
    assert found(sends(1, 4), polled, got, next_tick)[0].handler == "journal:flush", "a poller that only fetches"


def test_clocks_say_who_handled_a_message_only_where_nothing_else_does() -> None:
    got = takes(11, 4, stack=("net:Link.read#1", "core:serve#1"))
    decodes = did("clock", "n2", 13, stack=("codec:decode#1", "core:serve#1"))
    counts = did("clock", "n2", 15, stack=("state:finished#1", "core:serve#1"))
    writes = did("file.write", "n2", 17, stack=("state:keep#1", "core:serve#1"))
    rests = did("sleep", "n2", 16, stack=("core:serve#2",))
    assert found(sends(1, 4), got, decodes, counts)[0].handler == "state:finished"
    assert found(sends(1, 4), got, decodes, counts, writes)[0].handler == "state:keep"
    assert found(sends(1, 4), got, decodes, counts, rests, writes)[0].handler == "state:finished"
    assert found(sends(1, 4), got, rests, writes)[0].handler == "core:serve"


def test_closing_the_connection_ends_the_handling() -> None:
    closing = ("app:close#1", "app:serve#2")
    closes = did("net.close", "n2", 13, resource=f"{B}>{A}/1", stack=closing)
    waits = did("task.start", "n2", 15, stack=("app:close#2", "app:serve#2"))
    assert found(sends(1, 4), takes(11, 4), closes, waits)[0].handler == "app:read_frame"
    assert found(sends(1, 4), takes(11, 4), replace(closes, resource="another"), waits)[0].handler == "app:close"


def test_a_message_that_a_logical_receive_only_parsed_is_handled_after_it() -> None:
    parses = did("msg.recv", "n2", 13, 14, target="POST accepted", stack=("http.server:handle_one_request#3",))
    stores = did("file.write", "n2", 17, stack=("app:keep#1", "app:do_POST#4"))
    rest = replace(takes(15, 4, stack=("app:do_POST#1",)), seq=15)
    other = did("queue.get", "n2", 15, stack=("pool:next#1",))
    assert [one.handler for one in found(sends(1, 4), takes(11, 4), parses, stores)] == ["app:do_POST"]
    both = found(sends(1, 4), takes(11, 4), parses, sends(12, 4), rest, stores)
    assert both[0].handler == "app:do_POST", "it has read more of it by itself"
    assert found(sends(1, 4), takes(11, 4), parses, other, stores)[0].handler == "http.server:handle_one_request"


def test_a_clock_of_which_only_the_place_is_known_says_nothing_of_the_handler() -> None:
    tick = ("app:tick#2", "app:run#1")
    polled = did("poll", "n2", 5, stack=("poller:Poller.poll#1", *tick))
    got = takes(11, 4, stack=("net:Link.read#1", "poller:Poller.poll#2", *tick))
    looks = did("clock", "n2", 12, stack=("time:now#0",))
    handles = did("file.write", "n2", 13, stack=("journal:add#1", "app:on_message#1", "poller:Poller.poll#2", *tick))
    assert found(sends(1, 4), polled, got, looks, handles, agent="jvm/1")[0].handler == "app:on_message"
    assert found(sends(1, 4), polled, got, looks, agent="jvm/1")[0].handler == "net:Link.read"
    called = did("clock", "n2", 12, stack=("app:data_received#1",))
    assert found(sends(1, 4), takes(11, 4, stack=("loop:read#1",)), called)[0].handler == "app:data_received"


def test_operations_during_the_receive_are_not_handling() -> None:
    got = takes(11, 4, "stream.read", end=20, stack=("app:read#1", "app:serve#1"))
    inside = did("future.set", "n2", 15, stack=("library:finish#1", "app:read#1", "app:serve#1"))
    assert found(sends(1, 4), takes(8, 4), got, inside)[0].handler == "app:read"


def test_a_receive_within_the_receive_does_not_end_the_handling() -> None:
    got = takes(11, 4, "stream.read", end=20, stack=("app:read#1", "app:serve#1"))
    inside = takes(13, 4, end=15, stack=("library:fill#1", "app:read#1", "app:serve#1"))
    stores = did("file.write", "n2", 25, stack=("store:put#1", "app:serve#2"))
    assert found(sends(1, 4), got, inside, stores)[0].handler == "store:put"


def test_a_library_that_passes_on_what_came_is_not_the_handler_if_somebody_acts() -> None:
    got = takes(11, 4, stack=LOOP)
    passes = did("future.set", "n2", 13, stack=("library:chain#1", "library:with_timeout#1", "app:serve#1"))
    acts = did("task.start", "n2", 15, stack=("routes:finish#1", "app:serve#2"))
    assert found(sends(1, 4), got, passes, acts)[0].handler == "routes:finish"
    assert found(sends(1, 4), got, passes)[0].handler == "library:with_timeout"


# --- where messages were sent


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        (("m:f#1",), "m:f#1"),
        (("rpc:send_frame#3", "rpc:Pool.call#1", "shard:Shard.push#2"), "shard:Shard.push > send_frame#3"),
        (("rpc:send_frame#3", "rpc:Server.serve#1", "process:spawn.<locals>.run#0"), "rpc:Server.serve > send_frame#3"),
        (
            ("tcp:Tcp.flush#0", "tcp:Tcp.send#7", "net:Net.send#2", "raft:Raft.vote#1", "raft:Raft.tick#1"),
            "raft:Raft.vote > Net.send > Tcp.flush#0",
        ),
        (("a.B$Writer:run#1", "a.B:send#1", "a.C:lambda$go$0#1", "a.C:vote#1"), "a.C:vote > run#1"),
    ],
)
def test_a_sender_is_named_with_those_that_it_sends_for(stack: tuple[str, ...], words: str) -> None:
    assert sent_from(stack) == words


# --- generated messages


@st.composite
def framed_messages(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """For each message the sizes of its sends, and the sizes of the receives in which its bytes arrive."""
    frames = []
    for sizes in draw(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=3), min_size=1, max_size=30)):
        total = sum(sizes)
        cuts = sorted(draw(st.sets(st.integers(1, total - 1), max_size=5))) if total > 1 else []
        frames.append((sizes, [b - a for a, b in pairwise([0, *cuts, total])]))
    return frames


@given(framed_messages())
def test_all_messages_in_frames_are_found(frames: list[tuple[list[int], list[int]]]) -> None:
    """Every message is sent by one or more sends; its bytes come in receives of any size, and then it is handled."""
    events, expected, t = [], [], 0
    for number, (sizes, parts) in enumerate(frames):
        start = t + 1
        for at, size in enumerate(sizes):
            events.append(sends(start + 2 + 3 * at, size, "raw.send"))
        t = start + 20
        events.append(says(start, t, f"kind{number % 3}"))
        for part in parts:
            t += 5
            events.append(takes(t, part))
        expected.append((start, t + 5))
        events.append(hears(t + 5, t + 10, f"kind{number % 3}"))
        t += 20
    some = found(*events)
    assert pairs(some) == expected
    assert [one.kind for one in some] == [f"kind{number % 3}" for number in range(len(frames))]


def test_a_sample_of_a_variable_is_no_handler() -> None:
    sample = did("variable.sample", "n2", 12, 0, stack=("?:?#0",))
    work = did("file.write", "n2", 14, stack=("app:apply#1", "app:serve#1"))
    assert found(sends(1, 5), takes(10, 5), sample, work)[0].handler == "app:apply"
