"""Sessions: every operation is recorded, whatever becomes of it, and may be the moment of a fault."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from undermine.inject.compile import compile_steps
from undermine.inject.controller import Controller, KillNodes
from undermine.inject.server import Server, SharedState
from undermine.model.faults import Crash, Hold, Pause, Reboot
from undermine.model.plan import At, Plan, Step, Then
from undermine.model.point import CLIENT, Point, client_point
from undermine.model.run import NodeInfo, Phase
from undermine.store.rundir import read_history
from undermine.userland.workloads import Refused, Session, SessionFile

NODES = (
    NodeInfo("n1", "store", "127.0.0.1", 1, {"main": 1}, "d1"),
    NodeInfo("n2", "store", "127.0.0.1", 2, {"main": 2}, "d2"),
    NodeInfo("m1", "master", "127.0.0.1", 3, {"main": 3}, "d3"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def session(path: Path, phase: Phase = "workload", **more: Any) -> Session:
    return Session(SessionFile(NODES, 7, str(path), "none", "none", **more), phase)


def fail(error: Exception) -> Callable[[], Any]:
    def function() -> Any:
        raise error

    return function


# --- attempts


def test_what_returns_is_ok_and_recorded_with_everything(path: Path) -> None:
    outcome = session(path).attempt("put", lambda: 41 + 1, client="c1", node="n2", args={"k": "a"})
    assert (outcome.ok, outcome.value) == (True, 42)
    (op,) = read_history(path)
    assert (op.index, op.client, op.f, op.node, op.args, op.status, op.value) == (
        0,
        "c1",
        "put",
        "n2",
        {"k": "a"},
        "ok",
        42,
    )
    assert (op.phase, 0 < op.start_ns <= op.end_ns) == ("workload", True)


@pytest.mark.parametrize("error", [Refused("not leader"), KeyError("k")])
def test_what_certainly_did_not_happen_has_failed(path: Path, error: Exception) -> None:
    outcome = session(path).attempt("put", fail(error), fails=(KeyError,))
    assert (outcome.status, outcome.ok, outcome.value) == ("fail", False, None)
    assert outcome.error == f"{type(error).__name__}: {error}"
    assert [(op.status, op.error) for op in read_history(path)] == [("fail", outcome.error)]


@pytest.mark.parametrize("error", [TimeoutError("late"), OSError(104, "reset"), ValueError()])
def test_what_raised_otherwise_is_unknown_and_does_not_raise_here(path: Path, error: Exception) -> None:
    outcome = session(path).attempt("put", fail(error), fails=(KeyError,))
    assert outcome.status == "unknown"
    assert [op.status for op in read_history(path)] == ["unknown"]


def test_an_operation_is_pending_as_long_as_it_has_not_ended(path: Path) -> None:
    seen: list[str] = []
    session(path).attempt("put", lambda: seen.extend(op.status for op in read_history(path)))
    assert seen == ["pending"]


def test_the_client_is_the_thread_unless_it_is_named(path: Path) -> None:
    made = session(path)
    made.clients({"writer": lambda: made.attempt("put", lambda: None)})
    assert [op.client for op in read_history(path)] == ["writer"]


@pytest.mark.parametrize("value", [object(), {1, 2}, b"\xff", Path("x"), {"nested": [object()]}, 2**60, float("inf")])
def test_any_value_can_be_recorded(path: Path, value: Any) -> None:
    outcome = session(path).attempt("get", lambda: value)
    assert outcome.value is value
    assert [op.status for op in read_history(path)] == ["ok"]


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda: {(1, 2): "x"}, id="a tuple as key"),
        pytest.param(lambda: 2**70, id="a huge number"),
        pytest.param(lambda: "\udc80", id="a surrogate in the value"),
        pytest.param(fail(OSError("\udcff")), id="a surrogate in the error"),
    ],
)
def test_an_attempt_does_not_raise_whatever_the_operation_gives(path: Path, function: Callable[[], Any]) -> None:
    session(path).attempt("get", function)
    assert [op.status for op in read_history(path)] in (["ok"], ["unknown"])


def test_numbers_of_operations_are_unique_over_clients_and_phases(path: Path) -> None:
    first = session(path)
    clients = {f"c{n}": lambda: [first.attempt("put", lambda: None) for _ in range(25)] for n in range(8)}
    first.clients(clients)
    session(path, "final").attempt("read", lambda: None)
    ops = read_history(path)
    assert [op.index for op in ops] == list(range(201))
    assert {op.status for op in ops} == {"ok"}
    assert ops[-1].phase == "final"


# --- fewer operations


def test_a_client_ends_after_the_operations_that_the_plan_allows(path: Path) -> None:
    made = session(path, operations_max=2)
    after: list[str] = []

    def use(client: str) -> None:
        for _ in range(4):
            made.attempt("put", lambda: None, client=client)
        after.append(client)

    made.clients({"c1": lambda: use("c1"), "c2": lambda: use("c2")})
    assert sorted(op.client for op in read_history(path)) == ["c1", "c1", "c2", "c2"]
    assert after == []
    with pytest.raises(SystemExit) as ended:  # a workload that ends like this has ended well
        use("c1")
    assert ended.value.code is None


def test_final_reads_are_not_limited(path: Path) -> None:
    final = session(path, "final", operations_max=1)
    assert [final.attempt("get", lambda: 1, client="c").ok for _ in range(3)] == [True] * 3


# --- the session


def test_nodes_are_found_by_name_and_role(path: Path) -> None:
    made = session(path)
    assert made.node("m1").port == 3
    assert [info.id for info in made.role("store")] == ["n1", "n2"]
    assert made.role("none") == []


def test_equal_seeds_give_equal_randomness_and_parameters_are_there(path: Path) -> None:
    one, two = session(path, params={"size": 3}), session(path)
    assert [one.rng.random() for _ in range(5)] == [two.rng.random() for _ in range(5)]
    assert (one.seed, one.params) == (7, {"size": 3})


def test_clients_run_at_the_same_time_and_all_are_waited_for(path: Path) -> None:
    barrier = threading.Barrier(3)
    done: list[int] = []

    def client(number: int) -> None:
        barrier.wait(10)
        done.append(number)

    session(path).clients({f"c{n}": lambda n=n: client(n) for n in range(3)})  # type: ignore[misc]
    assert sorted(done) == [0, 1, 2]


def test_the_exception_of_a_client_is_raised_once_all_are_over(path: Path) -> None:
    other_failed = threading.Event()
    done: list[str] = []

    def bad() -> None:
        other_failed.set()
        raise AssertionError("lost k1")

    def good() -> None:
        assert other_failed.wait(10)
        done.append("good")

    with pytest.raises(AssertionError, match="lost k1"):
        session(path).clients({"bad": bad, "good": good})
    assert done == ["good"]


# --- the history file


KILLED = """
    import os, signal, sys
    from undermine.userland.workloads import Session, SessionFile

    session = Session(SessionFile((), 0, sys.argv[1], "none", "none"), "workload")
    session.attempt("put", lambda: "done", client="c1")
    session.attempt("get", lambda: os.kill(os.getpid(), signal.SIGKILL), client="c1")
"""


def test_a_writer_that_is_killed_leaves_what_it_did_and_what_was_open(path: Path) -> None:
    code = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(path)], check=False).returncode
    assert code == -signal.SIGKILL
    assert [(op.f, op.status, op.value) for op in read_history(path)] == [
        ("put", "ok", "done"),
        ("get", "pending", None),
    ]


def test_after_a_killed_writer_numbers_go_on(path: Path) -> None:
    subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(path)], check=False)
    session(path, "final").attempt("read", lambda: None)
    assert [(op.index, op.status) for op in read_history(path)] == [(0, "ok"), (1, "pending"), (2, "ok")]


def test_a_torn_last_line_is_skipped(path: Path) -> None:
    session(path).attempt("put", lambda: None)
    whole = path.read_bytes()
    last = whole.splitlines()[-1]
    for length in (1, len(last) // 2, len(last) - 1):
        path.write_bytes(whole + last[:length])
        assert [op.status for op in read_history(path)] == ["ok"]


def test_an_operation_after_a_torn_line_is_not_lost(path: Path) -> None:
    session(path).attempt("put", lambda: None)
    with open(path, "ab") as stream:
        stream.write(b'{"index": 1, "client": "c')
    seen: list[str] = []
    session(path, "final").attempt("read", lambda: seen.extend(op.status for op in read_history(path)))
    assert seen == ["ok", "pending"]


# --- operations of clients as triggers


class FakeTool:
    """A socket server that answers every claim after it has looked at the world."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.path = folder / "tool.sock"
        self.state_path = folder / "state.bin"
        self.state_path.write_bytes(b"UMS2".ljust(64, b"\0") + (b"\1".ljust(16, b"\0")) * steps)
        self.claims: list[dict[str, Any]] = []
        self.at_claim: Callable[[], None] = lambda: None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # closed before anybody came
        with contextlib.suppress(ConnectionResetError), connection, connection.makefile("rwb") as stream:
            for line in stream:
                self.claims.append(json.loads(line))
                self.at_claim()
                stream.write(b'{"type": "go", "external": true}\n')
                stream.flush()

    def set(self, offset: int, value: int) -> None:
        with open(self.state_path, "r+b") as stream:
            stream.seek(offset)
            stream.write(bytes([value]))

    def byte(self, offset: int) -> int:
        return self.state_path.read_bytes()[offset]

    def close(self) -> None:
        self._listener.close()


ToolMaker = Callable[[int], FakeTool]


@pytest.fixture
def fake_tool(tmp_path: Path) -> Iterator[ToolMaker]:
    tools: list[FakeTool] = []

    def make(steps: int) -> FakeTool:
        tools.append(FakeTool(tmp_path, steps))
        return tools[-1]

    yield make
    for tool in tools:
        tool.close()


def triggered(tool: FakeTool, path: Path, *steps: Step, phase: Phase = "workload") -> Session:
    table = compile_steps(Plan(steps), CLIENT, {})
    assert table
    return Session(SessionFile(NODES, 7, str(path), str(tool.path), str(tool.state_path), steps=table), phase)


def put(made: Session, node: str = "n1") -> None:
    made.attempt("put", lambda: None, node=node)


PUT = At(client_point("put", "n1"))


def test_the_nth_operation_of_that_kind_at_that_node_claims_the_step(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)
    made = triggered(tool, path, Step(At(PUT.point, "before", 3), Crash(("n2",))))
    put(made)
    put(made, "n2")
    made.attempt("get", lambda: None, node="n1")
    put(made)
    assert tool.claims == []
    put(made)
    (claim,) = tool.claims
    assert (claim["type"], claim["step"], claim["node"], claim["point"]) == ("claim", 0, CLIENT, PUT.point.as_dict())
    put(made)
    assert len(tool.claims) == 1


@pytest.mark.parametrize(("place", "status"), [("before", []), ("after", ["ok"])])
def test_the_fault_is_done_before_or_after_the_operation_as_planned(
    fake_tool: ToolMaker, path: Path, place: Any, status: list[str]
) -> None:
    tool = fake_tool(1)
    seen: list[list[str]] = []
    tool.at_claim = lambda: seen.append([op.status for op in read_history(path)])
    put(triggered(tool, path, Step(At(PUT.point, place), Crash(("n2",)))))
    assert seen == [status]


@pytest.mark.parametrize("state", [0, 2])
def test_a_step_that_is_not_armed_counts_nothing(fake_tool: ToolMaker, path: Path, state: int) -> None:
    tool = fake_tool(1)
    made = triggered(tool, path, Step(At(PUT.point, "before", 2), Crash(("n2",))))
    tool.set(64, state)
    put(made)
    tool.set(64, 1)
    put(made)
    assert tool.claims == []
    put(made)
    assert len(tool.claims) == 1


def test_nothing_is_claimed_once_everything_is_healed(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)
    made = triggered(tool, path, Step(PUT, Crash(("n2",))))
    tool.set(12, 1)
    put(made)
    assert tool.claims == []


def test_the_second_half_counts_only_once_the_first_was_seen(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)
    get = At(client_point("get", "n1"), "after")
    made = triggered(tool, path, Step(Then(get, PUT), Crash(("n2",))))
    put(made)
    assert (tool.claims, tool.byte(65)) == ([], 0)
    made.attempt("get", lambda: None, node="n1")
    assert (tool.claims, tool.byte(65)) == ([], 1)
    put(made)
    assert len(tool.claims) == 1


def test_a_first_half_that_an_agent_saw_counts_too(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)
    made = triggered(tool, path, Step(Then(At(client_point("x", "")), PUT), Crash(("n2",))))
    tool.set(65, 1)
    put(made)
    assert len(tool.claims) == 1


def test_the_end_of_a_step_is_claimed_once_it_has_fired(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)
    until = Then(At(client_point("get", "n1")), At(PUT.point, "before", 2))
    made = triggered(tool, path, Step(PUT, Pause(1.0, ("n2",)), until))
    put(made)
    made.attempt("get", lambda: None, node="n1")
    assert ([claim["half"] for claim in tool.claims], tool.byte(66)) == (["second"], 0)
    tool.set(64, 2)
    put(made)
    put(made)
    made.attempt("get", lambda: None, node="n1")
    assert tool.byte(66) == 1
    put(made)
    assert len(tool.claims) == 1
    put(made)
    assert [claim["half"] for claim in tool.claims] == ["second", "until"]


def test_final_reads_never_trigger_anything(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)
    put(triggered(tool, path, Step(PUT, Crash(("n2",))), phase="final"))
    assert tool.claims == []


def test_a_tool_that_is_gone_does_not_hurt_the_workload(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)

    def die() -> None:
        raise ConnectionResetError

    tool.at_claim = die
    made = triggered(tool, path, Step(At(PUT.point, "before", 1), Crash(("n2",))))
    put(made)
    assert [op.status for op in read_history(path)] == ["ok"]


def test_many_clients_claim_a_step_once(fake_tool: ToolMaker, path: Path) -> None:
    tool = fake_tool(1)
    made = triggered(tool, path, Step(At(PUT.point, "before", 5), Crash(("n2",))))
    made.clients({f"c{n}": lambda: [put(made) for _ in range(5)] for n in range(8)})
    assert len(tool.claims) == 1


def test_clients_never_count_for_steps_that_are_bound_to_nodes(fake_tool: ToolMaker, path: Path) -> None:
    anywhere, tool = At(Point(())), fake_tool(2)
    steps = (Step(anywhere, Hold(), same="node"), Step(Then(anywhere, anywhere, same="process"), Hold()))
    made = triggered(tool, path, *steps)
    put(made)
    put(made)
    assert tool.claims == []


def test_against_the_real_server_the_node_is_dead_before_the_operation_begins(tmp_path: Path, path: Path) -> None:
    plan = Plan((Step(PUT, Crash(("n2",))), Step(At(client_point("get", "n1"), "after"), Reboot(0.1, ("m1",)))))
    state = SharedState(tmp_path / "state.bin", 2)
    killed: list[tuple[tuple[str, ...], int]] = []

    class Actions:
        def kill(self, instruction: KillNodes) -> None:
            killed.append((instruction.nodes, len(read_history(path))))

    controller = Controller(plan, [info.id for info in NODES])
    server = Server(controller, tmp_path / "s.sock", state, Actions())  # type: ignore[arg-type]
    table = compile_steps(plan, CLIENT, {})
    made = Session(
        SessionFile(NODES, 7, str(path), str(tmp_path / "s.sock"), str(tmp_path / "state.bin"), steps=table), "workload"
    )
    made.attempt("get", lambda: None, node="n1")
    put(made)
    made.attempt("get", lambda: None, node="n1")
    assert killed == [(("n2",), 1), (("m1",), 3)]
    server.close()
    state.close()
