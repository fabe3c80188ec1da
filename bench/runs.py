"""Measures experiments per minute on the embedded example, and the tool's own share of each experiment.

The tool's own time excludes waiting for the target: the start of the nodes, the workload, and settling after healing. It
includes folders, tables, teardown, reading traces, checking and storing.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.news import print_news
from undermine import api
from undermine.config.load import load

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 60


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        config = load(api.demo_config(Path(folder, "granary")), {"fixes": "all"})
        begun = time.monotonic()
        result = api.hunt(config, budget_s=3600, runs_max=RUNS, jobs=1, listener=print_news)
        elapsed_s = time.monotonic() - begun
        with api.open_store(Path(result.folder)) as store:
            rows = [row for row in store.run_rows() if row["status"] != "broken"]
    timings = [row["timing"] for row in rows]
    own = [t["own_s"] / t["total_s"] for t in timings]
    fault_free = [row["timing"]["total_s"] for row in rows if row["kind"] == "baseline"]
    summary = {
        "bench": "runs",
        "runs": len(rows),
        "runs_per_minute": round(len(rows) / elapsed_s * 60, 1),
        "fault_free_runs_per_minute": round(60 / statistics.median(fault_free), 1),
        "own_share_median": round(statistics.median(own), 4),
        "own_share_of_all_time": round(1 - sum(t["total_s"] - t["own_s"] for t in timings) / elapsed_s, 4),
        "median_s": {
            key: round(statistics.median(t[key] for t in timings), 3)
            for key in ("start_s", "workload_s", "settle_s", "teardown_s", "check_s", "own_s", "total_s")
        },
        "findings": len(result.findings),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
