"""Tells first reads from reads that continue a previous one.

When a thread reads again from the same file or connection, the operating system most likely has the data already. So a
fault at the second read would hardly occur without one at the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from undermine.model.event import Event
from undermine.model.point import DIRECTED, MESSAGES, SENDS

_NETWORK_READS = MESSAGES - SENDS
_FILE_READS = ("file.read", "file.map_read")
_READS = frozenset({*_FILE_READS, *_NETWORK_READS})
"""Operations that read bytes, which may arrive in pieces. Others (stat, list, accept, commands of a store) are never
continued."""
_ENDS_THREAD = "thread.end"

_Process = tuple[str, int]
_Reader = tuple[str, str]
"""A thread, and the operation that it reads with."""


def first_reads(events: Iterable[Event]) -> Iterator[bool]:
    """For each event, in time order: False if it continues a read, else True.

    Remembers the last read of each kind by thread. After a process has sent something, its next read from the network
    begins a new message, in whichever thread. The same holds after a thread does anything else on the network
    (connects, accepts, closes).
    """
    files: dict[tuple[_Process, _Reader], tuple[str, str]] = {}
    network: dict[_Process, dict[_Reader, tuple[str, str]]] = {}
    for event in events:
        process = (event.node, event.pid)
        if event.op in _READS:
            source, reader = (event.target, event.resource), (event.thread, event.op)
            if event.op in _FILE_READS:
                yield files.get((process, reader)) != source
                files[process, reader] = source
            else:
                last = network.setdefault(process, {})
                yield last.get(reader) != source
                last[reader] = source
            continue
        if event.op == _ENDS_THREAD:  # a new thread may get its name
            for op in _FILE_READS:
                files.pop((process, (event.thread, op)), None)
        if event.op in SENDS:
            network.pop(process, None)
        elif event.op == _ENDS_THREAD or event.kind in DIRECTED:
            for op in _NETWORK_READS:
                network.get(process, {}).pop((event.thread, op), None)
        yield True
