"""The functions of simulated workers: a run is a sleep. They answer as `undermine/fleet/tasks.py` does."""

from __future__ import annotations

import asyncio
import io
import os
import random
from functools import cache
from pathlib import Path

import msgspec
from distributed import get_worker

from undermine.exchange import safe_zip
from undermine.fleet.messages import Answer, Kind, Machine, Order, Ready, decode, encode
from undermine.model.plan import At, final_at
from undermine.model.run import Moment, Receipt, RunRecord, Timing
from undermine.store.rundir import RunDir, load_record

SLEEP = "UNDERMINE_BENCH_SLEEP_S"
SAMPLE = "UNDERMINE_BENCH_SAMPLE"
"""The folder of a real run, whose history, trace and logs every result has."""
SMALL = "UNDERMINE_BENCH_SMALL"
"""If it is set, results have no trace and no logs."""


def duration_s(run_id: int, mean_s: float) -> float:
    """How long this run sleeps. Real runs differ too, so that they don't all end at once."""
    return mean_s * random.Random(run_id).uniform(0.8, 1.2)


def look(message: bytes) -> bytes:
    return encode(Machine(f"simulated/{get_worker().name}", Kind("bench", "", ""), 1))


def prepare(message: bytes, files: bytes) -> bytes:
    return encode(Ready(isolation="ports", lacking_devices={"disk": "simulated", "network": "simulated"}))


async def run(message: bytes) -> bytes:
    order = decode(message, Order)
    sleep_s = duration_s(order.run_id, float(os.environ[SLEEP]))
    await asyncio.sleep(sleep_s)
    sample = _record()
    node, then = sample.nodes[0].id, sample.healed_ns - 1
    places = (final_at(step.trigger) for step in order.plan.steps)
    record = msgspec.structs.replace(
        sample,
        id=order.run_id,
        plan=order.plan,
        status="fired",
        reason="",
        receipts=tuple(Receipt(number, node, "crash", then) for number in range(len(order.plan.steps))),
        moments=tuple(Moment(number, node, then, at.point) for number, at in enumerate(places) if isinstance(at, At)),
        timing=Timing(total_s=sleep_s),
        conditions=order.conditions,
    )
    stream = io.BytesIO()
    safe_zip.write(stream, {"record.json": msgspec.json.encode(record), **_sample()}, level=1)
    return encode(Answer(files=stream.getvalue()))


@cache
def _record() -> RunRecord:
    return load_record(RunDir(Path(os.environ[SAMPLE])))


@cache
def _sample() -> dict[str, bytes]:
    folder = Path(os.environ[SAMPLE])
    if os.environ.get(SMALL):
        return {"history.jsonl": (folder / "history.jsonl").read_bytes()}
    files = [folder / "history.jsonl", *sorted((folder / "trace").iterdir()), *sorted((folder / "logs").iterdir())]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def leave(message: bytes) -> bytes:
    return b""
