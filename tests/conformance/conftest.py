"""The agents that the suite runs on, each with all its runtimes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance_bench import HERE, Bench, Kind, jvm_kind, python_kind
from jdks import compile_java, jdks, why_no_jvm

from undermine.runtimes import jvm_agent

KINDS = ["python-pure", "python-fast", *([f"jvm-{major}" for major in sorted(jdks())] or ["jvm"])]


@pytest.fixture(scope="session")
def jar() -> Path:
    """The agent's jar, built if it is missing. The tests fail, not skip, if it cannot be built."""
    if why := why_no_jvm():
        pytest.skip(why)
    return jvm_agent.agent_jar()


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_java(tmp_path_factory.mktemp("classes"), HERE / "Driver.java")


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    name = str(request.param)
    if not name.startswith("jvm"):
        return python_kind(name == "python-fast")
    jar_path = request.getfixturevalue("jar")
    return jvm_kind(int(name.removeprefix("jvm-")), request.getfixturevalue("classes"), jar_path)


@pytest.fixture
def make_bench(tmp_path: Path, kind: Kind) -> Iterator[Any]:
    made: list[Bench] = []

    def make() -> Bench:
        folder = tmp_path / f"run{len(made)}"
        folder.mkdir()
        made.append(Bench(folder, kind))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make_bench: Any) -> Bench:
    one: Bench = make_bench()
    return one
