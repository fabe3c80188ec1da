"""A client of a Dask cluster. It submits small tasks and prints their duration."""

from __future__ import annotations

import sys
import time

from distributed import Client


def work(number: int) -> int:
    return sum(range(number % 100))


def main() -> None:
    address, tasks = sys.argv[1], int(sys.argv[2])
    with Client(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        client.gather(client.map(work, range(20), pure=False))
        begun = time.monotonic()
        for _ in range(3):
            client.gather(client.map(work, range(tasks), pure=False))
        print(f"took {time.monotonic() - begun:.4f}", flush=True)


if __name__ == "__main__":
    main()
