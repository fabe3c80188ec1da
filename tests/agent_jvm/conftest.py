"""The JVM agent's jar, and small Java programs run under it with the fake tool of the Python agent's tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_tool import FakeTool, Outcome
from jdks import compile_java, jdks, why_no_jvm

from undermine import jvm

HERE = Path(__file__).resolve().parent
VERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+BytecodeVerificationLocal")
"""The JVM does not look at the JDK's own classes otherwise, and what was woven into them must be right."""


@pytest.fixture(scope="session")
def jar() -> Path:
    if why := why_no_jvm():
        pytest.skip(why)
    return jvm.agent_jar()


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("classes"), HERE / "Target.java")


@pytest.fixture(params=sorted(jdks()) or ["no JDK"])
def java(request: pytest.FixtureRequest) -> Path:
    if why := why_no_jvm():
        pytest.skip(why)
    return jdks()[request.param] / "bin" / "java"


class Target:
    """Runs scenarios of Target.java, or of another program of the kind, under the agent."""

    def __init__(self, tool: FakeTool, java: Path, jar: Path, classes: Path, main: str = "Target") -> None:
        self.tool, self.java, self.jar, self.classes, self.main = tool, java, jar, classes, main

    def run(self, *scenarios: str, options: tuple[str, ...] = VERIFIED, **more: str) -> Outcome:
        """With these options of the JVM, and this in its environment too."""
        agent = f"-javaagent:{self.jar}"
        command = [self.java, *options, agent, "-XX:TieredStopAtLevel=1", "-cp", self.classes, self.main, *scenarios]
        env = self.tool.environment() | more
        done = subprocess.run(command, env=env, cwd=self.tool.data, capture_output=True, text=True, timeout=120)
        return Outcome(done, self.tool.trace_dir)

    def seen(self, *scenarios: str, options: tuple[str, ...] = VERIFIED) -> Outcome:
        """All went well, and the program and the agent have nothing to say."""
        outcome = self.run(*scenarios, options=options).ok()
        assert (outcome.out, self.troubles()) == ("", "")
        return outcome

    def troubles(self) -> str:
        return "".join(path.read_text() for path in self.tool.trace_dir.glob("*.agent-error"))


@pytest.fixture
def target(tmp_path: Path, java: Path, jar: Path, classes: Path) -> Iterator[Target]:
    tool = FakeTool(tmp_path)
    yield Target(tool, java, jar, classes)
    tool.close()


@pytest.fixture(scope="session")
def causal_classes(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Path:
    folder = tmp_path_factory.mktemp("causal")
    javac = jdks()[min(jdks())] / "bin" / "javac"
    subprocess.run(
        [javac, "-g", "--release", "11", "-d", folder, HERE / "Causal.java"], check=True, capture_output=True
    )
    return folder


@pytest.fixture
def causal(java: Path, jar: Path, causal_classes: Path) -> Iterator[Callable[[Path], Target]]:
    """Makes a Target for the program Causal.java in a folder."""
    tools = []

    def make(folder: Path) -> Target:
        folder.mkdir(exist_ok=True)
        tools.append(FakeTool(folder))
        return Target(tools[-1], java, jar, causal_classes, "Causal")

    yield make
    for tool in tools:
        tool.close()
