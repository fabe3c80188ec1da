"""Compiles generated Java programs, many at once, and runs them under the real agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fake_tool import FakeTool, Outcome
from generator import Program
from jdks import compile_java, jdks, run_java

OBSERVED = ["sync", "time", "handover", "process", "raw"]
OPTIONS = ("-Djava.util.concurrent.ForkJoinPool.common.parallelism=4",)
"""With two processors or fewer, the JDK starts a thread for each call instead of using that pool."""


class JavaPrograms:
    """Programs for one version of the JDK that were compiled together, each in a package of its own."""

    def __init__(self, folder: Path, major: int, programs: Sequence[Program]) -> None:
        self.java, self.programs, self.classes = jdks()[major] / "bin" / "java", programs, folder / "classes"
        files = []
        for number, made in enumerate(programs):
            files.append(folder / f"p{number}" / "Program.java")
            files[-1].parent.mkdir(parents=True)
            files[-1].write_text(f"package p{number};\n{made.source}")
        self.classes.mkdir()
        compile_java(self.classes, *files, release=major)

    def run(self, made: Program, tool: FakeTool) -> Outcome:
        """Run one of the programs under the agent."""
        tool.more_config["observe"] = OBSERVED
        number = next(number for number, one in enumerate(self.programs) if one is made)
        return run_java(tool, self.java, self.classes, f"p{number}.Program", options=OPTIONS)
