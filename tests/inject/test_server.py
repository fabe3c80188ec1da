"""The controller's socket and shared memory, talked to over a real Unix socket by hand-written clients."""

from __future__ import annotations

import json
import resource
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG_S, wait_until

import undermine.inject.server as server_module
from undermine.inject.controller import VERSION, Controller, EndFault, EndInTime, ExpectCrash, KillNodes, Note
from undermine.inject.server import Server, SharedState
from undermine.model.faults import Crash, Delay, Error, Fault, Hold, Partition, Reboot
from undermine.model.plan import At, Plan, Step, Trigger
from undermine.testing import point


class Agent:
    """A client of the protocol."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))  # without a time limit it waits while the queue of the socket is full
        self.socket.settimeout(HANG_S)
        self.stream = self.socket.makefile("rwb")

    def send(self, line: bytes) -> None:
        self.stream.write(line)
        self.stream.flush()

    def ask(self, **request: Any) -> Any:
        self.send(json.dumps(request).encode() + b"\n")
        return json.loads(self.stream.readline())

    def hello(self, node: str = "n1", version: int = VERSION, **more: Any) -> Any:
        return self.ask(
            type="hello",
            **more,
            version=version,
            node=node,
            incarnation=1,
            pid=7,
            agent="a",
            runtime="r",
            capabilities=["crash"],
        )

    def claim(self, step: int = 0, node: str = "n1", **more: Any) -> Any:
        return self.ask(type="claim", step=step, node=node, incarnation=1, pid=7, seq=1, t_ns=1, **more)

    def hung_up_on(self) -> bool:
        """True once the other side has closed; waits for it."""
        try:
            return self.stream.readline() == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


def claim_line(step: int) -> bytes:
    request = {"type": "claim", "step": step, "node": "n1", "incarnation": 1, "pid": 7, "seq": 1, "t_ns": 1}
    return json.dumps(request).encode() + b"\n"


class Recorder:
    """Actions that are only noted."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.at_kill: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Callable[[object], None]:
        return self.done.append

    def kill(self, instruction: KillNodes) -> None:
        self.at_kill()
        self.done.append(instruction)

    def of(self, kind: type) -> list[Any]:
        return [instruction for instruction in self.done if isinstance(instruction, kind)]


class Running:
    """A server of one plan, and the actions that it asked for."""

    def __init__(
        self, folder: Path, *faults: Fault, until: Trigger | None = None, tokens: dict[str, str] | None = None
    ) -> None:
        self.path = folder / "s.sock"
        self.state_path = folder / "state.bin"
        self.before = set(threading.enumerate())
        plan = Plan(tuple(Step(At(point()), fault, until) for fault in faults))
        self.controller = Controller(plan, ["n1", "n2"])
        self.state = SharedState(self.state_path, len(faults))
        self.actions = Recorder()
        self.server = Server(self.controller, self.path, self.state, self.actions, tokens)  # type: ignore[arg-type]
        self._agents: list[Agent] = []

    def agent(self) -> Agent:
        self._agents.append(Agent(self.path))
        return self._agents[-1]

    def bytes(self) -> bytes:
        return self.state_path.read_bytes()

    def problems(self, count: int) -> list[str]:
        """Wait for this many problems and return them: the server notes them just after it closes the connection."""
        deadline = time.monotonic() + HANG_S
        while len(self.server.problems) < count and self.serving() and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.server.problems

    def serving(self) -> bool:
        return any(thread.name == "agent" for thread in self.threads())

    def threads(self) -> list[threading.Thread]:
        return [t for t in threading.enumerate() if t not in self.before and t.name in ("agent", "agent-server")]

    def close(self) -> None:
        self.server.close()
        for agent in self._agents:
            agent.close()
        for thread in self.threads():
            thread.join(HANG_S)
        self.state.close()


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[Running] = []

    def begin(*faults: Fault, until: Trigger | None = None) -> Running:
        made.append(Running(tmp_path, *faults, until=until))
        return made[-1]

    yield begin
    for running in made:
        running.close()


# --- shared state


def test_the_state_file_has_the_bytes_that_the_protocol_page_says(start: Start) -> None:
    running = start(Delay(), Error("EIO", "disk"))
    assert len(running.bytes()) == 64 + 16 * 2
    assert running.bytes()[0:4] == b"UMS2"
    assert running.bytes()[8:13] == b"\0\0\0\0\0"
    assert (running.bytes()[64], running.bytes()[80]) == (1, 0)
    agent = running.agent()
    agent.claim(0)
    assert (running.bytes()[64], running.bytes()[80]) == (2, 1)
    agent.claim(1)
    assert (running.bytes()[64], running.bytes()[80]) == (2, 2)
    assert struct.unpack_from("<I", running.bytes(), 8) == (1,)
    running.server.heal()
    assert running.bytes()[12] == 1
    assert struct.unpack_from("<I", running.bytes(), 8) == (2,)


def test_the_tool_leaves_the_agents_byte_of_a_step_alone(start: Start) -> None:
    running = start(Delay(), Delay())
    with open(running.state_path, "r+b") as stream:
        stream.seek(65)
        stream.write(b"\x01")
    running.agent().claim(0)
    running.server.heal()
    assert running.bytes()[65] == 1


def test_a_plan_without_steps_has_a_state_file_too(start: Start) -> None:
    assert start().bytes()[0:4] == b"UMS2"


def test_the_state_file_is_for_its_owner_only_and_never_taken_over(start: Start) -> None:
    running = start(Delay())
    assert stat.S_IMODE(running.state_path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        SharedState(running.state_path, 1)


def test_ports_and_variables_follow_the_steps(tmp_path: Path) -> None:
    state = SharedState(tmp_path / "state.bin", 2, ports=True, variables=2)
    state.close()
    data = (tmp_path / "state.bin").read_bytes()
    ports, variables = struct.unpack_from("<II", data, 16)
    assert (ports, variables) == (64 + 16 * 2, 64 + 16 * 2 + 3 * 65_536)
    assert len(data) == variables + 128 * 2
    assert [struct.unpack_from("<IH", data, variables + 128 * slot) for slot in (0, 1)] == [(0, 0xFFFF)] * 2


def test_nodes_have_flags_of_their_own_and_steps_a_place(tmp_path: Path) -> None:
    state = SharedState(tmp_path / "state.bin", 2, variables=1, nodes=3)
    state.bind_step(1, 4242)
    state.close()
    data = (tmp_path / "state.bin").read_bytes()
    (firsts,) = struct.unpack_from("<I", data, 24)
    assert firsts == 64 + 16 * 2 + 128
    assert len(data) == firsts + 2 * 2 * 3
    assert [struct.unpack_from("<I", data, 64 + 16 * step + 4) for step in (0, 1)] == [(0,), (4242,)]


def test_nodes_with_hosts_of_their_own_need_no_ports(tmp_path: Path) -> None:
    SharedState(tmp_path / "state.bin", 1, variables=1).close()
    data = (tmp_path / "state.bin").read_bytes()
    assert struct.unpack_from("<II", data, 16) == (0, 64 + 16)


def test_generations_are_not_lost_when_many_bump_at_once(start: Start) -> None:
    running = start(Delay())
    threads = [threading.Thread(target=lambda: [running.state.bump() for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert struct.unpack_from("<I", running.bytes(), 8) == (1600,)


# --- conversation


def test_the_socket_is_for_its_owner_only(start: Start) -> None:
    path = start(Delay()).path
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_hello_is_answered_with_welcome_and_another_version_is_refused(start: Start) -> None:
    running = start(Delay())
    assert running.agent().hello() == {"type": "welcome", "lasting": []}
    assert running.agent().hello(version=VERSION - 1)["type"] == "refused"
    assert running.server.problems == []


def test_a_claim_is_granted_to_one_of_two_agents(start: Start) -> None:
    running = start(Delay())
    assert running.agent().claim(0, "n1") == {"type": "go"}
    assert running.agent().claim(0, "n2") == {"type": "no"}


def test_lasting_errors_go_to_the_node_that_said_hello_on_this_connection(start: Start) -> None:
    running = start(Error("EIO", "file"))
    agent, other = running.agent(), running.agent()
    agent.hello("n1")
    other.hello("n2")
    agent.claim(0, "n1", resource="/raw/path", point={"target": "x"})
    expected = {"step": 0, "kind": "error", "error": "EIO", "scope": "file", "value": "/raw/path"}
    assert agent.ask(type="lasting") == {"type": "lasting", "lasting": [expected]}
    assert other.ask(type="lasting") == {"type": "lasting", "lasting": []}
    assert running.agent().hello("n1")["lasting"] == [expected]


def test_the_death_of_the_own_node_is_expected_before_the_agent_gets_its_answer(start: Start) -> None:
    running = start(Reboot(0.4))
    assert running.agent().claim(0, "n1") == {"type": "go"}
    assert running.actions.of(ExpectCrash) == [ExpectCrash(0, "n1", 0.4)]


def test_another_node_is_dead_before_the_agent_continues_and_before_the_next_step_is_armed(start: Start) -> None:
    running = start(Crash(("n2",)), Delay())
    armed_at_kill: list[int] = []
    running.actions.at_kill = lambda: armed_at_kill.append(running.bytes()[80])
    assert running.agent().claim(0, "n1") == {"type": "go", "external": True}
    assert running.actions.of(KillNodes) == [KillNodes(0, ("n2",), None)]
    assert armed_at_kill == [0]
    assert running.bytes()[80] == 1


def test_the_end_of_a_step_is_carried_out_before_the_agent_continues(start: Start) -> None:
    running = start(Partition(), until=At(point("net.send")))
    agent = running.agent()
    agent.hello("n1")
    assert agent.claim(0, "n1") == {"type": "go", "external": True}
    assert [item["peers"] for item in agent.ask(type="lasting")["lasting"]] == [["n2"]]
    assert running.bytes()[64] == 2
    assert agent.claim(0, "n1", half="until") == {"type": "go"}
    assert agent.ask(type="lasting")["lasting"] == []
    assert running.bytes()[64] == 3
    assert running.actions.of(EndFault) == [EndFault(0, "n1")]
    assert agent.claim(0, "n1", half="until") == {"type": "no"}


def test_a_slow_kill_does_not_keep_other_agents_waiting(start: Start) -> None:
    running = start(Crash(("n2",)), Delay())
    entered, go_on = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        assert go_on.wait(HANG_S)

    running.actions.at_kill = block
    slow = threading.Thread(target=running.agent().claim)
    slow.start()
    assert entered.wait(HANG_S)
    assert running.agent().hello("n3")["type"] == "welcome"
    assert running.actions.of(KillNodes) == []
    go_on.set()
    slow.join(HANG_S)
    assert len(running.actions.of(KillNodes)) == 1


def test_nothing_fires_after_healing_and_nothing_lasts(start: Start) -> None:
    running = start(Error("EIO", "disk"), Delay())
    agent = running.agent()
    agent.claim(0)
    running.server.heal()
    assert agent.claim(1) == {"type": "no"}
    assert agent.ask(type="lasting", node="n1")["lasting"] == []


def test_a_claim_that_an_agent_has_sent_before_healing_is_granted(start: Start) -> None:
    running = start(Delay())
    agent = running.agent()
    assert agent.hello()["type"] == "welcome"
    agent.send(claim_line(0))
    running.server.finish_requests()
    running.server.heal()
    assert json.loads(agent.stream.readline()) == {"type": "go"}


def test_healing_waits_for_what_a_claim_has_begun(start: Start) -> None:
    running = start(Crash(("n2",)))
    entered, go_on, finished = threading.Event(), threading.Event(), threading.Event()
    running.actions.at_kill = lambda: (entered.set(), go_on.wait(HANG_S))  # type: ignore[assignment, return-value]
    running.agent().send(claim_line(0))
    assert entered.wait(HANG_S)
    finish = threading.Thread(target=lambda: (running.server.finish_requests(), finished.set()))
    finish.start()
    assert not finished.wait(0.1)
    go_on.set()
    assert finished.wait(HANG_S)
    finish.join()


def test_requests_that_arrive_together_are_all_answered(start: Start) -> None:
    running = start(Delay(), Delay())
    agent = running.agent()
    agent.send(claim_line(0) + claim_line(1))
    assert [json.loads(agent.stream.readline())["type"] for _ in range(2)] == ["go", "go"]
    running.server.finish_requests()


def test_exactly_one_of_many_parallel_claims_is_granted_for_each_step(start: Start) -> None:
    running = start(*[Delay()] * 5)
    agents = [running.agent() for _ in range(16)]
    barrier = threading.Barrier(len(agents))
    answers: list[tuple[int, str]] = []

    def claim_all(agent: Agent) -> None:
        for step in range(5):
            barrier.wait(HANG_S)
            answers.append((step, agent.claim(step)["type"]))

    threads = [threading.Thread(target=claim_all, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 80
    assert sorted(step for step, answer in answers if answer == "go") == [0, 1, 2, 3, 4]


def test_a_hold_is_noted_before_the_agent_continues_and_its_moment_is_kept(start: Start) -> None:
    running = start(Hold())
    keys = point(node="n1").as_dict()
    assert running.agent().claim(0, "n1", point=keys, resource="/raw/path") == {"type": "go", "external": True}
    assert running.actions.of(Note) == [Note(0, "n1", 7, 1)]
    (moment,) = running.server.moments()
    assert (moment.step, moment.node, moment.t_ns, moment.seq, moment.pid) == (0, "n1", 1, 1, 7)
    assert (moment.point, moment.resource) == (point(node="n1"), "/raw/path")


# --- hostile clients


@pytest.mark.parametrize(
    "line",
    [
        b"what?\n",
        b"\xff\xfe\n",
        b"17\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b'{"type": "dance"}\n',
        b'{"type": ["claim"]}\n',
        b'{"type": "hello", "version": "one"}\n',
        b'{"type": "claim", "step": "first", "node": "n1", "incarnation": 1, "pid": 1}\n',
        b'{"type": "claim", "node": "n1"}\n',
        b"\n",
    ],
)
def test_a_protocol_error_ends_only_that_connection(start: Start, line: bytes) -> None:
    running = start(Delay())
    steady, rude = running.agent(), running.agent()
    steady.hello()
    rude.send(line)
    rude.socket.shutdown(socket.SHUT_WR)
    assert rude.hung_up_on()
    (problem,) = running.problems(1)
    assert "broke the protocol" in problem
    assert steady.claim(0) == {"type": "go"}
    assert running.agent().hello()["type"] == "welcome"


def test_the_problem_names_the_node_once_it_is_known(start: Start) -> None:
    running = start(Delay())
    known, unknown = running.agent(), running.agent()
    known.hello("n7")
    for agent in (known, unknown):
        agent.send(b"garbage\n")
        assert agent.hung_up_on()
    assert sorted("n7" in problem for problem in running.problems(2)) == [False, True]
    assert sorted("unknown node" in problem for problem in running.problems(2)) == [False, True]


def test_an_oversized_line_is_a_problem_and_is_not_kept_in_memory(start: Start) -> None:
    running = start(Delay())
    rude = running.agent()
    with pytest.raises(ConnectionError):
        rude.socket.sendall(b'"' + b"x" * (64 << 20))
    assert len(running.problems(1)) == 1
    assert running.agent().claim(0) == {"type": "go"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_json_that_is_nested_too_deeply_is_a_problem_like_any_other(start: Start) -> None:
    running = start(Delay())
    rude = running.agent()
    rude.send(b"[" * 500_000 + b"\n")
    assert rude.hung_up_on()
    assert len(running.problems(1)) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_kill_that_raises_is_a_problem_of_the_run(start: Start) -> None:
    running = start(Crash(("n2",)))

    def fail() -> None:
        raise RuntimeError("the guardian is gone")

    running.actions.at_kill = fail
    agent = running.agent()
    agent.send(b'{"type": "claim", "step": 0, "node": "n1", "incarnation": 1, "pid": 1}\n')
    assert agent.hung_up_on()
    assert "the guardian is gone" in "".join(running.problems(1))


def test_an_agent_that_dies_within_a_request_is_not_a_problem_of_the_run(start: Start) -> None:
    running = start(Delay())
    agent = running.agent()
    agent.hello()
    agent.close()
    assert running.agent().claim(0) == {"type": "go"}
    assert running.server.problems == []


# --- the end


def test_closing_ends_all_threads_and_hangs_up_on_all_agents(start: Start) -> None:
    running = start(Delay())
    agents = [running.agent() for _ in range(5)]
    for agent in agents:
        agent.hello()
    threads = running.threads()
    assert len(threads) == 6
    running.server.close()
    assert all(agent.hung_up_on() for agent in agents)
    for thread in threads:
        thread.join(HANG_S)
    assert not any(thread.is_alive() for thread in threads)
    with pytest.raises(ConnectionRefusedError):
        running.agent()
    assert running.server.problems == []


def test_closing_twice_does_no_harm(start: Start) -> None:
    running = start(Delay())
    running.server.close()
    running.server.close()
    assert running.server.problems == []


def test_variables_of_a_dead_node_are_absent_even_if_it_died_while_it_wrote_them(tmp_path: Path) -> None:
    state = SharedState(tmp_path / "state.bin", 1, variables=3)
    data = bytearray((tmp_path / "state.bin").read_bytes())
    (at,) = struct.unpack_from("<I", data, 20)
    for slot, version in enumerate((2, 5, 4)):
        struct.pack_into("<IH4s", data, at + 128 * slot, version, 4, b"text")
    (tmp_path / "state.bin").write_bytes(data)
    state.forget([0, 1])
    state.close()
    data = bytearray((tmp_path / "state.bin").read_bytes())
    assert [struct.unpack_from("<IH", data, at + 128 * slot) for slot in range(3)] == [(4, 0xFFFF), (6, 0xFFFF), (4, 4)]


# --- peers that are not agents


TOKENS = {"n1": "secret-of-n1", "n2": "secret-of-n2"}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path, Error("EIO", "once"), tokens=TOKENS)
    yield running
    running.close()


def test_a_peer_with_a_token_speaks_for_its_node_alone(guarded: Running) -> None:
    agent = guarded.agent()
    assert agent.hello(token=TOKENS["n1"])["type"] == "welcome"
    assert agent.claim(0) == {"type": "go"}
    other = guarded.agent()
    assert other.hello("n2", token=TOKENS["n2"])["type"] == "welcome"
    other.send(b'{"type": "claim", "step": 0, "node": "n1", "incarnation": 1, "pid": 7, "seq": 1, "t_ns": 1}\n')
    assert other.hung_up_on()
    wait_until(lambda: guarded.server.remarks)
    assert list(guarded.server.remarks) == ["a peer with the token of n2 spoke for another node; it was not believed"]
    assert not guarded.server.problems


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "lasting", "node": "n1"}\n',
        b'{"type": "lasting", "token": "guess"}\n',
        b"noise\n",
        b'"text"\n',
        b"[]\n",
        b"[" * 100_000 + b"\n",
    ],
    ids=["no token", "wrong token", "noise", "text", "list", "deep"],
)
def test_peers_without_a_token_are_remarked_once_and_break_nothing(guarded: Running, line: bytes) -> None:
    for _ in range(3):
        stranger = guarded.agent()
        stranger.send(line)
        assert stranger.hung_up_on()
    wait_until(lambda: guarded.server.remarks)
    (remark,) = guarded.server.remarks
    assert "without a node's token" in remark
    assert not guarded.server.problems
    assert guarded.agent().hello(token=TOKENS["n1"])["type"] == "welcome"


def test_a_flood_of_connections_ends_the_oldest_strangers_only(guarded: Running) -> None:
    agent = guarded.agent()
    agent.hello(token=TOKENS["n1"])
    first = guarded.agent()
    flood = [guarded.agent() for _ in range(200)]
    assert first.hung_up_on()
    assert agent.claim(0) == {"type": "go"}
    assert guarded.agent().hello("n2", token=TOKENS["n2"])["type"] == "welcome"
    assert flood
    assert not guarded.server.problems


def test_a_node_has_a_limit_of_connections(guarded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_CONNECTIONS_MAX", 2)
    for _ in range(2):
        assert guarded.agent().hello(token=TOKENS["n1"])["type"] == "welcome"
    third = guarded.agent()
    third.send(json.dumps({"type": "hello", "token": TOKENS["n1"]}).encode() + b"\n")
    assert third.hung_up_on()
    assert guarded.agent().hello("n2", token=TOKENS["n2"])["type"] == "welcome"


def test_the_node_with_most_connections_loses_some_before_the_tool_has_no_files_left(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = guarded.agent()
    assert other.hello("n2", token=TOKENS["n2"])["type"] == "welcome"
    greedy = [guarded.agent() for _ in range(2)]
    for agent in greedy:
        assert agent.hello(token=TOKENS["n1"])["type"] == "welcome"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(server_module.resource, "getrlimit", lambda _: (2, limits[1]))
    guarded.agent()
    assert greedy[0].hung_up_on()
    monkeypatch.undo()
    wait_until(lambda: guarded.server.remarks)
    assert list(guarded.server.remarks) == ["n1 had so many connections as an agent that some were closed"]
    assert other.hello("n2", token=TOKENS["n2"])["type"] == "welcome"
    assert greedy[1].hello(token=TOKENS["n1"])["type"] == "welcome"


def test_the_server_survives_without_free_descriptors(guarded: Running) -> None:
    stranger = guarded.agent()
    wait_until(lambda: guarded.server._connections)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = socket.socket(socket.AF_UNIX)
    lowest = waiting.fileno() + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        waiting.connect(str(guarded.path))
        assert stranger.hung_up_on()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        waiting.close()
    assert guarded.agent().hello(token=TOKENS["n1"])["type"] == "welcome"


def test_a_state_file_that_a_node_cut_neither_kills_the_tool_nor_counts_as_whole(start: Start) -> None:
    running = start(Delay())
    assert running.state.is_whole
    running.state_path.write_bytes(b"")
    running.server.heal()
    assert not running.state.is_whole


# --- faults with a time


def test_a_partition_ends_by_itself(start: Start) -> None:
    running = start(Partition(lasts_s=0.01))
    agent = running.agent()
    agent.claim()
    wait_until(lambda: running.actions.of(EndInTime), "the partition ends")
    assert agent.ask(type="lasting", node="n1")["lasting"] == []


def test_no_timer_is_left_when_the_server_is_closed(start: Start) -> None:
    running = start(Partition(lasts_s=1000.0))
    running.agent().claim()
    (timer,) = (thread for thread in set(threading.enumerate()) - running.before if isinstance(thread, threading.Timer))
    running.server.close()
    timer.join(HANG_S)
    assert not timer.is_alive()
