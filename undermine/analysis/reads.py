"""Which reads go on with the read before, so that a fault there would hardly come without one at the read before.

What a thread reads from the same file or the same connection right after a read of it is most likely there already: the
operating system had fetched or received it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from undermine.model.event import Event

_NETWORK_READS = ("net.recv", "msg.recv")
_FILE_READS = ("file.read", "file.map_read")
_READS = frozenset({*_FILE_READS, *_NETWORK_READS})
"""Reads of bytes, which can come in pieces. Questions (stat, list, accept, a store's commands) are whole each."""
_NETWORK_KINDS = frozenset({"net", "msg", "db"})
_SENDS = frozenset({"net.send", "msg.send"})
_ENDS_THREAD = "thread.end"

_Process = tuple[str, int]
_Reader = tuple[str, str]
"""A thread, and the operation that it reads with."""


def first_reads(events: Iterable[Event]) -> Iterator[bool]:
    """For each event, in the order in which they happened: is it anything but the continuation of a read?

    The last read of each kind is remembered by thread. A process that sends has the messages behind it: what it reads from the
    network next is another one, whichever thread answers. So has a thread that does anything else there (calls, accepts,
    hangs up).
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
        if event.op == _ENDS_THREAD:  # the next one may have its name
            for op in _FILE_READS:
                files.pop((process, (event.thread, op)), None)
        if event.op in _SENDS:
            network.pop(process, None)
        elif event.op == _ENDS_THREAD or event.kind in _NETWORK_KINDS:
            for op in _NETWORK_READS:
                network.get(process, {}).pop((event.thread, op), None)
        yield True
