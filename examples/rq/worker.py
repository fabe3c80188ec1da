"""One worker as the library creates it. It forks for each job and cleans up the queue's registries periodically.

Nothing here repairs or works around the library. Timers are shorter than the defaults, so that a run shows maintenance.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time
from pathlib import Path
from typing import Any

import jobs

try:
    import redis
    import rq
    from rq import Queue, Worker
except ImportError:
    sys.exit("RQ is missing: run `python setup.py VERSION`, with the version of [params], in the folder of undermine.toml")

WORKER_TTL_S = 16
"""A worker waits for a job 15 seconds less than this, then checks whether maintenance is due."""
MONITORING_S = 1


class QuickWorker(Worker):
    """Reconnects to Redis every second, without backing off."""

    max_connection_wait_time = 1.0


def make(options: argparse.Namespace) -> Any:
    ttl = "worker_ttl" if "worker_ttl" in inspect.signature(Worker.__init__).parameters else "default_worker_ttl"
    connection = redis.Redis(host=options.host, port=options.port)
    return QuickWorker(
        [Queue(name, connection=connection) for name in options.queues.split(",")],
        connection=connection,
        name=f"{options.id}-{time.time_ns()}",  # a killed worker keeps its name
        maintenance_interval=options.maintenance_s,
        job_monitoring_interval=MONITORING_S,
        **{ttl: WORKER_TTL_S},
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("id", "host", "dir", "version", "queues"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--maintenance-s", type=float, required=True)
    options = parser.parse_args()
    if options.version != rq.VERSION:
        sys.exit(f"found RQ {rq.VERSION}: run `python setup.py {options.version}` in the folder of undermine.toml")
    os.environ[jobs.LOG] = f"{Path(options.dir)}.ran"
    worker = make(options)
    print(f"{worker.name} begins to work", flush=True)
    worker.work(logging_level="INFO")


if __name__ == "__main__":
    main()
