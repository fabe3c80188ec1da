"""Simulated workers in one process, until its input ends: `python -m bench.scale.workers ADDRESS NUMBER`."""

from __future__ import annotations

import asyncio
import sys

import dask
from distributed import Worker

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.monitor-interval": "10s",
}
"""What each worker watches of its process. The process of many simulated ones would do little else."""


async def main(scheduler: str, number: int) -> None:
    dask.config.set(QUIET)
    workers = [await Worker(scheduler, nthreads=1, name=f"w{each}", dashboard=False) for each in range(number)]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for worker in workers:
        await worker.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
