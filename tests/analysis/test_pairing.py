"""Which receive took which send's bytes: random connections whose pairs are known, and the odd cases one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story import Story
from tables import for_each
from wires import Clock, Network, Socket, Wire, child, known, shuffled

from undermine.analysis.messages.channels import Channel
from undermine.analysis.messages.connections import address, connection_name
from undermine.analysis.messages.pairing import Pairing, Unpaired, pair
from undermine.model.columns import Columns
from undermine.model.event import AgentInfo, Event
from undermine.testing import event

A, B = "127.0.0.1:41200", "127.0.0.1:20001"
SEEDS = range(25)


def sent(t: int, size: int, name: str = f"{A}>{B}/1", node: str = "n1", **more: object) -> Event:
    fields = {"pid": 1, "seq": t, "t_ns": t, "end_ns": t + 1, "size": size, "result": size, **more}
    return event("net.send", node, resource=name, **fields)


def got(t: int, size: int, name: str = f"{B}>{A}/1", node: str = "n2", op: str = "net.recv", **more: object) -> Event:
    fields = {"pid": 2, "seq": t, "t_ns": t, "end_ns": t + 1, "size": 999, "result": size, **more}
    return event(op, node, resource=name, **fields)


def paired(*events: Event, processes: tuple[AgentInfo, ...] = ()) -> tuple[Pairing, list[tuple[int, int, int, int]]]:
    """The pairing, and its pairs without `complete`."""
    columns = Columns.of(events, processes)
    pairing = pair(columns)
    return pairing, [one[:4] for one in known(pairing, columns)]


def whys(pairing: Pairing) -> list[tuple[int, str]]:
    return [(one.bytes, one.why) for one in pairing.unpaired]


# --- random connections


@for_each("seed", SEEDS)
def test_all_pairs_of_random_connections_are_found_and_no_other(seed: int) -> None:
    network = Network(seed)
    links = [network.connection(f"10.0.0.1:{port}", B.replace("127.0.0.1", "10.0.0.2")) for port in range(4000, 4010)]
    for _ in range(30):
        network.random.choice(links).talk(10)
    columns = Columns.of(shuffled(network.events, seed))
    assert known(pair(columns), columns) == sorted(network.pairs)


@for_each("seed", SEEDS)
def test_connections_with_the_same_addresses_are_told_apart(seed: int) -> None:
    network = Network(seed)
    for _ in range(8):
        link = network.connection(A, B)
        link.talk(network.random.randrange(2, 30))
        if network.random.random() < 0.5:
            link.drain()
        if network.random.random() < 0.7:
            link.close()
    columns = Columns.of(shuffled(network.events, seed))
    assert known(pair(columns), columns) == sorted(network.pairs)


@for_each("seed", SEEDS)
def test_sockets_that_several_processes_have_are_one_end(seed: int) -> None:
    network = Network(seed)
    for _ in range(4):
        link = network.connection(A, B)
        link.talk(4)
        link.inherit(1, 22)
        link.pass_on(0, 33)
        link.talk(40, owners=True)
        link.drain()
        link.close(owner=0)
        link.close()
    columns = Columns.of(shuffled(network.events, seed), [child("n2", 22, 2)])
    assert known(pair(columns), columns) == sorted(network.pairs)


@for_each("seed", SEEDS)
def test_streams_have_offsets_of_their_own(seed: int) -> None:
    network = Network(seed)
    link = network.connection(A, B)
    for _ in range(40):
        link.talk(5)
        reader = link.socket(1, sends=False)
        if reader.wire.sent:
            reader.receive(network.random.randrange(1, 30), "stream.read")
    columns = Columns.of(shuffled(network.events, seed))
    assert known(pair(columns), columns) == sorted(network.pairs)


@for_each("seed", SEEDS)
def test_a_socket_that_was_passed_on_and_then_closed_is_the_same_connection(seed: int) -> None:
    network = Network(seed)
    link = network.connection(A, B)
    link.talk(20)
    link.socket(1, sends=True).did("net.close")
    link.pass_on(1, 22)
    link.talk(20)
    link.drain()
    columns = Columns.of(network.events)
    assert known(pair(columns), columns) == sorted(network.pairs)


@for_each("seed", SEEDS)
def test_a_child_goes_on_where_its_parent_has_closed(seed: int) -> None:
    """Also where the other end was never in use at both times."""
    network = Network(seed)
    for _ in range(3):
        link = network.connection(A, B)
        for size in (5, 9, 2):
            link.socket(0, sends=True).send(size)
        link.socket(0, sends=True).did("net.close")
        link.socket(1, sends=False).receive(7)
        link.socket(1, sends=True).did("net.close")
        link.inherit(1, 22)
        link.socket(1, sends=False).receive(100)
    columns = Columns.of(network.events, [child("n2", 22, 2), child("n2", 2, 1)])
    assert known(pair(columns), columns) == sorted(network.pairs)


OPS = (
    "net.send",
    "raw.send",
    "net.recv",
    "raw.recv",
    "stream.read",
    "net.close",
    "pipe.write",
    "pipe.read",
    "pipe.open",
    "poll",
)
HOSTS = ("10.0.0.1:1", "127.0.0.1:1", "127.0.0.1:2", "[::1]:1", "0.0.0.0:1", ":", "")


@st.composite
def nonsense(draw: st.DrawFn) -> list[Event]:
    """Events as a damaged trace may hold them."""
    addresses = st.sampled_from(HOSTS)
    names = st.builds(
        "{}>{}/{}{}".format, addresses, addresses, st.integers(0, 2), st.sampled_from(["", "+tls", "+udp"])
    )
    resources = (
        names
        | st.builds("{}>{}".format, addresses, addresses)
        | st.sampled_from(["pipe:1", "pipe:1>pipe:2", "+", "/", ">"])
    )
    rows = st.fixed_dictionaries(
        {
            "op": st.sampled_from(OPS),
            "node": st.sampled_from(["n0", "n1", "n2"]),
            "pid": st.integers(1, 3),
            "resource": resources,
            "size": st.sampled_from([0, 5, 50, -3, 1 << 62]),
            "result": st.sampled_from([0, 5, 50, -1, 1 << 62]),
            "error": st.sampled_from(["", "", "", "LOST", "EPIPE"]),
            "target": st.sampled_from(["peer:n1", "peer:n9", "other", ""]),
        }
    )
    events = []
    for number, fields in enumerate(draw(st.lists(rows, max_size=100)), 1):
        t = 10 * number
        end_ns = draw(st.sampled_from([0, t, t + 5, t + 500, t - 50]))
        events.append(event(fields.pop("op"), fields.pop("node"), seq=t, t_ns=t, end_ns=end_ns, **fields))
    return events


@given(nonsense())
def test_no_byte_is_counted_twice_whatever_a_trace_holds(events: list[Event]) -> None:
    processes = [child(f"n{node}", pid, pid % 3 + 1) for node in range(3) for pid in (1, 2, 3)]
    columns = Columns.of(events, processes)
    pairing = pair(columns)
    taken: Counter[int] = Counter()
    sent_bytes: Counter[tuple[int, int]] = Counter()
    for at in range(len(pairing)):
        channel = pairing.channels[pairing.channel[at]]
        sender, receiver = columns.event(int(pairing.send[at])), columns.event(int(pairing.recv[at]))
        assert sender.op in ("net.send", "raw.send", "pipe.write")
        assert receiver.op in ("net.recv", "raw.recv", "stream.read", "pipe.read")
        assert channel.layer == "pipe" or (sender.node, receiver.node) == (channel.sender, channel.receiver)
        assert "LOST" not in (sender.error, receiver.error)
        size = int(pairing.last[at] - pairing.first[at])
        taken[receiver.seq] += size
        sent_bytes[sender.seq, int(pairing.channel[at])] += size
    moved = {one.seq: (one.result, one.size) for one in columns.events()}
    assert all(size <= max(moved[seq][0], 0) for seq, size in taken.items())
    assert all(size <= max(*moved[seq], 0) or moved[seq][1] <= 0 for (seq, _), size in sent_bytes.items())
    assert pairing.paired <= pairing.received


# --- one by one


def test_several_messages_in_one_receive_and_one_over_several() -> None:
    pairing, pairs = paired(sent(1, 3), sent(2, 4), got(10, 5), got(20, 2))
    assert pairs == [(1, 10, 0, 3), (2, 10, 3, 5), (2, 20, 5, 7)]
    assert pairing.complete.tolist() == [True, False, True]
    assert pairing.channels[pairing.channel[0]] == Channel("n1", "n2", A, B, "raw")
    assert (pairing.received, pairing.paired, len(pairing.unpaired)) == (7, 7, 0)
    assert pairing.send[pairing.recv == 2].tolist() == [0, 1]
    assert pairing.recv[pairing.send == 1].tolist() == [2, 3]


def test_a_send_that_is_recorded_after_the_receive_is_paired() -> None:
    _, pairs = paired(sent(30, 3), got(10, 3))
    assert pairs == [(30, 10, 0, 3)]


def test_receives_got_their_bytes_in_the_order_in_which_they_ended() -> None:
    _, pairs = paired(sent(1, 3), sent(2, 4), got(5, 4, end_ns=50), got(6, 3, end_ns=40))
    assert pairs == [(1, 6, 0, 3), (2, 5, 3, 7)]


@pytest.mark.parametrize(
    "last", [{"end_ns": 0, "result": 0}, {"error": "ECONNRESET", "result": 0}], ids=["killed", "failed"]
)
def test_bytes_of_a_failed_last_send_count_if_they_were_received(last: dict[str, object]) -> None:
    pairing, pairs = paired(sent(1, 3), sent(2, 100, **last), got(10, 50))
    assert pairs == [(1, 10, 0, 3), (2, 10, 3, 50)]
    assert pairing.received == pairing.paired == 50


def test_a_part_is_never_more_than_the_send_had() -> None:
    pairing, pairs = paired(sent(1, 3, end_ns=0, result=0), got(10, 50))
    assert pairs == [(1, 10, 0, 3)]
    assert (pairing.received, pairing.paired) == (50, 3)
    assert whys(pairing) == [(47, "no send of these bytes was recorded")]


AGAIN = {"error": "EAGAIN", "result": 0}
IN_DOUBT = "an earlier send failed, and it is unknown how much of it was sent"


def test_a_part_that_was_sent_before_others_is_what_was_received_beyond_them() -> None:
    pairing, pairs = paired(sent(1, 3), sent(2, 100, **AGAIN), sent(4, 5), got(10, 50))
    assert pairs == [(1, 10, 0, 3), (2, 10, 3, 45), (4, 10, 45, 50)]
    assert whys(pairing) == []


def test_a_send_that_failed_sent_nothing_if_all_the_others_are_what_was_received() -> None:
    _, pairs = paired(sent(1, 3), sent(2, 100, **AGAIN), sent(4, 100), got(10, 103))
    assert pairs == [(1, 10, 0, 3), (4, 10, 3, 103)]


@pytest.mark.parametrize(
    ("middle", "received"),
    [([sent(2, 100, **AGAIN)], 40), ([sent(2, 100, **AGAIN), sent(3, 9, **AGAIN)], 60)],
    ids=["not all was received", "two have failed"],
)
def test_sends_after_a_partial_send_of_unknown_size_are_not_paired(middle: list[Event], received: int) -> None:
    pairing, pairs = paired(sent(1, 3), *middle, sent(4, 50), got(10, received))
    assert pairs == [(1, 10, 0, 3)]
    assert whys(pairing) == [(50, IN_DOUBT), (received - 3, IN_DOUBT)]
    assert (pairing.received, pairing.paired) == (received, 3)


def test_doubt_about_one_channel_is_none_about_others() -> None:
    other = f"{A.replace('41200', '41201')}>{B}/2", f"{B}>{A.replace('41200', '41201')}/2"
    _, pairs = paired(sent(1, 9, **AGAIN), sent(2, 9), got(3, 5), sent(4, 6, other[0]), got(5, 6, other[1]))
    assert pairs == [(4, 5, 0, 6)]


def test_a_dropped_send_does_not_count_even_if_it_is_the_last() -> None:
    pairing, pairs = paired(sent(1, 3), sent(2, 9, error="LOST", result=0), got(10, 5))
    assert pairs == [(1, 10, 0, 3)]
    assert whys(pairing) == [(2, "no send of these bytes was recorded")]


def test_unpaired_bytes_say_whether_they_were_lost_or_the_peer_has_no_agent() -> None:
    other = "10.0.0.9:6379"
    pairing, pairs = paired(
        sent(1, 3), got(10, 2), sent(20, 7, f"{A}>{other}/2"), got(30, 8, f"{A}>{other}/2", "n1", pid=1)
    )
    assert pairs == [(1, 10, 0, 2)]
    assert list(pairing.unpaired) == [
        Unpaired(0, 1, "never received"),
        Unpaired(2, 7, "the other end has no agent"),
        Unpaired(3, 8, "the other end has no agent"),
    ]
    assert (pairing.received, pairing.paired) == (2, 2), "only what has two ends counts"


def test_a_node_with_an_agent_whose_end_is_missing_counts_against_the_tool() -> None:
    pairing, _ = paired(got(1, 8, target="peer:n3"), event("clock", "n3"))
    assert whys(pairing) == [(8, "the other end is not in the trace")]
    assert (pairing.received, pairing.paired) == (8, 0)


def test_a_resource_that_names_no_connection_is_said() -> None:
    pairing, _ = paired(got(1, 8, B))
    assert whys(pairing) == [(8, "the connection has no name")]


def test_payload_is_paired_with_payload_only() -> None:
    tls, plain = f"{A}>{B}/1+tls", f"{B}>{A}/1"
    pairing, pairs = paired(sent(1, 3, tls), got(10, 3, f"{plain}+tls"), sent(20, 50), got(30, 50, plain))
    assert pairs == [(1, 10, 0, 3), (20, 30, 0, 50)]
    assert {channel.layer for channel in pairing.channels} == {"raw", "tls"}
    pairing, pairs = paired(sent(1, 3, tls), got(10, 90, plain))
    assert pairs == []
    assert whys(pairing) == [(n, "the two ends count bytes of different layers") for n in (3, 90)]


def test_nodes_with_loopbacks_of_their_own_are_not_mixed_up() -> None:
    """Each in its network namespace, with the same two ports at the same time."""
    events = []
    for start, node in ((1, "n1"), (2, "n2"), (3, "n3")):
        events += [sent(start, start, node=node, pid=start), got(start + 10, start, node=node, pid=start)]
    pairing, pairs = paired(*events)
    assert pairs == [(n, n + 10, 0, n) for n in (1, 2, 3)]
    assert {(channel.sender, channel.receiver) for channel in pairing.channels} == {
        (f"n{n}", f"n{n}") for n in (1, 2, 3)
    }


def test_a_connection_that_was_reset_is_told_from_the_next_while_it_is_still_open() -> None:
    first, second = f"{B}>{A}/1", f"{B}>{A}/2"
    _, pairs = paired(
        *(sent(1, 5), got(2, 5, first), event("net.close", "n1", resource=f"{A}>{B}/1", t_ns=9, end_ns=10, pid=1)),
        *(sent(30, 7, f"{A}>{B}/2"), got(31, 7, second), sent(60, 2, f"{A}>{B}/2"), got(61, 2, second)),
        event("net.close", "n2", resource=first, t_ns=32, end_ns=33, pid=2),
    )
    assert pairs == [(1, 2, 0, 5), (30, 31, 0, 7), (60, 61, 7, 9)]


def test_a_connection_that_the_other_side_never_used_does_not_shift_the_next() -> None:
    close = event("net.close", "n1", resource=f"{A}>{B}/1", t_ns=5, end_ns=6, pid=1)
    _, pairs = paired(sent(1, 5), close, sent(30, 5, f"{A}>{B}/2"), got(31, 5))
    assert pairs == [(30, 31, 0, 5)]


def test_a_client_that_has_gone_before_the_server_looks() -> None:
    close = event("net.close", "n1", resource=f"{A}>{B}/1", t_ns=5, end_ns=6, pid=1)
    _, pairs = paired(sent(1, 5), close, got(10, 5), sent(30, 6, f"{A}>{B}/2"), got(50, 6, f"{B}>{A}/2"))
    assert pairs == [(1, 10, 0, 5), (30, 50, 0, 6)]


def test_a_socket_connected_to_itself() -> None:
    name = f"{A}>{A}/1"
    _, pairs = paired(sent(1, 5, name), got(10, 5, name, "n1", pid=1))
    assert pairs == [(1, 10, 0, 5)]


def test_nothing_at_all() -> None:
    pairing, pairs = paired()
    assert (pairs, len(pairing), len(pairing.unpaired), pairing.received) == ([], 0, 0, 0)


# --- pipes


def test_a_pipe_has_one_number_or_two_that_were_opened_together() -> None:
    def moved(t: int, op: str, size: int, name: str, pid: int) -> Event:
        return event(op, "n1", resource=name, pid=pid, seq=t, t_ns=t, end_ns=t + 1, size=size, result=size)

    pairing, pairs = paired(
        *(moved(1, "pipe.write", 4, "pipe:7", 1), moved(2, "pipe.read", 4, "pipe:7", 2)),
        *(event("pipe.open", "n1", resource=name, seq=3, t_ns=3) for name in ("pair:8>pair:9", "pair:9>pair:8")),
        *(moved(11, "pipe.write", 4, "pair:8", 1), moved(12, "pipe.read", 4, "pair:9", 2)),
        *(moved(13, "pipe.write", 6, "pair:9", 2), moved(14, "pipe.read", 6, "pair:8", 1)),
        moved(15, "pipe.read", 6, "pipe:10", 1),
        *(moved(16, "pipe.write", 5, "pair:11", 1), moved(17, "pipe.read", 5, "pair:11", 1)),
    )
    assert pairs == [(1, 2, 0, 4), (11, 12, 0, 4), (13, 14, 0, 6)]
    assert pairing.coverage == {"pipe": (14, 14)}
    assert whys(pairing) == [(6, "the other end has no agent"), *[(5, "the connection has no name")] * 2]


def test_the_shared_reading_of_a_pipe_is_in_the_order_of_time() -> None:
    clock, events, pairs = Clock(), [], []
    wire = Wire(clock, events, pairs)
    ends = [Socket(wire, "pipe:5", "n1", pid) for pid in (1, 2, 3)]
    for number in range(1, 30):
        ends[0].send(number, "pipe.write")
        ends[1 + number % 2].receive(number, "pipe.read")
    columns = Columns.of(events)
    assert known(pair(columns), columns) == sorted(pairs)


def test_a_pipe_whose_only_write_never_ended_has_two_ends() -> None:
    story = Story()
    story.did("killed", "pipe.write", "pipe:7", pid=1, size=9, end=0)
    story.did("read", "pipe.read", "pipe:7", pid=2, result=5)
    pairing = pair(story.tell())
    assert (story.names(pairing.send), story.names(pairing.recv)) == (["killed"], ["read"])
    assert pairing.coverage == {"pipe": (5, 5)}


@pytest.mark.parametrize(
    ("reads", "senders"),
    [
        ((2, 4, 6), ["first", "killed", "other"]),
        ((2, 3, 6), ["first", "killed", "other"]),
        ((2, 6), ["first", "other"]),
        ((2, 5), ["first"]),
    ],
    ids=["all of it was written", "a part", "nothing", "nobody knows"],
)
def test_others_write_to_a_pipe_after_one_was_killed_in_it(reads: tuple[int, ...], senders: list[str]) -> None:
    story = Story()
    story.did("first", "pipe.write", "pipe:7", pid=1, size=2, result=2)
    story.did("killed", "pipe.write", "pipe:7", pid=1, size=4, end=0)
    story.did("other", "pipe.write", "pipe:7", pid=3, size=6, result=6)
    for number, size in enumerate(reads):
        story.did(f"read {number}", "pipe.read", "pipe:7", pid=2, result=size)
    pairing = pair(story.tell())
    assert story.names(pairing.send) == senders
    assert story.names(pairing.recv) == [f"read {number}" for number in range(len(senders))]


# --- datagrams


def test_datagrams_are_paired_by_size_and_order() -> None:
    out, into = f"{A}>{B}/1+udp", f"{B}>{A}/1+udp"
    pairing, pairs = paired(
        *(got(0, 0, into, error="ETIMEDOUT"), sent(1, 5, out), sent(2, 9, out), sent(3, 5, out)),
        *(
            got(10, 9, into),
            got(11, 5, into),
            got(12, 5, into),
            sent(13, 5, out),
            sent(14, 8, out, error="LOST", result=0),
        ),
    )
    assert pairs == [(1, 11, 0, 5), (2, 10, 0, 9), (3, 12, 0, 5)]
    assert whys(pairing) == [(5, "never received")]
    assert (pairing.received, pairing.paired) == (19, 19)


def test_a_datagram_is_not_received_before_it_was_sent_nor_by_who_was_not_there() -> None:
    out, into = f"{A}>{B}/1+udp", f"{B}>{A}/1+udp"
    _, pairs = paired(*(sent(t, 5, out) for t in (1, 21, 30)), *(got(t, 5, into) for t in (15, 22, 40)))
    assert pairs == [(21, 22, 0, 5), (30, 40, 0, 5)], "the node was first seen at 15"


def test_a_datagram_socket_may_be_bound_to_no_host() -> None:
    _, pairs = paired(
        event("clock", "n2", pid=2, t_ns=0),
        sent(1, 5, "0.0.0.0:4000>10.0.0.2:9000/1+udp"),
        got(10, 5, "0.0.0.0:9000>10.0.0.1:4000/1+udp"),
        got(11, 5, "0.0.0.0:9000>10.0.0.1:4001/1+udp"),
    )
    assert pairs == [(1, 10, 0, 5)]


# --- names


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0:0:0:0:0:0:0:1:20001", "::1:20001"),
        ("[::1]:20001", "::1:20001"),
        ("localhost:20001", "127.0.0.1:20001"),
        ("localhost/127.0.0.1:20001", "127.0.0.1:20001"),
        ("/[0:0:0:0:0:0:0:1]:20001", "::1:20001"),
        ("::ffff:10.0.0.1:5", "10.0.0.1:5"),
        ("fe80::1%eth0:5", "fe80::1:5"),
        ("S1.example:5", "s1.example:5"),
        ("what", "what"),
    ],
)
def test_hosts_have_one_name(text: str, same: str) -> None:
    assert address(text) == same


def test_both_runtimes_name_the_same_connection() -> None:
    name = connection_name("/[0:0:0:0:0:0:0:1]:4000>localhost/[::1]:20001/7+tls")
    assert name == ("::1:4000", "::1:20001", "7", "tls")
    assert connection_name("127.0.0.1:20001") is None
    assert connection_name("a:1>b:2/3+other") is None
    _, pairs = paired(sent(1, 5, "::1:4000>::1:5/1"), got(9, 5, "0:0:0:0:0:0:0:1:5>0:0:0:0:0:0:0:1:4000/1"))
    assert pairs == [(1, 9, 0, 5)]


def test_a_connection_that_is_encrypted_later_is_one_with_two_layers() -> None:
    """Several of them on the same addresses; each is plain, then encrypted, then plain again."""
    events, expected = [], []
    for number in (1, 2, 3):
        out, into = f"{A}>{B}/{number}", f"{B}>{A}/{number}"
        for step, suffix in enumerate(("", "+tls", "")):
            t = 100 * number + 10 * step
            events += [sent(t, number + step, out + suffix), got(t + 5, number + step, into + suffix)]
            start = number if suffix == "" and step else 0
            expected.append((t, t + 5, start, start + number + step))
    assert paired(*events)[1] == expected
