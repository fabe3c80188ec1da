"""Generated concurrent Java programs, run under the real JVM agent: every cause that is there is found, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from causal_programs.generator import Program, every_way, program
from causal_programs.java_programs import JavaPrograms
from causal_programs.java_ways import NEWER, java, late, late_starters
from causal_programs.judging import check
from fake_tool import FakeTool
from jdks import jdks, why_no_jvm

MAJORS = sorted(jdks()) or [0]
SEEDS = range(2)

pytestmark = pytest.mark.skipif(bool(why_no_jvm()), reason=why_no_jvm())


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[JavaPrograms, dict[tuple[int, str], Program]]:
    """All that is run here, compiled at once; by the version of the JDK and a name."""
    made = {}
    for major in MAJORS:
        language = java(major)
        made[major, "every way"] = every_way(language, [*language.ways])
        for seed in SEEDS:
            made[major, f"seed {seed}"] = program(language, seed)
    for change in (late, late_starters):
        made[MAJORS[-1], change.__name__] = every_way(change(language), [*language.ways])
    return JavaPrograms(tmp_path_factory.mktemp("programs"), [*made.values()]), made


@pytest.fixture
def run(tmp_path: Path, programs: tuple[JavaPrograms, dict[tuple[int, str], Program]]) -> Iterator[Callable[[int, str], None]]:
    tool = FakeTool(tmp_path)
    compiled, made = programs

    def run(major: int, name: str) -> None:
        compiled.run(made[major, name], tool, major).ok()
        check(made[major, name], tool.trace_dir)

    yield run
    tool.close()


@pytest.mark.parametrize("major", MAJORS)
def test_every_way_to_hand_something_on(run: Callable[[int, str], None], major: int) -> None:
    run(major, "every way")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("major", MAJORS)
def test_programs_at_random(run: Callable[[int, str], None], major: int, seed: int) -> None:
    run(major, f"seed {seed}")


def test_programs_end_also_where_all_that_is_handed_on_is_late(run: Callable[[int, str], None]) -> None:
    run(MAJORS[-1], "late")


def test_every_way_where_those_who_start_threads_are_late(run: Callable[[int, str], None]) -> None:
    run(MAJORS[-1], "late_starters")


@pytest.mark.parametrize("since", NEWER)
def test_ways_of_newer_jvms_are_used_where_there_are_any(since: int) -> None:
    assert not java(since - 1).ways.keys() & NEWER[since].keys()
    assert java(since).ways.keys() >= NEWER[since].keys()
