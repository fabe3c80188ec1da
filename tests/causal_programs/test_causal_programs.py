"""Generated concurrent programs, run under the real agent: every cause that is there is found, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from causal_programs.generator import Program, every_way, program
from causal_programs.judging import judge
from causal_programs.ways import ASYNC, SYNC
from fake_tool import FakeTool

from undermine import accelerator

SLOW = ("spawned", "pool", "process_pool")
"""Ways that take a second each: once is enough."""


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[FakeTool]:
    made = FakeTool(tmp_path)
    yield made
    made.close()


def check(made: Program, tool: FakeTool) -> None:
    tool.run(made.source).ok()
    verdict = judge(made, tool.trace_dir)
    print(verdict.table())
    assert verdict.false == []
    assert verdict.missing == []
    assert verdict.problems == []


def test_every_way_to_hand_something_on(tool: FakeTool) -> None:
    check(every_way([*SYNC, *ASYNC]), tool)


def test_every_way_with_the_accelerator(tool: FakeTool) -> None:
    assert accelerator.ensure(tool.python).file is not None
    tool.accelerators = str(accelerator.folder())
    check(every_way([way for way in (*SYNC, *ASYNC) if way not in SLOW]), tool)


@pytest.mark.parametrize("seed", range(4))
def test_programs_at_random(tool: FakeTool, seed: int) -> None:
    check(program(seed), tool)


def test_a_program_is_the_same_for_the_same_seed() -> None:
    assert program(7).source == program(7).source != program(8).source
    assert program(7).causes == program(7).causes
