"""Counts the regions in which slow I/O hurts, from the source of real systems, with time and memory. Each has its own process.

    python -m bench.regions
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.processes import peak_mb, set_up
from undermine.program import analyse

EXAMPLES = Path(__file__).parents[1] / "examples"
SYSTEMS = {
    "dask": "dask/versions/*/distributed",
    "rq": "rq/versions/1.16.1/rq",
    "pysyncobj": "pysyncobj/versions/0.3.17/pysyncobj",
    "granary": "granary/granary",
}


def main() -> None:
    found: dict[str, object] = {"bench": "regions"}
    for name in SYSTEMS:
        set_up(EXAMPLES / name)
        argv = [sys.executable, "-m", "bench.regions", name]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
        found[name] = json.loads(done.stdout)
        print(f"{name}: {found[name]}", file=sys.stderr)
    print(json.dumps(found))


def one(name: str) -> dict[str, object]:
    folder = sorted(EXAMPLES.glob(SYSTEMS[name]))[-1]
    begun = time.perf_counter()
    facts = analyse([folder])
    took_s = time.perf_counter() - begun
    counts = facts.counts
    return {
        "release": folder.parent.name,
        "all": counts.all,
        "synchronized": counts.synchronized,
        "timed": counts.timed,
        "in_regions": counts.in_regions,
        "grouped": counts.grouped,
        "seconds": round(took_s, 2),
        "cpu_s": round(time.process_time(), 2),
        "peak_mb": round(peak_mb()),
        "troubles": len(facts.troubles),
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(one(sys.argv[1])))
    else:
        main()
