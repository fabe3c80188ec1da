"""Generated concurrent programs, run under the real agent: the analysis finds every cause, and no others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_tool import MINORS, FakeTool, interpreters
from generator import Program, every_way, program
from judging import check
from waiting import HANG_S
from ways import ASYNC, HEAD, PYTHON, SYNC

from undermine.runtimes import accelerator

SLOW = ("spawned", "pool", "process_pool")
"""Ways that take a second each, so they are tested once."""
LIMITED = ("limited_item", "limited_stream", "twice_limited_stream", "joined_stream")
"""Ways that look different to the agent in different versions of Python."""


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[FakeTool]:
    made = FakeTool(tmp_path)
    yield made
    made.close()


def run(made: Program, tool: FakeTool, change: str = "") -> None:
    """Run the program and check its causes and waits. `change` is code that is added after the program's head."""
    tool.run(made.source.replace(HEAD, HEAD + change)).ok()
    check(made, tool.trace_dir)


def test_every_kind_of_hand_over_is_found(tool: FakeTool) -> None:
    run(every_way(PYTHON, [*SYNC, *ASYNC]), tool)


def test_every_kind_of_hand_over_is_found_with_the_accelerator(tool: FakeTool) -> None:
    assert accelerator.ensure(tool.python).file is not None
    tool.accelerators = str(accelerator.folder())
    run(every_way(PYTHON, [way for way in (*SYNC, *ASYNC) if way not in SLOW]), tool)


@pytest.mark.parametrize("minor", MINORS)
def test_limited_waits_are_followed_in_every_python(tool: FakeTool, minor: str) -> None:
    python = interpreters().get(minor)
    if python is None:
        pytest.skip(f"no Python {minor} on this machine")
    tool.python = python
    run(every_way(PYTHON, [*LIMITED]), tool)


@pytest.mark.parametrize("seed", range(4))
def test_causes_of_random_programs_are_found(tool: FakeTool, seed: int) -> None:
    run(program(PYTHON, seed), tool)


def test_a_program_is_the_same_for_the_same_seed() -> None:
    assert program(PYTHON, 7).source == program(PYTHON, 7).source != program(PYTHON, 8).source
    assert program(PYTHON, 7).causes == program(PYTHON, 7).causes


IMPORTS = """
def note(event, args):
    if event == "import":
        os.write(imports, args[0].encode() + b"\\n")


imports = os.open(os.path.join(HERE, "imports"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
sys.addaudithook(note)
"""

LATE = """
def later():
    pass


def run(self, start=threading.Thread.run):
    time.sleep(0.05)
    start(self)


threading.Thread.run = run
"""

LATE_STARTERS = """
def later():
    pass


def start(self, original=threading.Thread.start):
    original(self)
    time.sleep(0.05)


threading.Thread.start = start
"""


def run_changed(folder: Path, ways: list[str], change: str) -> None:
    """Run a program that uses these ways, without an agent. `change` is code that is added after its head."""
    script = folder / "program.py"
    script.write_text(every_way(PYTHON, ways).source.replace(HEAD, HEAD + change))
    subprocess.run([sys.executable, str(script)], cwd=folder, timeout=HANG_S, check=True)


def test_programs_import_nothing_once_they_may_fork(tmp_path: Path) -> None:
    run_changed(tmp_path, [*SYNC, *ASYNC], IMPORTS)
    assert (tmp_path / "imports").read_text() == ""


def test_programs_end_even_if_their_threads_are_late(tmp_path: Path) -> None:
    run_changed(tmp_path, [way for way in (*SYNC, *ASYNC) if way not in SLOW], LATE)


def test_every_kind_of_hand_over_is_found_if_thread_starters_are_late(tool: FakeTool) -> None:
    run(every_way(PYTHON, [way for way in (*SYNC, *ASYNC) if way not in SLOW]), tool, LATE_STARTERS)
