"""Both agents treat logical operations, TLS, datagrams and a silent tool alike."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conformance_bench import Bench, Outcome, at, secured, step
from waiting import HANG_S

from undermine.analysis.conflicts.accesses import keys_accessed
from undermine.analysis.stores.links import links
from undermine.inject.controller import Controller
from undermine.model.codec import read_columns, read_contents
from undermine.model.faults import Crash, Drop, Error, Partition
from undermine.model.plan import FirstUnseen, Then
from undermine.model.point import Point, point_of

WAYS = pytest.mark.parametrize("way", ["plain", "other"])
PEER = "peer:s2"
RESET = Error("ECONNRESET")
ANSWER_S = 10
"""The protocol's limit for an agent's wait for an answer."""


# --- logical operations


def _named(bench: Bench) -> None:
    argument = {"kind": {"argument": "kind"}, "peer": {"argument": "peer"}, "size": {"argument": "kind"}}
    bench.more["operations"] = [{"function": f"{bench.kind.driver}.message", "op": "msg.send", **argument}]


def test_a_message_is_one_operation_that_includes_its_sends(bench: Bench) -> None:
    _named(bench)
    with bench.start() as target:
        assert target.all(f"connect c {bench.peer_port}", "report c hello s2", "send c x") == ["ok", "ok", "ok"]
        assert bench.called().recv(5) == b"hello"
    outcome = bench.outcome().ok()
    assert outcome.short("msg.", "net.send") == ["msg.send hello peer:s2", "net.send peer:s2"]
    (message,) = outcome.of("msg.send")
    assert message.size == 5
    assert message.loc.partition(":")[2].startswith("Driver.report")


APPEND = f"append-<n> {PEER}"
APPENDS = tuple(f"report c append-{number} s2" for number in (1, 2, 3))


def _with_contents(bench: Bench, used: list[list[str]] | None) -> None:
    """Name the kind of a message as its content too. `used` is None while contents are learnt."""
    _named(bench)
    bench.more["operations"][0]["content"] = {"argument": "kind"}
    bench.more["contents"] = used


def _reported(bench: Bench, *lines: str) -> tuple[list[str], Outcome]:
    answers, outcome = bench.run(f"connect c {bench.peer_port}", *lines)
    return answers[1:], outcome.ok()


def test_a_content_that_is_used_is_part_of_the_point(make_bench: Callable[[], Bench]) -> None:
    for trigger in (
        at("msg.send", APPEND, content="append-2"),
        FirstUnseen(("content",), (Point.of({"content": "append-1"}),), Point.of({"op": "msg.send"})),
    ):
        bench = make_bench()
        bench.plan(step(RESET, trigger))
        _with_contents(bench, [["msg.send", APPEND]])
        answers, outcome = _reported(bench, *APPENDS)
        assert answers == ["ok", "error ECONNRESET", "ok"]
        sent = outcome.of("msg.send")
        assert [(event.target, event.content) for event in sent] == [(APPEND, f"append-{n}") for n in (1, 2, 3)]
        (moment,) = bench.controller.moments()
        assert moment.point == point_of(sent[1])
        assert moment.point["content"] == "append-2"


def test_a_content_that_is_not_used_can_only_be_named(make_bench: Callable[[], Bench]) -> None:
    bench = make_bench()
    bench.plan(step(RESET, at("msg.send", APPEND, content="append-2")))
    _with_contents(bench, [["msg.send", "other"]])
    answers, outcome = _reported(bench, *APPENDS)
    assert answers == ["ok", "error ECONNRESET", "ok"]
    assert [(event.target, event.content) for event in outcome.of("msg.send")] == [(APPEND, "")] * 3
    (moment,) = bench.controller.moments()
    assert moment.point == point_of(outcome.of("msg.send")[1])


def test_contents_are_recorded_to_be_learnt_but_are_not_shown(bench: Bench) -> None:
    _with_contents(bench, None)
    long = "x" * 100
    _, outcome = _reported(bench, "report c append-1 s2", "report c 3fa94bc1d2 s2", f"report c {long} s2")
    assert [event.content for event in outcome.of("msg.send")] == ["", "", ""]
    learnt = [event for event in read_contents(bench.trace_dir).events() if event.op == "msg.send"]
    assert [event.content for event in learnt] == ["append-1", "<hex>", long[:64]]
    assert [event.target for event in learnt] == [event.target for event in outcome.of("msg.send")]


def test_an_error_replaces_a_message(bench: Bench) -> None:
    bench.plan(step(RESET, at("msg.send", f"two {PEER}")))
    _named(bench)
    lines = ("report c one s2", "report c two s2", "report c three s2")
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        assert target.all(*lines) == ["ok", "error ECONNRESET", "ok"]
        peer, seen = bench.called(), b""
        while len(seen) < 8:
            seen += peer.recv(8)
        assert seen == b"onethree"
    assert [event.error for event in bench.outcome().ok().of("msg.send")] == ["", "ECONNRESET", ""]


def test_an_error_takes_effect_at_a_transfer_of_the_message(bench: Bench) -> None:
    """The connection is reset, as a network resets one: later messages fail, and the peer notices."""
    bench.plan(step(Error("ECONNRESET", logical="wire"), at("msg.send", f"two {PEER}")))
    _named(bench)
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        assert target.do("report c one s2") == "ok"
        peer = bench.called()
        assert peer.recv(3) == b"one"
        assert target.do("report c two s2") == "error ECONNRESET"
        with pytest.raises(ConnectionResetError):
            peer.recv(3)
    outcome = bench.outcome().ok()
    assert [event.error for event in outcome.of("net.send")] == ["ECONNRESET"]
    (receipt,) = outcome.receipts
    assert receipt.seq == outcome.of("msg.send")[1].seq
    assert receipt.detail == f"before msg.send two {PEER}: ECONNRESET once, at net.send {PEER}"


def test_a_lost_message_takes_the_rest_of_its_connection_along(bench: Bench) -> None:
    bench.plan(step(Drop("wire"), at("msg.send", f"two {PEER}")))
    _named(bench)
    with bench.start() as target:
        lines = (f"connect c {bench.peer_port}", "report c one s2", "report c two s2", "report c three s2")
        assert target.all(*lines) == ["ok"] * 4
        peer = bench.called()
        assert peer.recv(9) == b"one"
        bench.heal()
        with pytest.raises(ConnectionResetError):
            peer.recv(9)
    outcome = bench.outcome().ok()
    assert [event.error for event in outcome.of("net.send")] == ["LOST", "LOST"]
    (receipt,) = outcome.receipts
    assert receipt.detail == f"before msg.send two {PEER}: at net.send {PEER}"


# --- keys and values of stores


BEGIN = "mkdir begin"
"""An operation with a file: the Python agent then finds the functions of the program."""


def _stored(bench: Bench, **more: Any) -> None:
    """Name the driver's two methods that write and read a key of its store."""
    written = {"keys": [{"argument": "key"}], "values": [{"argument": "value"}], **more}
    read = {"keys": [{"argument": "key"}], "values": [{"argument": "return"}], **more}
    bench.more["operations"] = [
        {"function": f"{bench.kind.driver}.stored", "op": "db.write", "kind": {"text": "put"}, **written},
        {"function": f"{bench.kind.driver}.fetched", "op": "db.read", "kind": {"text": "get"}, **read},
    ]
    bench.more["observe"] = ["raw"]


def test_a_method_that_names_its_keys_is_an_operation_on_a_store(bench: Bench) -> None:
    _stored(bench, store={"text": "kv"})
    answers, outcome = bench.run(BEGIN, "keep job-7 done", "look job-7", "look job-8")
    assert answers == ["ok", "ok", "ok done", "ok nothing"]
    assert [(event.op, event.resource) for event in outcome.ok().of("db.write", "db.read", "db.got")] == [
        ("db.write", '{"store":"kv","do":[["put",["job-7"],["done"]]]}'),
        ("db.read", '{"store":"kv","do":[["get",["job-7"],[]]]}'),
        ("db.got", '{"store":"kv","got":[["job-7",["done"]]]}'),
        ("db.read", '{"store":"kv","do":[["get",["job-8"],[]]]}'),
        ("db.got", '{"store":"kv","got":[["job-8",[]]]}'),
    ]
    columns = read_columns(bench.trace_dir)
    found = [(str(access.resource), access.exact, access.effect) for access in keys_accessed(columns)]
    assert found == [
        ("key job-<n>", "kv job-7", "write"),
        ("key job-<n>", "kv job-7", "read"),
        ("key job-<n>", "kv job-8", "read"),
    ]
    (link,) = links(columns).details
    assert (link.source, link.target, link.key) == ("put", "get", "job-7")


def test_a_store_without_a_name_is_the_peer_or_else_the_class(make_bench: Callable[[], Bench]) -> None:
    for more, name in (({"peer": {"text": "s2"}}, "s2"), ({}, "DRIVER")):
        bench = make_bench()
        _stored(bench, **more)
        _, outcome = bench.run(BEGIN, "keep key value")
        (write,) = outcome.ok().of("db.write")
        name = name.replace("DRIVER", bench.kind.driver)
        assert write.resource == f'{{"store":"{name}","do":[["put",["key"],["value"]]]}}'
        assert write.content == ""


def test_long_values_are_digests_and_keys_with_numbers_are_the_content(bench: Bench) -> None:
    _stored(bench, store={"text": "kv"})
    long, wide = "x" * 65, "\u00fc" * 32
    answers, outcome = bench.run(BEGIN, f"keep key-1 {long}", f"keep key-2 {wide}")
    assert answers == ["ok", "ok", "ok"]
    first, second = outcome.ok().of("db.write")
    digest = hashlib.blake2b(long.encode(), digest_size=6).hexdigest()
    assert json.loads(first.resource)["do"] == [["put", ["key-1"], ["#" + digest]]]
    assert json.loads(second.resource)["do"] == [["put", ["key-2"], [wide]]]
    contents = read_contents(bench.trace_dir)
    assert [contents.text(int(contents.content[row])) for row in contents.find("db.write")] == ["key-1", "key-2"]


def test_a_call_without_a_key_is_recorded_without_a_store(bench: Bench) -> None:
    _stored(bench, peer={"text": "s2"}, keys=[{"argument": "value.none"}])
    bench.more["operations"].pop()
    _, outcome = bench.run(BEGIN, "keep key value")
    (write,) = outcome.ok().of("db.write")
    assert (write.target, write.resource) == ("put peer:s2", "put s2")


def test_a_read_that_describes_its_result_records_its_answer_too(bench: Bench) -> None:
    _stored(bench, store={"text": "kv"}, size={"argument": "return"})
    bench.more["operations"].pop(0)
    _, outcome = bench.run(BEGIN, "keep key value", "look key")
    (read,), (got,) = outcome.ok().of("db.read"), outcome.of("db.got")
    assert (read.size, got.size) == (5, read.seq)
    assert got.resource == '{"store":"kv","got":[["key",["value"]]]}'


# --- TLS


def test_the_payload_of_tls_is_recorded(bench: Bench, key: Path) -> None:
    with bench.start() as target, secured(bench, key) as done:
        assert target.do(f"tls c {bench.peer_port}") == "ok"
        assert target.all("mkdir begin", "say c hello") == ["ok", "ok"]
        with done.get(timeout=HANG_S) as peer:
            assert peer.recv(9) == b"hello"
            peer.sendall(b"there!")
            assert target.do("hear c 99") == "ok there!"
            assert target.do("close c") == "ok"
    outcome = bench.outcome().ok()
    assert outcome.short("net.")[0] == "net.connect peer:s2"
    begin = outcome.of("file.mkdir")[0].t_ns
    payload = [event for event in outcome.of("net.send", "net.recv", "net.close") if event.t_ns > begin]
    assert [(event.op, event.target) for event in payload][:2] == [("net.send", PEER), ("net.recv", PEER)]
    assert payload[-1].op == "net.close"
    assert [event.result for event in payload[:2]] == [5, 6]


def test_an_error_hits_the_payload_of_tls(bench: Bench, key: Path) -> None:
    bench.plan(step(RESET, Then(at("file.mkdir", "begin"), at("net.send", PEER))))
    with bench.start() as target, secured(bench, key) as done:
        assert target.do(f"tls c {bench.peer_port}") == "ok"
        with done.get(timeout=HANG_S):
            assert target.all("mkdir begin", "say c hello") == ["ok", "error ECONNRESET"]
    assert [receipt.action for receipt in bench.outcome().receipts] == ["error"]


# --- datagrams


@WAYS
def test_datagrams_are_recorded(bench: Bench, mailbox: socket.socket, way: str) -> None:
    with bench.start(way) as target:
        assert target.all("datagram d", f"sendto d {bench.peer_port} ping") == ["ok", "ok"]
        data, sender = mailbox.recvfrom(99)
        assert data == b"ping"
        mailbox.sendto(b"pong!", sender)
        assert target.all("recvfrom d 99", "close d") == ["ok pong!", "ok"]
    outcome = bench.outcome().ok()
    assert outcome.short("net.") == ["net.send peer:s2", "net.recv other", "net.close other"]
    assert [event.result for event in outcome.of("net.send", "net.recv")] == [4, 5]


@WAYS
def test_errors_and_partitions_hit_datagrams(bench: Bench, mailbox: socket.socket, way: str) -> None:
    bench.plan(step(Error("ENETUNREACH"), at("net.send", PEER)), step(Partition(loss="silent"), at("file.mkdir", "d")))
    line = f"sendto d {bench.peer_port}"
    with bench.start(way) as target:
        assert target.do("datagram d") == "ok"
        assert target.do(f"{line} one").startswith("error ")
        assert target.all(f"{line} two", "mkdir d", f"{line} three") == ["ok", "ok", "ok"]
        bench.heal()
        assert target.do(f"{line} four") == "ok"
        assert [mailbox.recv(9), mailbox.recv(9)] == [b"two", b"four"]  # those during the faults are lost
    errors = [event.error for event in bench.outcome().ok().of("net.send")]
    assert errors == ["ENETUNREACH", "", "LOST", ""]


# --- a tool that does not answer


def test_a_missing_answer_means_no(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    if bench.kind.name not in ("python-pure", "jvm-17"):
        pytest.skip("the same code as in the other runtimes of this agent, and it takes ten seconds")
    asked = threading.Event()

    def claim(self: Controller, request: Any) -> Any:
        asked.set()
        time.sleep(ANSWER_S + 2)
        return {"type": "no"}, []

    monkeypatch.setattr(Controller, "claim", claim)
    bench.plan(step(Crash(), at("file.mkdir")))
    begin = time.monotonic()
    answers, outcome = bench.run("mkdir d", "stat .")
    assert asked.is_set()
    assert [answer.split()[0] for answer in answers] == ["ok", "ok"]
    assert time.monotonic() - begin >= ANSWER_S
    assert outcome.code == 0
    assert outcome.receipts == ()
