"""Many generated programs, and the recall for each kind of edge; the last line is JSON: `many.py 200`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from causal_programs.generator import Program, every_way, program
from causal_programs.judging import Verdict, judge
from causal_programs.ways import ASYNC, SYNC
from fake_tool import FakeTool

from undermine import accelerator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int, help="how many programs")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--steps", type=int, default=3, help="how many steps a function has at most")
    parser.add_argument("--depth", type=int, default=3, help="how deep functions hand on")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs them")
    parser.add_argument("--fast", action="store_true", help="with the accelerator")
    options = parser.parse_args()
    total = judged("every way", every_way([*SYNC, *ASYNC]), options.python, options.fast)
    for seed in range(options.first, options.first + options.programs):
        made = program(seed, options.steps, options.depth)
        total.add(judged(f"seed {seed}", made, options.python, options.fast))
    print(total.table())
    print(json.dumps({"programs": options.programs, **total.figures()}))
    return 1 if total.false or total.missing or total.problems else 0


def judged(name: str, made: Program, python: str, fast: bool) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="causal-") as folder:
        tool = FakeTool(Path(folder))
        tool.python = python
        try:
            if fast and accelerator.ensure(tool.python).file is not None:
                tool.accelerators = str(accelerator.folder())
            outcome = tool.run(made.source)
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
