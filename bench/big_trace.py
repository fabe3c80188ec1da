"""Writes synthetic event files of any size, to measure the analysis of large traces.

Nodes call each other in a ring. Each call is a message, handled in the callee's main thread: under a lock it writes a file, hands
work to a helper thread, waits until that is done, and answers.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from undermine.model.codec import CHUNK, MAGIC

NODES = 4
EVENTS_A_CALL = 12
_HEAD, _BEGIN, _END = struct.Struct("<IB"), struct.Struct("<IBIqIIIIIq"), struct.Struct("<IBIqqI")
_STEP_NS = 1000


class _File:
    """One event file."""

    def __init__(self, folder: Path, node: int) -> None:
        self.stream = open(folder / f"n{node}.1.{100 + node}.events", "wb")  # noqa: SIM115 - closed by `close`
        self.chunk = bytearray(MAGIC)
        self.strings: dict[str, int] = {}
        self.seq = 0
        said = {"version": 2, "node": f"n{node}", "role": "node", "incarnation": 1, "pid": 100 + node, "ppid": 1}
        self.define(1, json.dumps({**said, "agent": "none", "runtime": "none"}).encode())
        self.define(3, struct.pack("<III", 1, self.text("ring:serve#0"), 1))
        self.define(4, struct.pack("<IHI", 1, 1, 1))

    def define(self, kind: int, body: bytes) -> None:
        self.record(_HEAD.pack(_HEAD.size + len(body), kind) + body)

    def record(self, record: bytes) -> None:
        if len(self.chunk) + len(record) > CHUNK:
            self.flush()
        self.chunk += record

    def flush(self) -> None:
        self.stream.write(self.chunk.ljust(CHUNK, b"\0"))
        self.chunk = bytearray(MAGIC)

    def text(self, text: str) -> int:
        number = self.strings.get(text)
        if number is None:
            number = self.strings[text] = len(self.strings) + 1
            self.define(2, struct.pack("<I", number) + text.encode())
        return number

    def event(
        self, t: int, end: int, op: str, resource: str = "", size: int = 0, result: int = 0, thread: str = "main"
    ) -> None:
        self.seq += 1
        numbers = self.text(op), 1, self.text("x"), self.text(resource) if resource else 0, self.text(thread)
        self.record(_BEGIN.pack(45, 5, self.seq, t, *numbers, size))
        self.record(_END.pack(29, 6, self.seq, end, result, 0))

    def close(self) -> None:
        self.flush()
        self.stream.close()


def write(folder: Path, events: int) -> int:
    """Write event files with about `events` events. Return the exact number."""
    files = [_File(folder, node) for node in range(NODES)]
    now = 1_000_000
    for number in range(events // EVENTS_A_CALL):
        _call(files, number, now)
        now += 12 * _STEP_NS
    for file in files:
        file.close()
    return sum(file.seq for file in files)


def _call(files: list[_File], number: int, now: int) -> None:
    """Write the events of one call and of everything that it causes."""
    caller, callee = number % NODES, (number + 1) % NODES
    one, other = files[caller], files[callee]
    here, there = f"10.0.0.{caller}:{4000 + callee}", f"10.0.0.{callee}:9000"
    size, item, work = 40 + number % 60, f"call-{number}", "worker"

    def at(step: float) -> int:
        return now + int(step * _STEP_NS)

    one.event(at(0), at(0.5), "net.send", f"{here}>{there}/{callee}", size)
    other.event(at(1), at(1.5), "net.recv", f"{there}>{here}/{caller}", 4096, size)
    other.event(at(2), at(2.2), "lock.acquire", "lock@1", result=1)
    other.event(at(3), at(3.5), "file.write", "/data/log", size, size)
    other.event(at(4), at(4.1), "handover.give", item)
    other.event(at(5), at(8.5), "event.wait", "event@1")
    other.event(at(6), at(8.8), "handover.take", item, thread=work)
    other.event(at(7), at(7.5), "file.fsync", "/data/log", thread=work)
    other.event(at(8), at(8.1), "event.set", "event@1", thread=work)
    other.event(at(9), at(9.1), "lock.release", "lock@1")
    other.event(at(10), at(10.5), "net.send", f"{there}>{here}/{caller}", 8)
    one.event(at(11), at(11.5), "net.recv", f"{here}>{there}/{callee}", 4096, 8)
