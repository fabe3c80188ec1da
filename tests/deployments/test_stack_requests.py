"""Agents that are asked for stacks by the shared state: they are waited for, and never get the signal."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import HANG_S

from undermine.deployments.stacks import NOT_CAUGHT, gather
from undermine.inject.server import SharedState
from undermine.model.codec import CHUNK, MAGIC, read_agent
from undermine.runtimes.jvm import NO_STACKS

HOLDS_ITS_FILE = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    events = mmap.mmap(file.fileno(), 0)
print("ready", flush=True)
sys.stdin.read()
"""


class Mapped:
    """A process that has an event file mapped, as if this agent were in it, and catches no signal."""

    def __init__(self, folder: Path, agent: str) -> None:
        self.folder = folder
        command = [sys.executable, "-c", "import os, sys; sys.stdin.readline(); exec(sys.argv.pop(1))", HOLDS_ITS_FILE]
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" "$0/s1.1.$$.events"', str(folder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        said = {"version": 2, "node": "s1", "role": "r", "incarnation": 1, "pid": self.pid, "agent": agent, "runtime": "x"}
        body = json.dumps(said).encode()
        record = struct.pack("<IB", 5 + len(body), 1) + body
        self.events = folder / f"s1.1.{self.pid}.events"
        self.events.write_bytes((MAGIC + record).ljust(CHUNK, b"\0"))
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ready\n"

    def answer(self) -> None:
        doing = [{"kind": "thread", "name": "main", "stack": ["app:Main.run:3"], "own": ["app:Main.run"], "waits": ""}]
        dump = {"node": "s1", "incarnation": 1, "pid": self.pid, "t_ns": time.monotonic_ns(), "left_out": 0, "doing": doing}
        (self.folder / f"s1.1.{self.pid}.stacks").write_text(json.dumps(dump))

    def lives(self) -> bool:
        return self.process.poll() is None


@pytest.fixture
def jvm(tmp_path: Path) -> Iterator[Mapped]:
    yield from _mapped(tmp_path, "jvm/1")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Mapped]:
    yield from _mapped(tmp_path, "python-pure/1")


def _mapped(folder: Path, agent: str) -> Iterator[Mapped]:
    mapped = Mapped(folder, agent)
    yield mapped
    mapped.process.kill()
    mapped.process.communicate()


def test_a_jvm_is_asked_by_the_shared_state_and_lives(jvm: Mapped) -> None:
    (stacks,) = gather(jvm.folder, timeout_s=HANG_S, ask_all=jvm.answer)
    assert stacks.problem == ""
    assert [(doing.name, doing.own) for doing in stacks.doing] == [("main", ("app:Main.run",))]
    assert jvm.lives()


def test_a_jvm_that_does_not_answer_is_said_to(jvm: Mapped) -> None:
    (stacks,) = gather(jvm.folder, timeout_s=0.1)
    assert stacks.problem == NO_STACKS
    assert jvm.lives()


def test_others_are_still_asked_by_the_signal_only(other: Mapped) -> None:
    (stacks,) = gather(other.folder, timeout_s=0.1, ask_all=other.answer)
    assert stacks.problem == NOT_CAUGHT


def test_an_agent_is_known_by_the_beginning_of_its_file(jvm: Mapped) -> None:
    agent = read_agent(jvm.events)
    assert agent is not None
    assert (agent.agent, agent.pid) == ("jvm/1", jvm.pid)
    assert read_agent(jvm.folder / "none") is None
    (jvm.folder / "damaged.events").write_bytes(b"nonsense")
    assert read_agent(jvm.folder / "damaged.events") is None


def test_requests_are_counted_in_one_byte(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state = SharedState(path, 1)
    seen = [path.read_bytes()[13]]
    for _ in range(257):
        state.ask_for_stacks()
        seen.append(path.read_bytes()[13])
    assert (seen[:2], seen[255:]) == ([0, 1], [255, 0, 1])
    assert path.read_bytes()[12] == 0
    state.close()
