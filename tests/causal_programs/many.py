"""Runs many generated programs and prints the recall for each kind of edge, last as JSON: `many.py 60 --java 17`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from fake_tool import FakeTool, Outcome
from generator import Program, every_way, program
from java_programs import JavaPrograms
from java_ways import java
from jdks import jdks, why_no_jvm
from judging import Verdict, judge
from ways import ASYNC, PYTHON

from undermine.runtimes import accelerator

Run = Callable[[Program, FakeTool], Outcome]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int, help="how many programs")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--steps", type=int, default=3, help="how many steps a function has at most")
    parser.add_argument("--depth", type=int, default=3, help="how deep functions hand on")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs them")
    parser.add_argument("--fast", action="store_true", help="with the accelerator")
    newest, java_help = max(jdks(), default=0), "programs in Java, for this JDK (the newest)"
    parser.add_argument("--java", type=int, nargs="?", const=newest, metavar="JDK", help=java_help)
    options = parser.parse_args()
    if options.java is not None and (why_no_jvm() or options.java not in jdks()):
        print(json.dumps({"programs": 0, "why": why_no_jvm() or f"no JDK {options.java} here"}))
        return 1
    language = PYTHON if options.java is None else java(options.java)
    made = {"every way": every_way(language, [*language.ways, *([] if options.java else ASYNC)])}
    for seed in range(options.first, options.first + options.programs):
        made[f"seed {seed}"] = program(language, seed, options.steps, options.depth)
    total = Verdict()
    with tempfile.TemporaryDirectory(prefix="causal-") as folder:
        run = in_python(options.python, options.fast)
        if options.java:
            run = JavaPrograms(Path(folder), options.java, [*made.values()]).run
        for name, one in made.items():
            total.add(judged(name, one, run))
    print(total.table())
    print(json.dumps({"programs": options.programs, **total.figures()}))
    return 1 if total.false or total.missing or total.problems else 0


def in_python(python: str, fast: bool) -> Run:
    def run(made: Program, tool: FakeTool) -> Outcome:
        tool.python = python
        if fast and accelerator.ensure(tool.python).file is not None:
            tool.accelerators = str(accelerator.folder())
        return tool.run(made.source)

    return run


def judged(name: str, made: Program, run: Run) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="causal-") as folder:
        tool = FakeTool(Path(folder))
        try:
            outcome = run(made, tool)
            verdict = judge(made, tool.trace_dir)
        finally:
            tool.close()
    if outcome.code:
        verdict.problems.append(f"the program failed: {outcome.err[-500:]}")
    for text in (*verdict.false, *verdict.missing, *verdict.problems):
        print(f"{name}: {text}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
