"""A small trace made by hand, with what would be found in it: two nodes, a client, three messages, a lock, a limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from report_campaigns import at_s, event

from undermine.analysis.messages.pairing import Unpaired
from undermine.analysis.pipeline import analyse
from undermine.analysis.trace_analysis import Arrows, Messages, TraceAnalysis
from undermine.model.columns import Columns
from undermine.model.event import Event

CAUSE_KINDS = ("none", "start", "handover", "message", "extent")
LOCK = "app:Store.put#2"


def done(node: str, seq: int, seconds: float, op: str, took_s: float = 0.001, **more: Any) -> Event:
    loc = more.pop("loc", f"app:{op.replace('.', '_')}#1")
    return event(node, seq, seconds, op, loc, end_ns=at_s(seconds) + round(took_s * 1e9), **more)


def events() -> list[Event]:
    """In time order; rows 0 to 9."""
    return [
        done("c1", 1, 1.00, "net.send", role="client", thread="main", size=10, result=10),
        done("s1", 1, 0.50, "net.recv", 0.52, thread="rpc 1", result=10),
        done("s1", 2, 1.03, "lock.acquire", thread="rpc 1", loc=LOCK, target="lock", result=1),
        done("s1", 3, 1.04, "file.write", thread="rpc 1", target="log", size=100),
        done("s1", 4, 1.05, "handover.give", thread="rpc 1", resource="call 1"),
        done("s1", 5, 1.06, "handover.take", 0.1, thread="pool 2", resource="call 1"),
        done("s1", 6, 1.07, "net.send", thread="pool 2", size=20, result=20),
        done("s2", 1, 0.60, "net.recv", 0.49, thread="rpc 7", result=20),
        done("s2", 2, 1.11, "net.send", thread="rpc 7", size=5, result=5),
        done("s1", 7, 1.08, "net.recv", 0.05, thread="pool 2", result=5, error=""),
    ]


def asks(node: str, seq: int, seconds: float, op: str, target: str, do: Sequence[Any], took_s: float = 0.001) -> Event:
    said = {"store": "127.0.0.1:6379/0", "kind": "redis", "do": do}
    return done(
        node, seq, seconds, op, took_s, target=f"{target} peer:m1", resource=json.dumps(said, separators=(",", ":"))
    )


def got(node: str, seq: int, seconds: float, of: int, key: str, value: str) -> Event:
    said = {"store": "127.0.0.1:6379/0", "got": [[key, [value]]]}
    return done(node, seq, seconds, "db.got", 0, size=of, resource=json.dumps(said, separators=(",", ":")))


def stored() -> TraceAnalysis:
    """s2 waits for, takes, reads and asks for items that s1 puts into a store; the bytes of the read arrive as it ends."""
    both = [["SET", ["k:x14"], ["v"]], ["RPUSH", ["jobs"], ["x14"]]]
    made = [
        asks("s2", 1, 0.5, "db.write", "BLPOP jobs", [["BLPOP", ["jobs"], ["5"]]], 0.505),
        got("s2", 2, 1.0051, 1, "jobs", "x14"),
        asks("s1", 1, 1.0, "db.write", "PIPELINE(SET,RPUSH)", both, 0.004),
        asks("s2", 3, 1.010, "db.read", "GET k:x<n>", [["GET", ["k:x14"], []]], 0.002),
        done("s2", 4, 1.0105, "raw.recv", 0.0015, result=7),
        got("s2", 5, 1.012, 3, "k:x14", "v"),
        asks("s2", 6, 1.015, "db.read", "EXISTS k:x<n>", [["EXISTS", ["k:x14"], []]]),
    ]
    return analyse(Columns.of(sorted(made, key=lambda event: event.t_ns)))


def analysis(some: list[Event] | None = None) -> TraceAnalysis:
    """By (node, seq) what is known, put where the columns have it."""
    made = events() if some is None else some
    columns = Columns.of(made)
    row = {(e.node, e.seq): i for i, e in enumerate(columns.events())}
    contexts: dict[tuple[int, int], int] = {}
    pairs = zip(columns.process.tolist(), columns.thread.tolist(), strict=True)
    context = np.array([contexts.setdefault(pair, len(contexts)) for pair in pairs], np.int32)
    cause, cause_kind = np.full(len(columns), -1, np.int64), np.zeros(len(columns), np.uint8)
    held, deadline = np.zeros(len(columns), np.int32), np.zeros(len(columns), np.int64)
    deadline_of = np.full(len(columns), -1, np.int64)
    for target, source, name in (
        (("s1", 1), ("c1", 1), "message"),
        (("s1", 2), ("s1", 1), "extent"),
        (("s1", 3), ("s1", 1), "extent"),
        (("s1", 4), ("s1", 1), "extent"),
        (("s1", 5), ("s1", 4), "handover"),
        (("s1", 6), ("s1", 5), "extent"),
        (("s2", 1), ("s1", 6), "message"),
        (("s2", 2), ("s2", 1), "extent"),
        (("s1", 7), ("s2", 2), "message"),
    ):
        cause[row[target]], cause_kind[row[target]] = row[source], CAUSE_KINDS.index(name)
    held[row["s1", 3]] = 1
    deadline[row["s1", 7]], deadline_of[row["s1", 7]] = at_s(2.0), row["s1", 4]
    ends = [(("c1", 1), ("s1", 1)), (("s1", 6), ("s2", 1)), (("s2", 2), ("s1", 7))]
    return TraceAnalysis(
        columns=columns,
        context=context,
        contexts=[columns.text(thread) for _, thread in contexts],
        cause=cause,
        cause_kind=cause_kind,
        cause_kinds=CAUSE_KINDS,
        messages=Messages(
            np.array([row[a] for a, _ in ends]),
            np.array([row[b] for _, b in ends]),
            np.array([10, 20, 5]),
            np.array([1, 1, 2], np.int32),
            np.array([3, 3, 0], np.int32),
            ["", "put", "ack", "app:handle"],
        ),
        blocking=Arrows(np.array([row["s1", 3]]), np.array([row["s1", 7]]), np.array([0], np.int32), ("notify", "set")),
        held=held,
        held_sets=((), (row["s1", 2],)),
        deadline=deadline,
        deadline_of=deadline_of,
        bytes_received=40,
        bytes_paired=35,
        unpaired=(Unpaired(row["s2", 1], 5, "the other end has no agent"),),
        analysis_s=0.5,
    )
