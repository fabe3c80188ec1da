"""Generated concurrent Java programs, run under the real JVM agent: the analysis finds every cause, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from fake_tool import FakeTool
from generator import every_way, program
from java_programs import JavaPrograms
from java_ways import NEWER, java, late, late_starters
from jdks import jdks, why_no_jvm
from judging import check

MAJORS = sorted(jdks()) or [0]
SEEDS = range(2)
ALONE = {"closed_own"}
"""Ways that subclass classes of the JDK. They run alone, in a JVM where nothing else has used those classes before."""

pytestmark = pytest.mark.skipif(bool(why_no_jvm()), reason=why_no_jvm())


class Programs:
    """All programs of this module for one JDK, compiled together."""

    def __init__(self, folder: Path, major: int) -> None:
        language = java(major)
        self.made = {"every way": every_way(language, [*language.ways])}
        for seed in SEEDS:
            self.made[f"seed {seed}"] = program(language, seed)
        for name in ALONE & language.ways.keys():
            self.made[name] = every_way(language, [name])
        for change in (late, late_starters) if major == MAJORS[-1] else ():
            self.made[change.__name__] = every_way(change(language), [*language.ways])
        self._compiled = JavaPrograms(folder, major, [*self.made.values()])

    def check(self, name: str, tool: FakeTool) -> None:
        self._compiled.run(self.made[name], tool).ok()
        check(self.made[name], tool.trace_dir)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Programs]:
    return cache(lambda major: Programs(tmp_path_factory.mktemp("programs"), major))


@pytest.fixture
def run(tmp_path: Path, programs: Callable[[int], Programs]) -> Iterator[Callable[[int, str], None]]:
    """A function that runs one of the programs and checks its causes and waits."""
    tool = FakeTool(tmp_path)
    yield lambda major, name: programs(major).check(name, tool)
    tool.close()


@pytest.mark.parametrize("major", MAJORS)
def test_every_kind_of_hand_over_is_found(run: Callable[[int, str], None], major: int) -> None:
    run(major, "every way")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("major", MAJORS)
def test_causes_of_random_programs_are_found(run: Callable[[int, str], None], major: int, seed: int) -> None:
    run(major, f"seed {seed}")


@pytest.mark.parametrize("name", ALONE)
def test_an_anonymous_subclass_of_a_jdk_class_is_observed(run: Callable[[int, str], None], name: str) -> None:
    if name not in java(MAJORS[-1]).ways:
        pytest.skip("the JDK here is too old")
    run(MAJORS[-1], name)


def test_programs_end_even_if_all_handed_over_work_is_late(run: Callable[[int, str], None]) -> None:
    run(MAJORS[-1], "late")


def test_every_kind_of_hand_over_is_found_if_thread_starters_are_late(run: Callable[[int, str], None]) -> None:
    run(MAJORS[-1], "late_starters")


@pytest.mark.parametrize("since", NEWER)
def test_hand_overs_of_newer_jvms_are_tested_if_installed(since: int) -> None:
    assert not java(since - 1).ways.keys() & NEWER[since].keys()
    assert java(since).ways.keys() >= NEWER[since].keys()
