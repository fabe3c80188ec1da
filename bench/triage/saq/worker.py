"""One SAQ worker. Each run of a job leaves a line at its beginning and at its end in a file beside the worker's folder."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import time
from typing import Any

from saq import Queue, Worker

SWEEP_S = 2
"""Workers look for jobs of dead workers at this interval."""


def noted(path: str, what: str, job: str) -> None:
    """Append a line. It survives the worker, and no fault hits it."""
    line = json.dumps({"what": what, "job": job, "pid": os.getpid(), "t_ns": time.monotonic_ns()})
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line.encode() + b"\n")
    os.close(descriptor)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("id", "dir", "redis"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    async def work(context: Any, *, name: str, seconds: float) -> str:
        noted(f"{options.dir}.ran", "begin", name)
        await asyncio.sleep(seconds)
        noted(f"{options.dir}.ran", "end", name)
        return name

    async def serve() -> None:
        queue = Queue.from_url(options.redis)
        timers: Any = {"sweep": SWEEP_S, "schedule": 1, "abort": 1}
        worker = Worker(queue, [("work", work)], id=options.id, concurrency=1, timers=timers, dequeue_timeout=1.0)
        await worker.start()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
