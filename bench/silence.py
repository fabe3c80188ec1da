"""With all fixes of the embedded example on, nothing may be reported: a long hunt with every strategy and fault."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench.runs import print_news
from undermine import api
from undermine.config_load import load

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        config = load(api.demo_config(Path(folder, "granary")), {"fixes": "all"})
        result = api.hunt(config, budget_s=24 * 3600, runs_max=RUNS, listener=print_news)
    for finding in result.findings:
        print(f"{finding.id} {finding.title}\n   {finding.plan}\n   reproduced {finding.rate}")
    summary = {
        "bench": "silence",
        "runs": sum(result.statuses.values()),
        "statuses": result.statuses,
        "points_fired": result.coverage.points_fired,
        "pairs_fired": result.coverage.pairs_fired,
        "findings": len(result.findings),
        "duration_s": round(result.duration_s),
    }
    print(json.dumps(summary))
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
