"""The application that workers and clients use. Its task writes two lines to a file, at its begin and at its end.

The file is beside the worker's folder, so no fault hits it, and it shows what really happened.
"""

from __future__ import annotations

import json
import os
import time

from celery import Celery

LOG = "CELERY_EXAMPLE_LOG"
BROKER = "CELERY_EXAMPLE_BROKER"
"""The environment variables that name the file and the broker."""


def application(broker: str) -> Celery:
    """The settings by which a task outlives its worker. Timers are shorter than the defaults, so that a run shows this."""
    app = Celery("tasks", broker=broker)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"visibility_timeout": 2, "unacked_restore_interval": 1},
    )
    return app


app = application(os.environ.get(BROKER, ""))


@app.task(name="work")
def work(name: str, seconds: float) -> None:
    """Sleep, and record the begin and the end."""
    note(name, "begin")
    time.sleep(seconds)
    note(name, "end")


def note(name: str, what: str) -> None:
    """Append one line with one system call, so that lines of several processes do not mix."""
    line = json.dumps({"task": name, "what": what}) + "\n"
    fd = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
