"""Both agents record every file and socket operation of the protocol's table, threads, call sites and names alike."""

from __future__ import annotations

import hashlib
import re
import struct
from pathlib import Path

import pytest
from conformance_bench import Bench
from waiting import HANG_S

from undermine.agent_protocol import AGENTS, CAPABILITIES, FAMILIES
from undermine.deployments.stacks import gather
from undermine.model.event import Event
from undermine.model.point import MAPPED, point_of

WAYS = pytest.mark.parametrize("way", ["plain", "other"])

FILES = {
    "mkdir d": ["file.mkdir d"],
    "create f d/log-17.txt": ["file.create d/log-<n>.txt"],
    "write f hello": ["file.write d/log-<n>.txt"],
    "fsync f": ["file.fsync d/log-<n>.txt"],
    "close f": ["file.close d/log-<n>.txt"],
    "open f d/log-17.txt": ["file.open d/log-<n>.txt"],
    "read f 3": ["file.read d/log-<n>.txt"],
    "truncate f 2": ["file.truncate d/log-<n>.txt"],
    "close  f": ["file.close d/log-<n>.txt"],
    "input f d/log-17.txt": ["file.open d/log-<n>.txt"],
    "read f  9": ["file.read d/log-<n>.txt"],
    "close   f": ["file.close d/log-<n>.txt"],
    "stat d/log-17.txt": ["file.stat d/log-<n>.txt"],
    "list d": ["file.list d"],
    "rename d/log-17.txt d/new": ["file.rename d/log-<n>.txt -> d/new"],
    "unlink d/new": ["file.unlink d/new"],
    "rmdir d": ["file.rmdir d"],
}
"""Lines, and the events that each one causes."""


def functions(event: Event) -> list[str]:
    """The names of the target's functions, innermost first."""
    return [loc.partition(":")[2].rpartition("#")[0].rpartition(".")[2] for loc in event.stack]


def ordinal(event: Event) -> int:
    return int(event.loc.rpartition("#")[2])


def test_the_suite_has_every_operation_on_files_and_sockets() -> None:
    """Only the Python agent sees accesses to mapped files (tests/agent); others declare the gap."""
    seen = {shown.split()[0] for lines in FILES.values() for shown in lines}
    network = {"net.connect", "net.accept", "net.send", "net.recv", "net.close"}
    assert seen | network | MAPPED == FAMILIES["file"].operations.keys() | FAMILIES["net"].operations.keys()


@WAYS
def test_file_operations_are_recorded(bench: Bench, way: str) -> None:
    with bench.start(way) as target:
        answers = {line: target.do(" ".join(line.split())) for line in FILES}
    outcome = bench.outcome().ok()
    assert {answer.split()[0] for answer in answers.values()} == {"ok"}, answers
    assert answers["read f 3"] == "ok hel"
    assert answers["read f  9"] == "ok he"
    assert answers["stat d/log-17.txt"] == "ok 2"
    assert answers["list d"] == "ok log-17.txt"
    assert outcome.short("file.") == [shown for lines in FILES.values() for shown in lines]
    (write,) = outcome.of("file.write")
    assert (write.size, write.result) == (5, 5)
    assert [(read.size, read.result) for read in outcome.of("file.read")] == [(3, 3), (9, 2)]
    assert all(0 < event.t_ns <= event.end_ns for event in outcome.trace)
    assert write.resource == str(bench.data / "d" / "log-17.txt")


@WAYS
def test_files_outside_do_not_count_and_errors_are_named(bench: Bench, way: str) -> None:
    outside = bench.folder / "outside"
    answers, outcome = bench.run(
        f"create o {outside}", "write o x", "close o", "input f nowhere/x", f"rename {outside} in", way=way
    )
    outcome.ok()
    assert answers[3] == "error ENOENT"
    assert outcome.short("file.") == ["file.open nowhere/x ENOENT", "file.rename <outside> -> in"]


def test_all_agents_mask_names_alike(bench: Bench) -> None:
    names = {
        "log-17.txt": "log-<n>.txt",
        "tmpab12cd34": "tmp<x>",
        "tmpab1": "tmpab<n>",
        "0a1b2c3d4e.part": "<hex>.part",
        "deadbeef": "deadbeef",
        "12345678": "<hex>",
        "x12345678": "x<n>",
        "123e4567-e89b-12d3-a456-426614174000": "<hex>",
        "v1.2.3": "v<n>.<n>.<n>",
        "snapshot.100000a3f": "snapshot.<hex>",
        "ünï-7": "ünï-<n>",
    }
    with bench.start() as target:
        for name in names:
            assert target.all(f"create f {name}", "close f") == ["ok", "ok"]
    assert [event.target for event in bench.outcome().ok().of("file.create")] == list(names.values())


@WAYS
def test_connections_are_recorded(bench: Bench, way: str) -> None:
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", "send c hello") == ["ok", "ok"]
        peer = bench.called()
        assert peer.recv(5) == b"hello"
        peer.sendall(b"there")
        assert target.do("recv c 9") == "ok there"
        assert target.do("close c") == "ok"
        assert peer.recv(1) == b""
        assert target.do(f"listen l {bench.own_port}") == "ok"
        caller = bench.caller()
        caller.sendall(b"hi")
        assert target.all("accept a l", "recv a 2", "send a you") == ["ok", "ok hi", "ok"]
        assert caller.recv(3) == b"you"
        caller.close()
        assert target.do("recv a 1") == "ok end"
        assert target.do("close a") == "ok"
    outcome = bench.outcome().ok()
    seen = outcome.short("net.")
    assert [shown for shown in seen if "peer" in shown] == [
        "net.connect peer:s2",
        "net.send peer:s2",
        "net.recv peer:s2",
        "net.close peer:s2",
    ]
    rest = [shown for shown in seen if "peer" not in shown]
    assert rest == ["net.accept listen", *(f"net.{op} accepted" for op in ("recv", "send", "recv", "close"))]
    assert [(event.size, event.result) for event in outcome.of("net.send")] == [(5, 5), (3, 3)]
    assert [event.result for event in outcome.of("net.recv")] == [5, 2, 0]
    assert [event.resource for event in outcome.of("net.accept")] == [f"127.0.0.1:{bench.own_port}"]


@WAYS
def test_a_connection_has_a_name(bench: Bench, way: str) -> None:
    with bench.start(way) as target:
        assert target.all(f"connect c {bench.peer_port}", "send c hello", "close c") == ["ok"] * 3
        called = bench.called().getpeername()[1]
        assert target.do(f"listen l {bench.own_port}") == "ok"
        caller = bench.caller()
        caller.sendall(b"hi")
        assert target.all("accept a l", "recv a 2", "close a") == ["ok", "ok hi", "ok"]
        calling = caller.getsockname()[1]
    outcome = bench.outcome().ok()
    assert [event.resource for event in outcome.of("net.connect")] == [f"127.0.0.1:{bench.peer_port}"]
    names = [event.resource.partition("/") for event in outcome.of("net.send", "net.recv", "net.close")]
    out, into = f"127.0.0.1:{called}>127.0.0.1:{bench.peer_port}", f"127.0.0.1:{bench.own_port}>127.0.0.1:{calling}"
    assert [name for name, _, _ in names] == [out, out, into, into]
    numbers = [int(number) for _, _, number in names]
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3]


@WAYS
def test_a_connection_between_nodes_is_known_on_both_sides(bench: Bench, way: str) -> None:
    with bench.start(way) as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        called = bench.called()
        assert told_ports(bench) == {(called.getpeername()[1], bench.peer_port): 1}
        assert target.do(f"listen l {bench.own_port}") == "ok"
        caller = bench.caller()
        tell_port(bench, caller.getsockname()[1], bench.own_port, node=2)
        caller.sendall(b"x")
        assert target.all("accept a l", "recv a 1", "send a y", "close a") == ["ok", "ok x", "ok", "ok"]
        assert target.all(f"connect self {bench.own_port}", "accept b l", "send self z", "recv b 1")[-1] == "ok z"
    outcome = bench.outcome().ok()
    seen = outcome.short("net.send", "net.recv", "net.close")
    assert seen == ["net.recv peer:s2", "net.send peer:s2", "net.close peer:s2", "net.send peer:s1", "net.recv accepted"]


def told_ports(bench: Bench) -> dict[tuple[int, int], int]:
    """The node that opened each connection to the peer (its index plus 1), by the ports of both ends."""
    state = (bench.folder / "state").read_bytes()
    (ports,) = struct.unpack_from("<I", state, 16)
    slots = [slot for slot in range(65536) if state[ports + slot]]
    callers = {slot: struct.unpack_from("<H", state, ports + 65536 + 2 * slot)[0] for slot in slots}
    assert all(slot == (caller + 40503 * bench.peer_port) % 65536 for slot, caller in callers.items())
    return {(caller, bench.peer_port): state[ports + slot] for slot, caller in callers.items()}


def tell_port(bench: Bench, caller: int, called: int, node: int) -> None:
    """Write the node of a connection to the shared state, as the agent of another node does."""
    with (bench.folder / "state").open("r+b") as file:
        file.seek(16)
        (ports,) = struct.unpack("<I", file.read(4))
        slot = (caller + 40503 * called) % 65536
        file.seek(ports + 65536 + 2 * slot)
        file.write(struct.pack("<H", caller))
        file.seek(ports + slot)
        file.write(bytes([node]))


def test_a_refused_connection_has_its_name(bench: Bench) -> None:
    bench.peer.close()
    answers, outcome = bench.run(f"connect c {bench.peer_port}")
    assert answers == ["error ECONNREFUSED"]
    assert outcome.short("net.connect") == ["net.connect peer:s2 ECONNREFUSED"]


def test_a_call_that_would_block_is_not_recorded(bench: Bench) -> None:
    with bench.start("other") as target:
        assert target.all(f"connect c {bench.peer_port}", "nonblocking c", "recv c 5") == ["ok", "ok", "again"]
        bench.called().sendall(b"hello")
        while (answer := target.do("recv c 5")) == "again":
            pass
        assert answer == "ok hello"
    assert len(bench.outcome().ok().of("net.recv")) == 1


def test_threads_are_recorded(bench: Bench) -> None:
    with bench.start() as target:
        assert target.all("@worker-12 create f x", "@worker-12 close f") == ["ok", "ok"]
        assert target.do("another worker-12") == "ok"
        assert target.do("end worker-12") == "ok"
        target.do("@victim stat x")
        assert target.do("die victim ill") == "ok"
    outcome = bench.outcome()
    assert outcome.code == 0
    seen = outcome.short("thread.")
    starts, ends = ([s for s in seen if s.startswith(f"thread.{what} ")] for what in ("start", "end"))
    assert starts == ["thread.start worker-<n>", "thread.start worker-<n>", "thread.start victim"]
    assert ends[:2] == ["thread.end worker-<n>"] * 2
    (death,) = outcome.of("thread.die")
    assert death.target.rpartition(".")[2].rpartition("$")[2] == "Gone"
    assert death.resource == "ill; caused by Cause: first"
    assert death.thread == "victim"
    assert {event.thread for event in outcome.of("file.create", "file.close")} == {"worker-12"}
    assert [event.thread for event in outcome.of("file.stat")] == ["worker-12#2", "victim"]


@WAYS
def test_call_sites_recur_and_differ(bench: Bench, way: str) -> None:
    _, outcome = bench.run("create f x", "deep write f a", "deep write f b", "twice f c", "twice f d", way=way)
    writes = outcome.ok().of("file.write")
    assert len(writes) == 6
    deep, again, one, two, one_again, two_again = writes
    assert functions(deep)[0] == "write"
    shown = functions(deep)
    assert shown.index("inner") < shown.index("outer") < shown.index("deep")
    assert deep.stack == again.stack
    assert (one.stack, two.stack) == (one_again.stack, two_again.stack)
    assert functions(one)[0] == functions(two)[0] == "twice"
    assert ordinal(one) < ordinal(two)
    assert one.line < two.line
    assert one.stack[1:] == two.stack[1:]
    assert all(re.fullmatch(r"[^:#]+:[^:#]+#\d+", loc) for event in writes for loc in event.stack)
    digest = hashlib.blake2b("\n".join(deep.stack).encode(), digest_size=6).hexdigest()
    assert point_of(deep).get("stack") == digest


def test_a_process_reports_its_agent_and_capabilities(bench: Bench) -> None:
    _, outcome = bench.run("stat .")
    agent = outcome.ok().agent
    assert (agent.node, agent.incarnation, agent.version) == ("s1", 1, 2)
    assert agent.agent.startswith(bench.kind.agent)
    lacks = AGENTS[bench.kind.runtime]
    assert set(agent.capabilities) == set(CAPABILITIES) - set(lacks.capabilities_missing)
    assert agent.runtime
    assert agent.executable
    assert Path(agent.executable).exists()
    if bench.kind.is_jvm:
        assert any("map" in gap for gap in agent.gaps)
    events = [path.name for path in bench.trace_dir.iterdir()]
    assert events == [f"s1.1.{agent.pid}.events"]



def test_an_agent_writes_stacks_on_request(bench: Bench) -> None:
    with bench.start() as target:
        assert target.do(f"connect c {bench.peer_port}") == "ok"
        target.tell("@waiter deep recv c 1")
        assert target.do("stat .").startswith("ok")
        for _ in range(50):
            (stacks,) = gather(bench.trace_dir, timeout_s=HANG_S, ask_all=bench.state.ask_for_stacks)
            assert stacks.problem == ""
            by_name = {doing.name: doing for doing in stacks.doing}
            own = [frame.rpartition(".")[2] for frame in by_name["waiter"].own] if "waiter" in by_name else []
            if "recv" in own:
                break
        assert own.index("recv") < own.index("inner") < own.index("outer")
        assert all(re.fullmatch(r"[^:]+:[^:]+:-?\d+", frame) for frame in by_name["waiter"].stack), by_name["waiter"]
        assert not any("undermine" in frame for doing in stacks.doing for frame in doing.stack)
        assert any(doing.name.lower().startswith("main") for doing in stacks.doing)
        bench.called().sendall(b"x")
        assert target.answer("waiter") == "ok x"
    stacks_file = next(bench.trace_dir.glob("*.stacks"))
    assert stacks_file.stat().st_mode & 0o777 == 0o600
    assert bench.outcome().code == 0
