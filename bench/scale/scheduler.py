"""A scheduler without workers in a process of its own, until its input ends: `python -m bench.scale.scheduler`."""

from __future__ import annotations

import asyncio
import sys

from distributed import Scheduler


async def main() -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
