"""Agents lose messages and change bytes: at files, connections, datagrams, TLS and messages."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from conformance_bench import Bench, Outcome, Target, at, secured, step
from waiting import HANG_S, wait_until

from undermine.inject.controller import Controller
from undermine.model.faults import Corrupt, Drop
from undermine.model.plan import Then

WAYS = pytest.mark.parametrize("way", ["plain", "other"])
PEER = "peer:s2"
FLIP = Corrupt("flip")
# The byte in the middle of GOOD is "5", 0x35; flipped it is 0xca.
GOOD, BAD = "0123456789", b"01234\xca6789"
SHOWN = r"01234\xca6789"
CHANGE = "byte 5 was 35, now ca"


def ends(outcome: Outcome, op: str) -> list[tuple[int, str]]:
    return [(event.result, event.error) for event in outcome.of(op)]


# --- changed bytes: files


@WAYS
def test_written_bytes_change_on_their_way(bench: Bench, way: str) -> None:
    bench.plan(step(FLIP, at("file.write", "x")))
    answers, outcome = bench.run("create f x", f"twice f {GOOD}", f"write f {GOOD}", way=way)
    assert answers == ["ok", "ok", "ok 10"]
    assert (bench.data / "x").read_bytes() == BAD + 2 * GOOD.encode()  # `twice` still had its bytes
    (receipt,) = outcome.ok().receipts
    assert (receipt.action, receipt.detail) == ("corrupt", f"before file.write x: {CHANGE}")
    assert receipt.seq == outcome.of("file.write")[0].seq
    assert ends(outcome, "file.write") == [(10, "")] * 3


@WAYS
@pytest.mark.parametrize("opening", ["open", "input"])
def test_bytes_change_in_the_file_before_they_are_read(bench: Bench, way: str, opening: str) -> None:
    bench.plan(step(FLIP, at("file.read", "x")))
    (bench.data / "x").write_text(GOOD + "rest")
    answers, outcome = bench.run(f"{opening} f x", "read f 10", "read f 10", "input g x", "read g 10", way=way)
    assert answers == ["ok", f"ok {SHOWN}", "ok rest", "ok", f"ok {SHOWN}"]
    assert (bench.data / "x").read_bytes() == BAD + b"rest"
    (receipt,) = outcome.ok().receipts
    assert receipt.detail == "before file.read x: at 5 of the file byte 0 was 35, now ca"


@WAYS
def test_a_part_of_a_file_turns_to_zero(bench: Bench, way: str) -> None:
    bench.plan(step(Corrupt("zero"), at("file.read", "x", nth=2)), step(Corrupt("zero"), at("file.write", "y")))
    (bench.data / "x").write_text(GOOD)
    lines = ("input f x", "read f 4", "read f 4", "read f 4", "create g y", "write g one", "write g two")
    answers, outcome = bench.run(*lines, way=way)
    assert answers == ["ok", "ok 0123", "ok \0\0\0\0", "ok 89", "ok", "ok 3", "ok 3"]
    assert (bench.data / "x").read_bytes() == b"0123\0\0\0\x0089"
    assert (bench.data / "y").read_bytes() == b"\0\0\0two"
    details = [receipt.detail.partition(": ")[2] for receipt in outcome.ok().receipts]
    assert details == ["at 4 of the file bytes 0 to 3 now 00", "bytes 0 to 2 now 00"]


@WAYS
def test_the_position_of_the_changed_byte_is_chosen(bench: Bench, way: str) -> None:
    bench.plan(step(Corrupt("flip", at=0.0), at("file.write", "x")), step(Corrupt("flip", at=1.0), at("file.write", "x")))
    bench.run("create f x", f"write f {GOOD}", f"write f {GOOD}", way=way)[1].ok()
    assert (bench.data / "x").read_bytes() == b"\xcf123456789" + b"012345678\xc6"


@WAYS
def test_an_operation_without_bytes_is_not_counted(bench: Bench, way: str) -> None:
    bench.plan(step(FLIP, at("file.read", nth=2)))
    (bench.data / "x").write_text(GOOD)
    (bench.data / "empty").touch()
    lines = ("input e empty", "read e 5", "read e 5", "input f x", "read f 5", "read e 5", "read f 5", "read f 5")
    answers, outcome = bench.run(*lines, way=way)
    assert answers == ["ok", "ok", "ok", "ok", "ok 01234", "ok", r"ok 56\xc889", "ok"]
    assert len(outcome.ok().receipts) == 1


def test_a_refused_change_changes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "claim", lambda self, request: ({"type": "no"}, []))
    bench.plan(step(FLIP, at("file.write", "x")), step(FLIP, at("file.read", "x")))
    answers, outcome = bench.run("create f x", f"write f {GOOD}", "input g x", "read g 10")
    assert answers == ["ok", "ok 10", "ok", f"ok {GOOD}"]
    assert outcome.ok().receipts == ()


# --- changed bytes: connections and messages


@WAYS
def test_sent_and_received_bytes_change(bench: Bench, way: str) -> None:
    bench.plan(step(FLIP, at("net.send", PEER, nth=2)), step(FLIP, at("net.recv", PEER)))
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", f"send c {GOOD}", f"send c {GOOD}") == ["ok"] * 3
        peer = bench.called()
        assert receive(peer, 20) == GOOD.encode() + BAD
        peer.sendall(2 * GOOD.encode())
        assert target.all("recv c 10", "recv c 10") == [f"ok {SHOWN}", f"ok {GOOD}"]
    outcome = bench.outcome().ok()
    assert [receipt.detail for receipt in outcome.receipts] == [f"before net.{op} {PEER}: {CHANGE}" for op in ("send", "recv")]
    assert ends(outcome, "net.send") + ends(outcome, "net.recv") == [(10, "")] * 4


def test_bytes_change_at_a_non_blocking_socket(bench: Bench) -> None:
    bench.plan(step(FLIP, at("net.recv", PEER)), step(FLIP, at("net.send", PEER)))
    with bench.start("other") as target:
        assert target.all(f"connect c {bench.peer_port}", "nonblocking c", "recv c 10") == ["ok", "ok", "again"]
        peer = bench.called()
        peer.sendall(GOOD.encode())
        assert until_said(target, "recv c 10") == f"ok {SHOWN}"
        assert until_said(target, f"send c {GOOD}") == "ok"
        assert receive(peer, 10) == BAD
    assert len(bench.outcome().ok().receipts) == 2


def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := sock.recv(size - len(data))):
        data += part
    return data


def until_said(target: Target, line: str) -> str:
    """Repeat the line while it has to be tried again; return the last answer."""
    while (answer := str(target.do(line))) == "again":
        pass
    return answer


@WAYS
def test_the_bytes_of_datagrams_change(bench: Bench, mailbox: socket.socket, way: str) -> None:
    bench.plan(step(FLIP, at("net.send", PEER)), step(FLIP, at("net.recv")))
    with bench.start(way) as target:
        assert target.all("datagram d", f"sendto d {bench.peer_port} {GOOD}") == ["ok", "ok"]
        data, sender = mailbox.recvfrom(99)
        assert data == BAD
        mailbox.sendto(GOOD.encode(), sender)
        assert target.do("recvfrom d 99") == f"ok {SHOWN}"
    assert len(bench.outcome().ok().receipts) == 2


def test_the_payload_of_tls_changes(bench: Bench, key: Path) -> None:
    begin = at("file.mkdir", "begin")
    bench.plan(step(FLIP, Then(begin, at("net.send", PEER))), step(FLIP, at("net.recv", PEER)))
    with bench.start() as target, secured(bench, key) as done:
        assert target.do(f"tls c {bench.peer_port}") == "ok"
        with done.get(timeout=HANG_S) as peer:
            assert target.all("mkdir begin", f"say c {GOOD}") == ["ok", "ok"]
            assert peer.recv(99) == BAD
            peer.sendall(GOOD.encode())
            assert target.do("hear c 99") == f"ok {SHOWN}"
    assert [receipt.action for receipt in bench.outcome().receipts] == ["corrupt"] * 2


def _named(bench: Bench, op: str, function: str, **found: Any) -> None:
    bench.more["operations"] = [{"function": f"{bench.kind.driver}.{function}", "op": op, **found}]


def test_the_bytes_of_a_message_change(bench: Bench) -> None:
    bench.plan(step(FLIP, at("msg.send")))
    _named(bench, "msg.send", "packed", kind={"text": "parcel"}, peer={"argument": "peer"})
    with bench.start() as target:
        lines = (f"connect c {bench.peer_port}", f"parcel c {GOOD} s2", f"parcel c {GOOD} s2")
        assert target.all(*lines) == ["ok", f"ok {GOOD}", f"ok {GOOD}"]
        assert receive(bench.called(), 20) == BAD + GOOD.encode()
    (receipt,) = bench.outcome().ok().receipts
    assert receipt.detail == f"before msg.send parcel {PEER}: {CHANGE}"


def test_the_bytes_of_a_returned_message_change(bench: Bench) -> None:
    bench.plan(step(FLIP, at("msg.recv")))
    _named(bench, "msg.recv", "taken", size={"argument": "return"})
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        bench.called().sendall(2 * GOOD.encode())
        assert target.all("take c 10", "take c 10") == [f"ok {SHOWN}", f"ok {GOOD}"]
    assert len(bench.outcome().ok().receipts) == 1


# --- lost messages: connections


@WAYS
def test_a_connection_loses_a_send_and_all_after_it_until_healing(bench: Bench, way: str) -> None:
    bench.plan(step(Drop(), at("net.send", PEER, nth=2)))
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", "send c one", "send c two", "send c three") == ["ok"] * 4
        peer = bench.called()
        assert receive(peer, 3) == b"one"
        assert target.all(f"connect d {bench.peer_port}", "send d other") == ["ok", "ok"]
        assert receive(bench.called(), 5) == b"other"
        peer.sendall(b"answer")
        assert target.do("recv c 6") == "ok answer"
        bench.heal()
        with pytest.raises(ConnectionResetError):
            peer.recv(1)  # and nothing before
        assert target.do("send c four").startswith("error ")
    outcome = bench.outcome().ok()
    assert ends(outcome, "net.send")[:4] == [(3, ""), (0, "LOST"), (0, "LOST"), (5, "")]
    (receipt,) = outcome.receipts
    assert (receipt.action, receipt.seq) == ("drop", outcome.of("net.send")[1].seq)


def test_a_loss_ends_with_its_until(bench: Bench) -> None:
    bench.plan(step(Drop(), at("net.send", PEER), until=at("file.mkdir", "d", "after")))
    with bench.start() as target:
        assert target.all(f"connect c {bench.peer_port}", "send c one", "mkdir d") == ["ok"] * 3
        with pytest.raises(ConnectionResetError):
            bench.called().recv(1)
        assert target.all(f"connect d {bench.peer_port}", "send d two") == ["ok", "ok"]
        assert receive(bench.called(), 3) == b"two"
    assert len(bench.outcome().ok().receipts) == 1


@WAYS
def test_a_blocking_receive_waits_until_healing_resets_its_connection(bench: Bench, way: str) -> None:
    bench.plan(step(Drop(), at("net.recv", PEER)))
    with bench.start(way) as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        peer = bench.called()
        peer.sendall(b"one")
        target.tell("@t recv c 3")
        wait_until(lambda: bench.state_byte(64) == 2, what="the step has fired")
        assert target.do("send c out") == "ok"
        assert receive(peer, 3) == b"out"
        peer.sendall(b"two")
        assert target.silent("t")
        bench.heal()
        assert target.answer("t") == "error ECONNRESET"
    outcome = bench.outcome().ok()
    assert ends(outcome, "net.recv") == [(0, "LOST")]
    assert len(outcome.receipts) == 1


def test_a_time_limit_ends_the_wait_for_lost_bytes(bench: Bench) -> None:
    bench.plan(step(Drop(), at("net.recv", PEER)))
    with bench.start() as target:
        assert target.all(f"connect c {bench.peer_port}", "limit c 0.2") == ["ok", "ok"]
        bench.called().sendall(b"one")
        assert target.do("recv c 3") == "error ETIMEDOUT"
    bench.outcome().ok()


def test_a_non_blocking_socket_never_sees_lost_bytes(bench: Bench) -> None:
    bench.plan(step(Drop(), at("net.recv", PEER)))
    with bench.start("other") as target:
        assert target.all(f"connect c {bench.peer_port}", "nonblocking c") == ["ok", "ok"]
        peer = bench.called()
        peer.sendall(b"one")
        while bench.state_byte(64) != 2:
            assert target.do("recv c 3") == "again"
        peer.sendall(b"two")
        assert target.all(*["recv c 3"] * 20, "send c out") == ["again"] * 20 + ["ok"]
        assert receive(peer, 3) == b"out"
        bench.heal()
        assert until_said(target, "recv c 3") == "error ECONNRESET"
    outcome = bench.outcome().ok()
    assert ends(outcome, "net.recv")[0] == (0, "LOST")
    assert "EAGAIN" not in {event.error for event in outcome.trace}


@WAYS
def test_the_peer_sees_a_close_only_when_the_loss_ends(bench: Bench, way: str) -> None:
    bench.plan(step(Drop(), at("net.send", PEER)))
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", "send c one", "close c") == ["ok"] * 3
        peer = bench.called()
        peer.settimeout(0.2)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        bench.heal()
        peer.settimeout(HANG_S)
        with pytest.raises(ConnectionResetError):
            peer.recv(1)
    bench.outcome().ok()


def test_tls_loses_its_payload(bench: Bench, key: Path) -> None:
    begin = at("file.mkdir", "begin")
    bench.plan(step(Drop(), Then(begin, at("net.send", PEER, nth=2))))
    with bench.start() as target, secured(bench, key) as done:
        assert target.do(f"tls c {bench.peer_port}") == "ok"
        with done.get(timeout=HANG_S) as peer:
            assert target.all("mkdir begin", "say c one", "say c two", "say c three") == ["ok"] * 4
            assert peer.recv(99) == b"one"
            bench.heal()
            assert peer.recv(99) == b""
    outcome = bench.outcome()
    assert [event.error for event in outcome.of("net.send") if event.size in (3, 5)][-3:] == ["", "LOST", "LOST"]


# --- lost messages: datagrams and logical operations


@WAYS
def test_a_datagram_is_lost_alone(bench: Bench, mailbox: socket.socket, way: str) -> None:
    bench.plan(step(Drop(), at("net.send", PEER, nth=2)), step(Drop(), at("net.recv")))
    line = f"sendto d {bench.peer_port}"
    with bench.start(way) as target:
        assert target.all("datagram d", f"{line} one", f"{line} two", f"{line} three") == ["ok"] * 4
        _, sender = mailbox.recvfrom(9)
        assert mailbox.recv(9) == b"three"
        for data in (b"four", b"five"):
            mailbox.sendto(data, sender)
        assert target.do("recvfrom d 9") == "ok five"
    outcome = bench.outcome().ok()
    assert ends(outcome, "net.send") == [(3, ""), (0, "LOST"), (5, "")]
    assert ends(outcome, "net.recv")[0] == (0, "LOST")
    assert len(outcome.receipts) == 2


def test_a_message_is_lost_whole_and_alone(bench: Bench) -> None:
    bench.plan(step(Drop(), at("msg.send", f"two {PEER}")))
    _named(bench, "msg.send", "message", kind={"argument": "kind"}, peer={"argument": "peer"})
    with bench.start() as target:
        lines = (f"connect c {bench.peer_port}", "report c one s2", "report c two s2", "report c three s2")
        assert target.all(*lines) == ["ok"] * 4
        assert receive(bench.called(), 8) == b"onethree"
    outcome = bench.outcome().ok()
    assert [event.error for event in outcome.of("msg.send")] == ["", "LOST", ""]
    (receipt,) = outcome.receipts
    assert (receipt.action, receipt.detail) == ("drop", f"before msg.send two {PEER}: at the call")


def test_a_lost_message_is_not_handled(bench: Bench) -> None:
    bench.plan(step(Drop(), at("msg.recv", nth=2)))
    _named(bench, "msg.recv", "handle", kind={"argument": "kind"})
    answers, outcome = bench.run("mkdir d", "deliver one", "deliver two", "deliver three")
    assert answers == ["ok", "ok one", "ok one", "ok three"]
    assert [event.error for event in outcome.ok().of("msg.recv")] == ["", "LOST", ""]


def test_a_function_waits_for_the_message_after_a_lost_one(bench: Bench) -> None:
    bench.plan(step(Drop(), at("msg.recv")))
    _named(bench, "msg.recv", "taken", size={"argument": "return"})
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        bench.called().sendall(b"onetwo")
        assert target.do("take c 3") == "ok two"
    outcome = bench.outcome().ok()
    assert [event.error for event in outcome.of("msg.recv")] == ["LOST", ""]
    assert len(outcome.receipts) == 1
