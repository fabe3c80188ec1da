"""The job that workers run, and how a client submits one.

A stand-in for your queue: jobs are in a Redis list, and a job that a worker has taken is lost if the worker dies. A hunt finds
that. Keep `work`, and put your own library into the places that are marked with ADAPT.
"""

from __future__ import annotations

import os
import time

import redis

# ADAPT: create your queue here, like `huey = RedisHuey(url=URL)` or `app = Celery(broker=URL)`.
URL = os.environ["REDIS_URL"]
QUEUE = "jobs"


# ADAPT: make it a job of your queue, like `@huey.task()` or `@app.task`.
def work(job: str) -> None:
    """Do the job, then write it down in a file beside the worker's folder. No fault hits that file: it shows what really ran."""
    time.sleep(0.05)
    with open(os.environ["RAN"], "a") as ran:
        ran.write(f"{job}\n")


def submit(job: str) -> None:
    """Hand in one job. Raise unless the queue has accepted it. Runs in the workload, not in a worker."""
    # ADAPT: like `work(job)`, `work.delay(job)` or `queue.enqueue(work, job)`.
    redis.Redis.from_url(URL, socket_timeout=3, socket_connect_timeout=3).lpush(QUEUE, job)


def main() -> None:
    """The worker. ADAPT: remove it if your library has a worker of its own."""
    client = redis.Redis.from_url(URL, socket_timeout=5, retry_on_error=[redis.ConnectionError, redis.TimeoutError])
    print("ready to work", flush=True)
    while True:
        try:
            if taken := client.brpop([QUEUE], timeout=1):
                work(taken[1].decode())
        except (redis.ConnectionError, redis.TimeoutError) as error:
            print(f"Redis cannot be reached: {error}", flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
