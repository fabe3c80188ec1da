"""The observed families are a choice; I/O and deaths are always recorded."""

from __future__ import annotations

from typing import Any

import pytest

from undermine.agent_protocol import FAMILIES

PROGRAM = """
    import asyncio, os, queue, select, subprocess, sys, threading, time

    def dies():
        open("a", "w").write("x")
        raise KeyError("gone")

    async def main():
        lock = asyncio.Lock()
        async with lock:
            await asyncio.sleep(0.01)

    threading.excepthook = lambda *_: None
    lock, items = threading.Lock(), queue.Queue()
    with lock:
        items.put(1)
        items.get()
    thread = threading.Thread(target=dies)
    thread.start()
    thread.join()
    time.monotonic()
    select.select([], [], [], 0)
    ends = os.pipe()
    os.write(ends[1], b"x")
    os.read(ends[0], 1)
    asyncio.run(main())
    subprocess.run([sys.executable, "-I", "-c", ""])
"""
OF_FAMILY = {
    "sync": {"lock.acquire", "lock.release", "join"},
    "time": {"clock", "sleep"},
    "handover": {"queue.put", "queue.get", "poll"},
    "process": {"process.start", "pipe.write", "pipe.read"},
}
ALWAYS = {"file.create", "file.write", "thread.start", "thread.die"}


@pytest.mark.parametrize("wanted", [[], ["sync"], ["time"], ["handover"], ["process"], list(OF_FAMILY)], ids=str)
def test_only_wanted_families_are_observed(tool: Any, wanted: list[str]) -> None:
    tool.more_config = {"observe": wanted}
    seen = {event.op for event in tool.run(PROGRAM).ok().trace}
    assert seen >= ALWAYS
    families = [family for name, family in FAMILIES.items() if family.always or name in wanted]
    thread_starts = {"handover.take"}  # the Python agent records them with the threads
    assert seen - thread_starts <= {op for family in families for op in family.operations}
    for family, ops in OF_FAMILY.items():
        assert (ops <= seen) if family in wanted else not ops & seen, (family, sorted(seen))
