"""Finds the JDKs of this machine, says what the JVM agent lacks here, and compiles and runs small Java programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from fake_tool import FakeTool, Outcome
from waiting import HANG_S

from undermine.resources import java_home_program
from undermine.runtimes import jvm_agent


@cache
def jdks() -> dict[int, Path]:
    """The homes of the JDKs that the agent supports, by major version."""
    homes = [Path(home) for home in filter(None, (os.environ.get("JAVA_HOME"),))]
    if found := java_home_program("java"):
        homes.append(Path(found).resolve().parents[1])
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    versions: dict[int, Path] = {}
    for home in homes:
        release = home / "release"
        told = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', release.read_text()) if release.is_file() else None
        if told and int(told[1]) >= jvm_agent.JDK_OLDEST and (home / "bin" / "javac").exists():
            versions.setdefault(int(told[1]), home)
    return versions


def why_no_jvm() -> str:
    """Why the JVM agent cannot run here; "" if it can."""
    if not jdks():
        return f"no JDK {jvm_agent.JDK_OLDEST} or newer here"
    if jvm_agent.OVERRIDE not in os.environ and shutil.which("mvn") is None:
        return f"no Maven here to build the JVM agent with, and no {jvm_agent.OVERRIDE}"
    return ""


def compile_java(folder: Path, *sources: Path, class_path: Path | None = None, release: int = 8) -> Path:
    """Compile with the oldest JDK here that supports `release`, so that all newer JDKs can run the result."""
    javac = jdks()[min(major for major in jdks() if major >= release)] / "bin" / "javac"
    path = ["-cp", str(class_path)] if class_path else []
    options = ["-g", "-nowarn", "-Xlint:-options", "--release", str(release), *path, "-d", str(folder)]
    done = subprocess.run([str(javac), *options, *map(str, sources)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run_java(
    tool: FakeTool, java: Path, classes: Path, main: str, *arguments: str, options: tuple[str, ...] = (), **more: str
) -> Outcome:
    """Run a program under the agent, with these JVM options, and with `more` in its environment."""
    agent = f"-javaagent:{jvm_agent.agent_jar()}"
    command = [java, *options, agent, "-XX:TieredStopAtLevel=1", "-cp", classes, main, *arguments]
    env = tool.environment() | more
    done = subprocess.run(command, env=env, cwd=tool.data, capture_output=True, text=True, timeout=HANG_S)
    return Outcome(done, tool.trace_dir)
