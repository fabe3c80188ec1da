"""The program of `dask_process.py`: a scheduler with workers in processes, until its input ends. Imports no helper of tests."""

from __future__ import annotations

import json
import sys


def main() -> None:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=None, memory_limit=0, local_directory=sys.argv[2]
    ) as cluster:
        print(json.dumps({"scheduler": cluster.scheduler_address}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
