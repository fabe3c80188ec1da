"""Hunts in the embedded example with all fixes on, with faults of every kind, power losses included. Nothing may be reported.

The number of runs is that of all strategies together. Fault-free runs, benign runs, re-runs and controls are extra. The summary
names the strategies without a run and the kinds of faults that never fired, since their silence proves nothing.

    python -m bench.silence 500 0            # 500 runs of all strategies, seed 0
    python -m bench.silence 500 0 random     # of these strategies
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from bench.news import print_news
from undermine import api
from undermine.config.load import load
from undermine.model.faults import FAULT_NAMES
from undermine.model.rounds import RoundKind
from undermine.plugins import strategies

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
STRATEGIES = tuple(sys.argv[3:])
JOBS = 2


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        config = load(api.demo_config(Path(folder, "granary")), {"fixes": "all"})
        faults = msgspec.structs.replace(config.faults, kinds=FAULT_NAMES)
        config = msgspec.structs.replace(config, faults=faults)
        result = api.hunt(
            config, strategies=STRATEGIES, budget_s=24 * 3600, runs_max=RUNS, seed=SEED, jobs=JOBS, listener=print_news
        )
        with api.open_store(Path(result.folder)) as store:
            rows = store.run_rows()
    fired: dict[str, int] = {}
    for row in rows:
        if row["kind"] is RoundKind.STRATEGY and row["status"] == "fired":
            for kind in {msgspec.to_builtins(step.fault)["fault"] for step in row["plan"].steps}:
                fired[kind] = fired.get(kind, 0) + 1
    experiments = Counter(row["strategy"] for row in rows if row["strategy"] and row["status"] != "broken")
    for finding in result.findings:
        print(f"{finding.id} {finding.title}\n   {finding.plan}\n   reproduced {finding.rate}")
    summary = {
        "bench": "silence",
        "experiments": dict(experiments),
        "strategies_without_runs": [one.name for one in strategies(config, STRATEGIES) if one.name not in experiments],
        "runs": sum(result.statuses.values()),
        "statuses": result.statuses,
        "fired_by_kind": dict(sorted(fired.items())),
        "kinds_not_fired": [kind for kind in FAULT_NAMES if kind not in fired],
        "points_fired": result.coverage.points_fired,
        "suspects": len(result.findings),
        "findings": len(result.believed),
        "duration_s": round(result.duration_s),
    }
    print(json.dumps(summary))
    return 1 if result.believed else 0


if __name__ == "__main__":
    sys.exit(main())
