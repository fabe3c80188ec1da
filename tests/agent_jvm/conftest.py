"""The JVM agent's jar, and small Java programs run under it with the fake tool of the Python agent's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_tool import FakeTool, Outcome
from jdks import compile_java, jdks, run_java, why_no_jvm

HERE = Path(__file__).resolve().parent
VERIFIED = (
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:+BytecodeVerificationLocal"),
    *("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=3"),
)
"""By default the JVM does not verify the JDK's own classes, but the code that is woven into them must be valid. Hashes are
numbers in order, so that no two monitors share a counter of the agent by chance."""


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("classes"), HERE / "Target.java")


@pytest.fixture(params=sorted(jdks()) or ["no JDK"])
def java(request: pytest.FixtureRequest) -> Path:
    if why := why_no_jvm():
        pytest.skip(why)
    return jdks()[request.param] / "bin" / "java"


class Target:
    """Runs scenarios of Target.java, or of a similar program, under the agent."""

    def __init__(self, tool: FakeTool, java: Path, classes: Path, main: str = "Target") -> None:
        self.tool, self.java, self.classes, self.main = tool, java, classes, main

    def run(self, *scenarios: str, options: tuple[str, ...] = VERIFIED, **more: str) -> Outcome:
        """Run the scenarios with these JVM options, and with `more` in the environment."""
        return run_java(self.tool, self.java, self.classes, self.main, *scenarios, options=options, **more)

    def seen(self, *scenarios: str, options: tuple[str, ...] = VERIFIED) -> Outcome:
        """Run the scenarios; fail if the program fails, or if the program or the agent reports anything."""
        outcome = self.run(*scenarios, options=options).ok()
        assert (outcome.out, self.troubles()) == ("", "")
        return outcome

    def troubles(self) -> str:
        return "".join(path.read_text() for path in self.tool.trace_dir.glob("*.agent-error"))


@pytest.fixture
def target(tmp_path: Path, java: Path, classes: Path) -> Iterator[Target]:
    tool = FakeTool(tmp_path)
    yield Target(tool, java, classes)
    tool.close()


@pytest.fixture(scope="session")
def causal_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("causal"), HERE / "Causal.java", release=11)


@pytest.fixture
def causal(java: Path, causal_classes: Path) -> Iterator[Callable[[Path], Target]]:
    """A function that creates a Target for the program Causal.java in a folder."""
    tools = []

    def make(folder: Path) -> Target:
        folder.mkdir(exist_ok=True)
        tools.append(FakeTool(folder))
        return Target(tools[-1], java, causal_classes, "Causal")

    yield make
    for tool in tools:
        tool.close()


@pytest.fixture(scope="session")
def heap_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("heap"), HERE / "Heap.java", release=11)


@pytest.fixture
def heap_program(java: Path, heap_classes: Path, tmp_path: Path) -> Iterator[Callable[..., Target]]:
    """A function that creates a Target for the program Heap.java, whose heap accesses are recorded unless `heap` is false."""
    tools: list[FakeTool] = []

    def make(heap: bool = True) -> Target:
        folder = tmp_path / str(len(tools))
        folder.mkdir()
        tools.append(FakeTool(folder))
        tools[-1].packages = ["Heap"]
        tools[-1].more_config = {"heap": heap}
        return Target(tools[-1], java, heap_classes, "Heap")

    yield make
    for tool in tools:
        tool.close()


@pytest.fixture(scope="session")
def data_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("data"), HERE / "DataTarget.java")


@pytest.fixture
def data_program(tmp_path: Path, java: Path, data_classes: Path) -> Iterator[Target]:
    tool = FakeTool(tmp_path)
    tool.packages = ["DataTarget"]
    yield Target(tool, java, data_classes, "DataTarget")
    tool.close()


@pytest.fixture(scope="session")
def content_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("content"), HERE / "ContentTarget.java")


@pytest.fixture
def content_program(java: Path, content_classes: Path, tmp_path: Path) -> Iterator[Callable[..., Target]]:
    """A function that creates a Target for the program ContentTarget.java, with tokens unless `content` is false."""
    tool = FakeTool(tmp_path)
    tool.packages = ["ContentTarget"]

    def make(content: bool = True) -> Target:
        tool.more_config = {"content": content}
        return Target(tool, java, content_classes, "ContentTarget")

    yield make
    tool.close()


@pytest.fixture(scope="session")
def variables_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("variables"), HERE / "VariableTarget.java")


@pytest.fixture
def variables_program(tmp_path: Path, java: Path, variables_classes: Path) -> Iterator[Callable[..., Target]]:
    """A function that creates a Target for VariableTarget.java with these variables."""
    tool = FakeTool(tmp_path)

    def make(*variables: dict[str, Any]) -> Target:
        tool.variables = list(variables)
        return Target(tool, java, variables_classes, "VariableTarget")

    yield make
    tool.close()


@pytest.fixture(scope="session")
def survey_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("survey"), HERE / "SurveyTarget.java")


@pytest.fixture
def survey_program(tmp_path: Path, java: Path, survey_classes: Path) -> Iterator[Callable[..., Target]]:
    """A function that creates a Target for SurveyTarget.java, in which the agent looks for variables unless `survey` is false."""
    tool = FakeTool(tmp_path)
    tool.packages = ["SurveyTarget"]

    def make(survey: bool = True) -> Target:
        tool.survey = survey
        return Target(tool, java, survey_classes, "SurveyTarget")

    yield make
    tool.close()
