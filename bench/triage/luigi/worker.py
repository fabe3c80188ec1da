"""A service that builds reports with Luigi when it is asked to: `GET /build?report=r1`.

Reports share their parts, so two services that build at the same time want the same tasks. Each run of a task leaves a line at
its beginning and at its end in a file beside the service's folder.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

import luigi

PARTS = 3
TASK_S = 0.05
RESULTS = ""
NOTES = ""


def noted(what: str, task: str) -> None:
    """Append a line. It survives the service, and no fault hits it."""
    line = json.dumps({"what": what, "task": task, "pid": os.getpid(), "t_ns": time.monotonic_ns()})
    descriptor = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line.encode() + b"\n")
    os.close(descriptor)


class Written(luigi.Task):
    """A task that writes lines to a file of its own name."""

    def output(self) -> Any:
        return luigi.LocalTarget(f"{RESULTS}/{self.name}.txt")  # type: ignore[attr-defined]

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> None:
        name = self.name  # type: ignore[attr-defined]
        noted("begin", name)
        with self.output().open("w") as file:
            for line in self.lines():
                file.write(line + "\n")
                time.sleep(TASK_S / PARTS)
        noted("end", name)


class Part(Written):
    """One part of all reports of a group."""

    name = luigi.Parameter()

    def lines(self) -> Iterator[str]:
        return (f"{self.name} line {number}" for number in range(PARTS))


class Report(Written):
    """A report: the lines of its parts."""

    name = luigi.Parameter()

    def requires(self) -> Any:
        group = self.name.partition("-")[0]
        return [Part(f"{group}-part{number}") for number in range(PARTS)]

    def lines(self) -> Iterator[str]:
        for part in self.input():
            with part.open() as file:
                yield from file.read().splitlines()


class Service(BaseHTTPRequestHandler):
    scheduler = ""

    def do_GET(self) -> None:
        url = urlparse(self.path)
        if url.path == "/health":
            self.reply(200, "ok")
            return
        result = luigi.build(
            [Report(parse_qs(url.query)["report"][0])], scheduler_url=self.scheduler, workers=1, detailed_summary=True
        )
        built = result.status in (luigi.LuigiStatusCode.SUCCESS, luigi.LuigiStatusCode.SUCCESS_WITH_RETRY)
        self.reply(200 if built else 500, result.status.name)

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: Any) -> None:
        """Stay silent: Luigi logs what it does."""


def main() -> None:
    global RESULTS, NOTES
    parser = argparse.ArgumentParser()
    for name in ("id", "dir", "listen", "results", "scheduler"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    RESULTS, NOTES = options.results, f"{options.dir}.ran"
    Service.scheduler = options.scheduler
    host, port = options.listen.rsplit(":", 1)
    ThreadingHTTPServer((host, int(port)), Service).serve_forever()


if __name__ == "__main__":
    main()
