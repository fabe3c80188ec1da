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
_ENDS_THREAD = "thread.end"

_Thread = tuple[str, int, str]


def first_reads(events: Iterable[Event]) -> Iterator[bool]:
    """For each event, in the order in which they happened: is it anything but the continuation of a read?

    The last read of each kind is remembered by thread. A thread that does anything else on the network (sends, calls,
    accepts, hangs up) has the message behind it: what it reads from there next is another one.
    """
    last: dict[tuple[_Thread, str], tuple[str, str]] = {}
    for event in events:
        thread = (event.node, event.pid, event.thread)
        if event.op in _READS:
            source = (event.target, event.resource)
            yield last.get((thread, event.op)) != source
            last[thread, event.op] = source
            continue
        if event.op == _ENDS_THREAD:  # the next one may have its name
            for op in _FILE_READS:
                last.pop((thread, op), None)
        if event.op == _ENDS_THREAD or event.kind in _NETWORK_KINDS:
            for op in _NETWORK_READS:
                last.pop((thread, op), None)
        yield True
