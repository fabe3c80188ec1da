"""Asking processes for their stacks: who is asked, who is left alone, and what is believed of the answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from network_helpers import needs_cgroups
from waiting import HANG_S, wait_until

from undermine.deployments import cgroups, stacks
from undermine.deployments.guardian.processes import stat_fields
from undermine.deployments.stacks import gather
from undermine.model.event import STACKS_SIGNAL, ThreadStack

PROCESS = f"""
import mmap, os, signal, sys, time
stem = sys.argv[1] + "/s1.2.%d" % os.getpid()
with open(stem + ".events", "w+b") as file:
    file.truncate(4096)
    events = mmap.mmap(file.fileno(), 4096)
def answer(*_):
    with open(sys.argv[1] + "/answer") as file:
        text = file.read()
    if text == "fifo":
        os.mkfifo(stem + ".stacks")
        return
    with open(stem + ".part", "w", encoding="latin-1") as file:
        file.write(text.replace("NOW", str(time.monotonic_ns())).replace("NOT UTF-8", chr(255)))
    os.rename(stem + ".part", stem + ".stacks")
if "catch" in sys.argv:
    signal.signal({STACKS_SIGNAL}, answer)
if "block" in sys.argv:
    signal.pthread_sigmask(signal.SIG_BLOCK, [{STACKS_SIGNAL}])
print("ready", flush=True)
sys.stdin.readline()
if "exec" in sys.argv:
    os.execvp("sleep", ["sleep", "3600"])
"""


class Processes:
    """Processes that look as if they had an agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROCESS, str(self.folder), *words]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def answer(self, answer: Any) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer).replace('"NOW"', "NOW")
        (self.folder / "answer").write_text(text)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    made.answer(GOOD)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


ONE = {"kind": "thread", "name": "T1", "stack": ["app:f:3"], "own": ["app:f"], "waits": ""}
GOOD = {"node": "x", "incarnation": 9, "pid": 1, "t_ns": "NOW", "doing": [ONE]}


def test_who_catches_the_signal_is_asked_and_named_by_its_file(processes: Processes) -> None:
    pids = sorted([processes.start("catch").pid, processes.start("catch").pid])
    found = gather(processes.folder)
    assert [(one.node, one.incarnation, one.pid, one.problem) for one in found] == [("s1", 2, pid, "") for pid in pids]
    assert found[0].doing == (ThreadStack("T1", ("app:f:3",), ("app:f",)),)
    assert [one.t_ns < two.t_ns for one, two in zip(found, gather(processes.folder), strict=True)] == [True, True]


def test_who_does_not_catch_it_lives_on(processes: Processes) -> None:
    process = processes.start()
    (found,) = gather(processes.folder)
    assert (found.doing, found.problem) == ((), stacks.NOT_CAUGHT)
    assert process.poll() is None


def test_programs_that_took_the_place_of_an_agents_are_left_alone(processes: Processes) -> None:
    process = processes.start("catch", "exec")
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", what="it has become another program")
    assert gather(processes.folder) == ()
    assert process.poll() is None


def test_the_dead_are_not_asked(processes: Processes) -> None:
    (processes.folder / f"s1.1.{2**22 + 1}.events").touch()
    (processes.folder / "s1.events").touch()
    (processes.folder / "s1.1.x.events").touch()
    process = processes.start("catch")
    process.kill()
    process.wait()
    assert gather(processes.folder) == ()


def test_who_stands_still_is_not_waited_for(processes: Processes) -> None:
    process = processes.start("catch")
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: stat_fields(f"/proc/{process.pid}/stat")[0] == b"T", what="it has stopped")
    assert [one.problem for one in gather(processes.folder, timeout_s=HANG_S)] == [stacks.STANDS_STILL]


@needs_cgroups
def test_who_is_frozen_is_not_waited_for(processes: Processes) -> None:
    process, folder = processes.start("catch"), cgroups.new_folder()
    folder.mkdir()
    try:
        (folder / "cgroup.procs").write_text(str(process.pid))
        (folder / "cgroup.freeze").write_text("1")
        wait_until(lambda: "frozen 1" in (folder / "cgroup.events").read_text(), what="it is frozen")
        assert [one.problem for one in gather(processes.folder, timeout_s=HANG_S)] == [stacks.STANDS_STILL]
    finally:
        cgroups.kill(folder)
        process.wait()
        cgroups.remove(folder)


def test_who_blocks_the_signal_does_not_answer(processes: Processes) -> None:
    processes.start("catch", "block")
    assert [one.problem for one in gather(processes.folder, timeout_s=0.05)] == [stacks.BLOCKED]


def test_an_old_answer_is_none(processes: Processes) -> None:
    processes.start("catch")
    processes.answer({**GOOD, "t_ns": 1})
    assert [one.problem for one in gather(processes.folder, timeout_s=0.05)] == [stacks.NO_ANSWER]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("{", "it is not what an agent writes"),
        ({**GOOD, "doing": [{**ONE, "stack": [1]}]}, "it is not what an agent writes"),
        ({**GOOD, "doing": {}}, "it is not what an agent writes"),
        ("[" * 100_000, "it is not what an agent writes"),
        ('{"t_ns": NOW, "doing": [], "more": ' + "[" * 100_000, "it is not what an agent writes"),
        ({**GOOD, "doing": [{**ONE, "name": "NOT UTF-8"}]}, "it is not what an agent writes"),
        (" " * (stacks.BYTES_MAX + 1), "it has more than 1,048,576 bytes"),
        ("fifo", "it is not a regular file"),
    ],
    ids=["no JSON", "a number", "no list", "deep", "deep inside", "no text", "long", "no file"],
)
def test_answers_of_another_shape_are_refused(processes: Processes, answer: Any, problem: str) -> None:
    processes.start("catch")
    processes.answer(answer)
    (found,) = gather(processes.folder)
    assert (found.doing, found.problem) == ((), f"its answer cannot be read: {problem}")


def test_texts_are_made_printable_and_short(processes: Processes) -> None:
    processes.start("catch")
    wild = {"name": "a\x1b[31m\n\u202e", "stack": ["x" * 500], "own": [], "kind": "odd", "waits": "\0", "more": 1}
    processes.answer({**GOOD, "doing": [wild] * 1400, "left_out": 7})
    (found,) = gather(processes.folder)
    assert found.problem == "407 more threads and tasks are not shown"
    assert len(found.doing) == 1000
    assert found.doing[0] == ThreadStack("a?[31m??", ("x" * 300,), (), waits="?")


def test_a_link_to_another_file_is_not_followed(processes: Processes) -> None:
    process = processes.start("catch", "block")
    (processes.folder / "secret").write_text(json.dumps({**GOOD, "t_ns": 1 << 62}))
    os.symlink("secret", processes.folder / f"s1.2.{process.pid}.stacks")
    (found,) = gather(processes.folder)
    assert found.doing == ()
    assert found.problem.startswith("its answer cannot be read")
