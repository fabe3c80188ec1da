"""Hunts in the embedded example with all bugs on and all strategies: is each bug one finding, with the right explanation?

A finding belongs to a bug if that bug's fix alone removes it. To test this, its plan is replayed with the fix that its label in
`triage.toml` names, and if it recurs, with the other fixes. The goal: six findings for the six bugs, each at least 4/5 with the
fault and 0/5 without, and nothing else. People must read the sentences.

    python -m bench.bugs --budget 15m --keep ../bugs      # --keep: the campaign stays in this folder
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.hunt import HERE
from bench.news import print_news
from bench.options import duration
from bench.triage import Label, matches, read_labels
from undermine import api
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.finding import Finding

CONFIRM = 5
HITS_MIN = 4
STEPS = 2
"""One of the bugs needs two crashes."""
TRIES = 4
"""A finding that recurs every other time seems fixed by chance in one of sixteen cases."""
FIXES = ("snapshot-copy", "recovery-supersede", "commit-lease", "open-watch", "epoch-first", "gossip-tombstone")


def main() -> int:
    options = arguments()
    with folder(options.keep) as home:
        api.demo_config(home)
        result = api.hunt(
            hunting(load(home, {}), options.shrink),
            budget_s=options.budget,
            seed=options.seed,
            jobs=options.jobs,
            listener=print_news,
        )
        labels = [label for label in read_labels(HERE / "bench" / "triage.toml") if label.target == "granary"]
        found = {finding.id: fixed_by(home, finding, labels) for finding in result.believed}
    for finding in result.findings:
        show(finding, result, found.get(finding.id))
    bugs = [bug for bugs in found.values() for bug in bugs]
    one_each = sorted(bugs) == sorted(FIXES) and all(len(fixes) == 1 for fixes in found.values())
    sure = all(each.hits >= HITS_MIN and each.tries == CONFIRM and not each.flaky for each in result.believed)
    summary = {
        "bench": "bugs",
        "budget_s": options.budget,
        "runs": sum(result.statuses.values()),
        "findings": len(found),
        "suspects_not_reported": len(result.findings) - len(found),
        "bugs": sorted(set(bugs)),
        "one_finding_each": one_each,
        "at_least_4_of_5": sure,
        "smallest_plans": sum(each.smallest is not None for each in result.believed),
        "windows": sum(each.window is not None for each in result.believed),
        "rates": {each.id: each.rate for each in result.believed},
        "strategies": {each.id: each.strategies for each in result.believed},
        "duration_s": round(result.duration_s),
    }
    print(json.dumps(summary))
    return 0 if one_each and sure else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-bugs", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--budget", type=duration, default="15m", help="time for the hunt (default: 15m)")
    parser.add_argument("--shrink", type=duration, default="15m", help="time for smaller plans and windows (default: 15m)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="keep the example and its campaign in this folder, which must not exist")
    return parser.parse_args()


@contextlib.contextmanager
def folder(keep: Path | None) -> Iterator[Path]:
    if keep:
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="um-bench-") as scratch:
        yield Path(scratch, "granary")


def hunting(config: Config, shrink_s: float) -> Config:
    hunt = msgspec.structs.replace(config.hunt, confirm=CONFIRM, steps=STEPS, shrink_s=shrink_s)
    return msgspec.structs.replace(config, hunt=hunt)


def show(finding: Finding, result: api.HuntResult, fixes: tuple[str, ...] | None) -> None:
    told = result.explanations[finding.id]
    print(f"{finding.id} {told.title}\n   {told.sentence}")
    print(f"   by {', '.join(finding.strategies)}, {finding.rate}\n   plan: {finding.plan}")
    if finding.smallest:
        print(f"   smallest ({finding.smallest_rate}): {finding.smallest}")
    if told.window:
        print(f"   window ({finding.window.runs if finding.window else 0} runs): {told.window}")
    print(f"   goes away with: {'(not reported)' if fixes is None else ', '.join(fixes) or 'no fix'}", flush=True)


def fixed_by(home: Path, finding: Finding, labels: list[Label]) -> tuple[str, ...]:
    """The fix that the finding's label names, if it does not recur with it; else all fixes with which it does not recur. A fix
    may also remove the moment that the plan names."""
    likely = next((label.cause for label in labels if matches(label, finding)), "")
    if likely in FIXES and _goes_away(load(home, {"fixes": likely}), finding):
        return (likely,)
    return tuple(fix for fix in FIXES if fix != likely and _goes_away(load(home, {"fixes": fix}), finding))


def _goes_away(config: Config, finding: Finding) -> bool:
    """Count only the finding's own symptom, because another bug may show at the same moment."""
    return not any(
        finding.symptom in api.replay(config, finding.id, times=1, control=False).symptoms for _ in range(TRIES)
    )


if __name__ == "__main__":
    sys.exit(main())
