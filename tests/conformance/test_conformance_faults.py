"""Agents carry out each kind of fault, before and after an operation, and lasting faults."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conformance_bench import ANSWER_TO_THE_END, Bench, at, secured, step
from waiting import HANG_S, wait_until

from undermine.agent_protocol import AgentLacks
from undermine.inject.controller import FIRED, OVER
from undermine.model.faults import Crash, Delay, Error, Hold, Partition, Pause, PowerLoss, Reboot
from undermine.model.plan import Then
from undermine.model.point import point_of

WAYS = pytest.mark.parametrize("way", ["plain", "other"])
PLACES = pytest.mark.parametrize("place", ["before", "after"])
PEER = "peer:s2"


# --- crash and reboot


@PLACES
def test_a_crash_keeps_its_receipt_and_all_events_before(bench: Bench, place: Any) -> None:
    fault = Crash() if place == "before" else Reboot()
    bench.plan(step(fault, at("file.write", "x", place, nth=2)))
    with subprocess.Popen(
        ["sh", "-c", "trap 'echo told; exit' USR1; echo up; while :; do sleep 0.02; done"], stdout=subprocess.PIPE, text=True
    ) as keeper:
        try:
            assert keeper.stdout
            assert keeper.stdout.readline() == "up\n"
            bench.environment["UNDERMINE_KEEPER"] = str(keeper.pid)
            answers, outcome = bench.run("create f x", "write f one", "write f two")
            assert keeper.stdout.readline() == "told\n"
        finally:
            keeper.kill()
    assert answers == ["ok", "ok 3", ANSWER_TO_THE_END]
    assert outcome.code == -signal.SIGKILL
    assert outcome.trace.problems == ()
    last = outcome.of("file.write")[-1]
    assert (last.end_ns > 0) == (place == "after")
    assert (bench.data / "x").read_text() == ("one" if place == "before" else "onetwo")
    (receipt,) = outcome.receipts
    assert (receipt.step, receipt.node, receipt.seq) == (0, "s1", last.seq)
    assert receipt.action == ("crash" if place == "before" else "reboot")
    assert receipt.detail.startswith(f"{place} file.write x")
    assert bench.actions.asked == ["expect"]
    (moment,) = bench.controller.moments()
    assert moment.point == point_of(last)
    assert (moment.resource, moment.seq, moment.pid) == (last.resource, last.seq, last.pid)


def test_a_crash_kills_the_cgroup_of_the_node_first(bench: Bench) -> None:
    bench.more["cgroup"] = str(bench.folder)
    (bench.folder / "cgroup.kill").touch()
    bench.plan(step(Crash(), at("file.mkdir")))
    assert bench.run("mkdir d")[0] == [ANSWER_TO_THE_END]
    assert (bench.folder / "cgroup.kill").read_text().strip() == "1"
    assert not (bench.data / "d").exists()


def test_the_agent_leaves_the_tools_faults_to_the_tool(bench: Bench) -> None:
    faults = (Crash(("s2",)), Reboot(0.1, ("s1", "s2")), Pause(1.0), PowerLoss(), Partition(("s2",), level="network"), Hold())
    bench.plan(*(step(fault, at("file.stat", "here")) for fault in faults))
    (bench.data / "here").touch()
    answers, outcome = bench.run(*["stat here"] * 7)
    assert answers == ["ok 0"] * 7
    assert outcome.ok().receipts == ()
    assert bench.actions.asked == ["kill", "kill", "freeze", "cut_power", "cut", "note"]


def test_a_fault_that_the_agent_lacks_is_not_tested(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance_bench.AGENTS", {bench.kind.runtime: AgentLacks(capabilities_missing=("delay-operation",))})
    bench.plan(step(Delay(), at("file.stat")))
    with pytest.raises(pytest.skip.Exception, match=f"the agent {bench.kind.runtime} lacks delay-operation"):
        bench.plan(step(Delay(mode="operation"), at("net.send")))


# --- errors


FILE_ERRORS = {
    "file.mkdir": ("mkdir e", "EIO"),
    "file.create": ("create g g", "ENOSPC"),
    "file.write": ("write f new", "ENOSPC"),
    "file.fsync": ("fsync f", "EIO"),
    "file.truncate": ("truncate r 0", "EIO"),
    "file.read": ("read r 3", "EIO"),
    "file.open": ("input i x", "EIO"),
    "file.rename": ("rename x y", "EIO"),
    "file.list": ("list .", "EIO"),
    "file.unlink": ("unlink x", "EIO"),
    "file.rmdir": ("rmdir d", "EIO"),
    "file.close": ("close f", "EIO"),
}


@WAYS
def test_an_error_replaces_a_file_operation(bench: Bench, way: str) -> None:
    bench.plan(*(step(Error(error), at(op)) for op, (_, error) in FILE_ERRORS.items()))
    (bench.data / "d").mkdir()
    (bench.data / "x").write_text("old")
    with bench.start(way) as target:
        assert target.all("create f f", "open r x") == ["ok", "ok"]
        answers = {op: target.do(line) for op, (line, _) in FILE_ERRORS.items()}
        assert target.all("mkdir e", "rename x y", "unlink y", "rmdir d") == ["ok"] * 4
    outcome = bench.outcome().ok()
    assert answers == {op: f"error {error}" for op, (_, error) in FILE_ERRORS.items()}
    failed = [event for event in outcome.trace if event.error]
    assert [(event.op, event.error) for event in failed] == [(op, error) for op, (_, error) in FILE_ERRORS.items()]
    assert [receipt.seq for receipt in outcome.receipts] == [event.seq for event in failed]
    assert {receipt.action for receipt in outcome.receipts} == {"error"}
    assert (bench.data / "f").read_text() == ""
    assert not (bench.data / "g").exists()


@WAYS
def test_an_error_follows_a_file_operation(bench: Bench, way: str) -> None:
    bench.plan(
        step(Error("EIO"), at("file.create", "x", "after")),
        step(Error("ENOSPC"), at("file.write", "y", "after")),
        step(Error("EIO"), at("file.mkdir", "d", "after")),
        step(Error("EIO"), at("file.rename", "y -> z", "after")),
    )
    with bench.start(way) as target:
        assert target.do("create f x") == "error EIO"
        held = [path.resolve() for path in Path(f"/proc/{target.process.pid}/fd").iterdir()]
        assert bench.data / "x" not in held
        assert target.all("create f y", "write f text") == ["ok", "error ENOSPC"]
        assert target.all("mkdir d", "rename y z") == ["error EIO"] * 2
    outcome = bench.outcome().ok()
    assert (bench.data / "x").read_text() == ""
    assert (bench.data / "z").read_text() == "text"
    assert (bench.data / "d").is_dir()
    assert [event.error for event in outcome.of("file.create", "file.write")] == ["", "", ""]  # the operations succeeded
    assert len(outcome.receipts) == 4


@WAYS
def test_errors_hit_connections(bench: Bench, way: str) -> None:
    bench.plan(
        step(Error("ECONNREFUSED"), at("net.connect", PEER)),
        step(Error("ECONNRESET"), at("net.send", PEER)),
        step(Error("ETIMEDOUT"), at("net.recv", PEER)),
        step(Error("ECONNRESET"), at("net.send", PEER, "after")),
        step(Error("ECONNRESET"), at("net.recv", PEER, "after")),
    )
    with bench.start(way) as target:
        assert target.do(f"connect c {bench.peer_port}") == "error ECONNREFUSED"
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        assert target.do("send c lost") == "error ECONNRESET"
        assert target.do("send c one") == "ok"
        peer = bench.called()
        peer.sendall(b"answer")
        assert target.all("recv c 3", "recv c 3") == ["error ETIMEDOUT", "ok ans"]
        assert target.do("send c two") == "error ECONNRESET"
        assert target.all("recv c 1", "recv c 2") == ["error ECONNRESET", "ok er"]
        assert receive(peer, 6) == b"onetwo"
    outcome = bench.outcome().ok()
    assert [event.error for event in outcome.of("net.connect")] == ["ECONNREFUSED", ""]
    assert [event.error for event in outcome.of("net.send")] == ["ECONNRESET", "", ""]
    assert [event.error for event in outcome.of("net.recv")] == ["ETIMEDOUT", "", "", ""]
    assert [receipt.step for receipt in outcome.receipts] == [0, 1, 2, 3, 4]


def receive(sock: Any, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := sock.recv(size - len(data))):
        data += part
    return data


def test_a_connection_accepted_before_an_error_is_closed(bench: Bench) -> None:
    bench.plan(step(Error("ECONNRESET"), at("net.accept", "listen", "after")))
    with bench.start() as target:
        assert target.do(f"listen l {bench.own_port}") == "ok"
        caller = bench.caller()
        assert target.do("accept a l") == "error ECONNRESET"
        assert caller.recv(1) == b""
        again = bench.caller()
        again.sendall(b"x")
        assert target.all("accept a l", "recv a 1") == ["ok", "ok x"]


# --- errors that last


def test_an_error_lasts_for_a_file(bench: Bench) -> None:
    bench.plan(step(Error("EIO", "file"), at("file.write", "one")))
    answers, outcome = bench.run(
        "create f one", "write f x", "write f y", "fsync f", "stat one", "close f", "input i one", "create g two", "write g x"
    )
    assert answers == ["ok", *["error EIO"] * 3, "ok 0", "ok", "error EIO", "ok", "ok 1"]
    assert len(outcome.ok().receipts) == 1


@WAYS
def test_a_full_disk_hits_operations_that_need_space_until_healing(bench: Bench, way: str) -> None:
    bench.plan(step(Error("ENOSPC", "disk"), at("file.write", "one")))
    (bench.data / "old").write_text("old")
    outside = bench.folder / "outside"
    with bench.start(way) as target:
        assert target.all("create f one", "write f x") == ["ok", "error ENOSPC"]
        assert target.do("create g two") == "error ENOSPC"
        assert target.all("input i old", "read i 3", "unlink old", f"create o {outside}") == ["ok", "ok old", "ok", "ok"]
        bench.heal()
        assert target.all("create g two", "write g x", "write f x") == ["ok", "ok 1", "ok 1"]
    bench.outcome().ok()


def test_an_error_lasts_for_a_peer_until_its_end(bench: Bench) -> None:
    bench.plan(step(Error("ECONNRESET", "peer"), at("net.send", PEER), until=at("file.mkdir", "d")))
    with bench.start() as target:
        assert target.all(f"connect c {bench.peer_port}", "send c x") == ["ok", "error ECONNRESET"]
        assert target.all("send c x", f"connect d {bench.peer_port}") == ["error ECONNRESET"] * 2
        assert target.do("mkdir d") == "ok"
        assert target.do("send c y") == "ok"
        assert bench.called().recv(9) == b"y"
    bench.outcome().ok()
    assert bench.state_byte(64) == 3


# --- delays


@PLACES
def test_a_delay_holds_only_its_own_thread(bench: Bench, place: Any) -> None:
    bench.plan(step(Delay(3600.0), at("file.create", "slow", place)))
    with bench.start() as target:
        target.tell("@t create f slow")
        wait_until(lambda: bench.state_byte(64) == 2, what="the step has fired")
        assert (bench.data / "slow").exists() == (place == "after")
        assert target.do("create g quick") == "ok"
        bench.heal()
        assert target.answer("t") == "ok"
    outcome = bench.outcome().ok()
    (receipt,) = outcome.receipts
    held, quick = outcome.of("file.create")
    assert (held.seq, receipt.action) == (receipt.seq, "delay")
    assert receipt.held_ns > 0
    if place == "before":
        assert held.t_ns < quick.t_ns < quick.end_ns < held.end_ns
        assert held.end_ns - held.t_ns >= receipt.held_ns
    else:
        assert held.t_ns < held.end_ns < quick.t_ns < quick.end_ns


def test_a_delay_ends_by_itself(bench: Bench) -> None:
    bench.plan(step(Delay(0.15), at("file.mkdir", "d")))
    answers, outcome = bench.run("mkdir d")
    assert answers == ["ok"]
    assert outcome.ok().receipts[0].held_ns >= 150_000_000


@pytest.mark.parametrize("end", ["heal", "until"])
def test_a_delay_ends_with_healing_or_its_until(bench: Bench, end: str) -> None:
    bench.plan(step(Delay(3600.0), at("net.send", PEER), until=at("file.mkdir", "d", "after")))
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        target.tell("@t send c x")
        wait_until(lambda: bench.state_byte(64) == 2, what="the step has fired")
        assert target.silent("t", 0.1)
        if end == "heal":
            bench.heal()
        else:
            assert target.do("mkdir d") == "ok"
        assert target.answer("t") == "ok"
        assert bench.called().recv(1) == b"x"
    (receipt,) = bench.outcome().ok().receipts
    assert 0 < receipt.held_ns < 60 * 10**9
    assert bench.actions.asked == (["end"] if end == "until" else [])


def test_a_delayed_receive_ends_at_its_own_time_limit(bench: Bench) -> None:
    """The next receive waits behind it, within its own limit."""
    bench.plan(step(Delay(3600.0, "operation"), at("net.recv", PEER)))
    with bench.start() as target:
        assert target.all(f"connect c {bench.peer_port}", "limit c 0.2") == ["ok", "ok"]
        bench.called().sendall(b"one")
        assert target.all("recv c 3", "recv c 3") == ["error ETIMEDOUT", "error ETIMEDOUT"]
        bench.heal()
        assert target.all(f"limit c {HANG_S}", "recv c 3") == ["ok", "ok one"]
    outcome = bench.outcome().ok()
    (receipt,), held = outcome.receipts, outcome.of("net.recv")[0]
    assert 0 < receipt.held_ns < 3600 * 10**9
    assert held.end_ns - held.t_ns >= 200_000_000


@WAYS
def test_a_delayed_connect_ends_at_its_own_time_limit(bench: Bench, way: str) -> None:
    bench.plan(step(Delay(3600.0, "operation"), at("net.connect", PEER)))
    with bench.start(way) as target:
        first, second = target.all(f"connect_within c {bench.peer_port} 0.2", f"connect_within d {bench.peer_port} {HANG_S}")
        assert (first, second) == ("error ETIMEDOUT", "ok")
    (receipt,) = bench.outcome().ok().receipts
    assert 0 < receipt.held_ns < 3600 * 10**9, "the JDK may have used a part of the limit before it calls the operation"


@pytest.mark.parametrize("op", ["send", "recv"])
def test_a_delay_of_an_operation_does_not_block_a_non_blocking_caller(bench: Bench, op: str) -> None:
    bench.plan(step(Delay(3600.0, "operation"), at(f"net.{op}", PEER)))
    with bench.start("other") as target:
        assert target.all(f"connect c {bench.peer_port}", "nonblocking c") == ["ok", "ok"]
        peer = bench.called()
        peer.sendall(b"one")
        line = "send c one" if op == "send" else "recv c 3"
        answer = until_done(target, line, lambda: bench.state_byte(64) == 2)
        assert target.do("stat .").startswith("ok")
        bench.heal()
        while answer == "again":
            answer = target.do(line)
        assert answer == ("ok" if op == "send" else "ok one")
        if op == "send":
            assert receive(peer, 3) == b"one"
    (receipt,) = bench.outcome().ok().receipts
    assert receipt.action == "delay"
    assert 0 < receipt.held_ns < 3600 * 10**9


def until_done(target: Any, line: str, done: Any) -> str:
    """Repeat the line until the condition `done` holds; return the last answer."""
    while True:
        answer = str(target.do(line))
        if done():
            return answer


# --- partitions


def test_a_partition_with_errors_fails_operations(bench: Bench) -> None:
    bench.plan(step(Partition(loss="error"), at("net.send", PEER, "after")))
    with bench.start() as target:
        assert target.all(f"connect c {bench.peer_port}", "send c one") == ["ok", "ok"]
        assert target.all("send c two", "recv c 1") == ["error ECONNRESET"] * 2
        assert target.do(f"connect d {bench.peer_port}") == "error EHOSTUNREACH"
    outcome = bench.outcome().ok()
    assert outcome.receipts == ()
    assert bench.actions.asked == ["lose"]


@WAYS
@pytest.mark.parametrize("direction", ["both", "out", "in"])
def test_healing_resets_the_connections_that_a_partition_with_errors_cut(bench: Bench, way: str, direction: Any) -> None:
    bench.plan(step(Partition(loss="error", direction=direction), at("net.send", PEER, "after")))
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", f"connect d {bench.peer_port}") == ["ok", "ok"]
        peer, other = bench.called(), bench.called()
        other.sendall(b"unread")
        assert target.do("send c one") == "ok"
        bench.heal()
        assert target.all("send c two", "recv d 6") == ["error ECONNRESET"] * 2
        assert peer.recv(9) == b"one"
        assert target.do(f"connect e {bench.peer_port}") == "ok"
        new = bench.called()
        new.sendall(b"new")
        assert target.all("recv e 3", "send e yes") == ["ok new", "ok"]
        assert receive(new, 3) == b"yes"
        for each in (peer, other):
            with pytest.raises(ConnectionResetError):
                each.recv(9)
    assert [e.error for e in bench.outcome().ok().of("net.send", "net.recv") if e.error] == ["ECONNRESET"] * 2


@WAYS
def test_healing_resets_the_connections_of_a_silent_partition_if_the_plan_says_so(bench: Bench, way: str) -> None:
    """Neither bytes that a program has sent nor those that have arrived are delivered late."""
    bench.plan(step(Partition(resets=True), at("net.send", PEER, "after")))
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", f"connect d {bench.peer_port}") == ["ok", "ok"]
        peer, other = bench.called(), bench.called()
        other.sendall(b"unread")
        assert target.do("send c one") == "ok"
        target.tell("@sends send c two")
        target.tell("@receives recv d 6")
        bench.heal()
        assert target.answer("receives") == "error ECONNRESET"
        assert target.answer("sends") in ("ok", "error ECONNRESET"), "an agent may take the bytes and keep them"
        assert target.all(f"connect e {bench.peer_port}", "send e new") == ["ok", "ok"]
        assert receive(bench.called(), 3) == b"new"
        assert peer.recv(9) == b"one"
        for each in (peer, other):
            with pytest.raises(ConnectionResetError):
                each.recv(9)
    bench.outcome().ok()


@WAYS
def test_a_partition_with_errors_ends_at_an_operation(bench: Bench, way: str) -> None:
    """The connect at which it ends works at once. A thread that has waited at an old connection wakes up."""
    bench.plan(
        step(Hold(), at("net.recv", PEER)),
        step(Partition(loss="error"), at("net.send", PEER, "after"), until=at("net.connect", PEER)),
    )
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", f"connect d {bench.peer_port}") == ["ok", "ok"]
        peer, other = bench.called(), bench.called()
        target.tell("@t recv c 9")
        wait_until(lambda: bench.state_byte(64) == 2, what="the thread receives")
        assert target.all("send d one", "send d two", f"connect e {bench.peer_port}") == ["ok", "error ECONNRESET", "ok"]
        assert target.answer("t") == "error ECONNRESET"
        assert target.all("send d two", "send e new") == ["error ECONNRESET", "ok"]
        assert receive(other, 3) == b"one"
        assert receive(bench.called(), 3) == b"new"
        for each in (peer, other):
            with pytest.raises(ConnectionResetError):
                each.recv(9)
    assert bench.controller.states == [FIRED, OVER]


def test_a_send_at_which_a_partition_ends_fails_on_an_old_connection(bench: Bench) -> None:
    partition = Partition(loss="error")
    bench.plan(step(partition, at("net.connect", PEER, "after"), until=at("net.send", PEER)))
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        assert target.all("recv c 1", "send c one", f"connect d {bench.peer_port}", "send d two") == [
            "error ECONNRESET", "error ECONNRESET", "ok", "ok",
        ]  # fmt: skip
        with pytest.raises(ConnectionResetError):
            bench.called().recv(9)
        assert receive(bench.called(), 3) == b"two"


def test_tls_loses_decrypted_bytes_with_its_connection(bench: Bench, key: Path) -> None:
    bench.plan(
        step(Hold(), Then(at("file.mkdir", "begin"), at("net.recv", PEER))),
        step(Partition(loss="error"), at("net.send", PEER, "after")),
    )
    with bench.start() as target, contextlib.ExitStack() as peers:
        for name in ("c", "d"):
            with secured(bench, key) as done:
                assert target.do(f"tls {name} {bench.peer_port}") == "ok"
                peer = peers.enter_context(done.get(timeout=HANG_S))
            peer.sendall(b"unread" if name == "c" else b"no")
            assert target.do(f"hear {name} 2") == ("ok un" if name == "c" else "ok no")
        assert target.do("mkdir begin") == "ok"
        target.tell("@t hear d 9")
        wait_until(lambda: bench.state_byte(64) == 2, what="the thread receives")
        assert target.do("say c one") == "ok"
        bench.heal()
        assert target.do("hear c 9") == "error ECONNRESET"
        assert target.answer("t") == "error ECONNRESET"


@WAYS
def test_a_connection_that_a_partition_with_errors_cuts_has_no_orderly_end(bench: Bench, way: str) -> None:
    bench.plan(step(Partition(loss="error"), at("net.send", PEER, "after")))
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", "send c one", "close c") == ["ok"] * 3
        peer = bench.called()
        assert peer.recv(9) == b"one"
        with pytest.raises(ConnectionResetError):
            peer.recv(9)


@WAYS
def test_a_silent_partition_loses_nothing_for_good(bench: Bench, way: str) -> None:
    bench.plan(step(Partition(loss="silent"), at("net.send", PEER, "after")))
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", f"connect e {bench.peer_port}") == ["ok", "ok"]
        peer, other = bench.called(), bench.called()
        assert target.do("send c one") == "ok"
        assert peer.recv(3) == b"one"
        target.tell("@t send c two")
        other.sendall(b"hello")
        target.tell("@u recv e 5")
        assert target.do(f"connect d {bench.peer_port}") == "error EHOSTUNREACH"
        assert target.silent("u")
        peer.settimeout(0.1)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        bench.heal()
        peer.settimeout(HANG_S)
        assert target.answer("u") == "ok hello"
        assert target.answer("t") == "ok"
        assert peer.recv(3) == b"two"
    assert bench.outcome().code == 0


@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_partition_may_have_one_direction(bench: Bench, direction: Any) -> None:
    bench.plan(step(Partition(loss="error", direction=direction), at("net.connect", PEER, "after")))
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        bench.called().sendall(b"x")
        answers = target.all("send c x", "recv c 1")
    assert answers == (["error ECONNRESET", "ok x"] if direction == "out" else ["ok", "error ECONNRESET"])
