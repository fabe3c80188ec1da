"""Hunts in the embedded example with all bugs on: which bugs `random` and `exhaustive` reach, and whether each is one finding.

A finding belongs to a bug if that bug's fix alone removes it. To test this, its plan is replayed with each fix.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench.news import print_news
from undermine import api
from undermine.config.load import load
from undermine.config.schema import Config, parse_duration
from undermine.model.finding import Finding

BUDGET = sys.argv[1] if len(sys.argv) > 1 else "10m"
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
JOBS = 2
TRIES = 4
"""A finding that recurs every other time seems fixed by chance in one of sixteen cases."""
FIXES = ("snapshot-copy", "recovery-supersede", "commit-lease", "open-watch", "epoch-first", "gossip-tombstone")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        home = api.demo_config(Path(folder, "granary"))
        result = api.hunt(
            load(home, {}),
            strategies=("random", "exhaustive"),
            budget_s=parse_duration(BUDGET),
            seed=SEED,
            jobs=JOBS,
            listener=print_news,
        )
        found = {finding.id: mended_by(home, finding) for finding in result.believed}
    for finding in result.findings:
        print(f"{finding.id} {finding.title}\n   {finding.plan}\n   by {', '.join(finding.strategies)}, {finding.rate}")
        print(f"   goes away with: {', '.join(found.get(finding.id, ())) or '(not reported)'}")
    bugs = [bug for bugs in found.values() for bug in bugs]
    summary = {
        "bench": "bugs",
        "runs": sum(result.statuses.values()),
        "findings": len(found),
        "suspects_not_reported": len(result.findings) - len(found),
        "bugs": sorted(set(bugs)),
        "one_finding_each": len(bugs) == len(set(bugs)) == len(found),
        "rates": {finding.id: finding.rate for finding in result.believed},
        "strategies": {finding.id: finding.strategies for finding in result.believed},
        "duration_s": round(result.duration_s),
    }
    print(json.dumps(summary))
    return 0 if summary["one_finding_each"] else 1


def mended_by(home: Path, finding: Finding) -> tuple[str, ...]:
    """The fixes with which the finding does not recur. A fix may also remove the moment that the plan names."""
    return tuple(fix for fix in FIXES if _goes_away(load(home, {"fixes": fix}), finding))


def _goes_away(config: Config, finding: Finding) -> bool:
    """Count only the finding's own symptom, because another bug may show at the same moment."""
    return not any(
        finding.symptom in api.replay(config, finding.id, times=1, control=False).symptoms for _ in range(TRIES)
    )


if __name__ == "__main__":
    sys.exit(main())
