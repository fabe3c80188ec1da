"""Traces for other tools: what they need is there, and consistent."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
from report_campaigns import at_s, op, plan, point, record
from test_spacetime import HOSTILE, hostile
from traced_samples import analysis, done, stored

from undermine.analysis.pipeline import analyse
from undermine.analysis.trace_analysis import TraceAnalysis, plain
from undermine.analysis.trace_summary import ClientCount, summary
from undermine.model.columns import Columns
from undermine.model.event import Trace
from undermine.model.faults import Crash
from undermine.model.run import Receipt, RunView
from undermine.report import perfetto, shiviz


def view() -> RunView:
    where = point("s2", "net.send", "app:net_send#1")
    made = record(1, plan(Crash(), where), [Receipt(0, "s2", "crash", at_s(1.2), detail=HOSTILE)])
    return RunView(made, (op(0, "c1", "put", 1.0, 1.2, node="s1"),), Trace)


# --- Perfetto


def written(some: TraceAnalysis, **more: Any) -> list[dict[str, Any]]:
    out = io.StringIO()
    perfetto.write(out, view(), some, at_s(0.0), **more)
    document = json.loads(out.getvalue())
    assert document["displayTimeUnit"] == "ms"
    records: list[dict[str, Any]] = document["traceEvents"]
    return records


def test_every_record_has_what_the_format_wants() -> None:
    needed = {
        "X": "ts dur",
        "s": "ts id",
        "f": "ts id bp",
        "i": "ts s",
        "M": "args",
        "b": "ts id cat",
        "e": "ts id cat",
    }
    for made in written(analysis(hostile())):
        for key in ("name", "pid", "tid", *needed[made["ph"]].split()):
            assert key in made, made
        assert made.get("ts", 0) >= 0
        assert isinstance(made["name"], str)


def test_processes_tracks_and_slices() -> None:
    records = written(analysis())
    names = {r["pid"]: r["args"]["name"] for r in records if r["name"] == "process_name"}
    assert sorted(names.values()) == ["c1 (client 100)", "s1 (store 100)", "s2 (store 100)", "undermine"]
    threads = {r["args"]["name"] for r in records if r["name"] == "thread_name"}
    assert threads == {"main", "rpc 1", "pool 2", "rpc 7"}
    write = next(r for r in records if r["name"] == "file.write")
    assert (write["ts"], write["dur"], write["cat"]) == (1_040_000.0, 1000.0, "file")
    assert write["args"]["stack"].startswith("app:file_write#1 < ")


def test_messages_and_hand_overs_are_flows_from_slice_to_slice() -> None:
    records = written(analysis())
    slices = [(r["pid"], r["tid"], r["ts"], r["ts"] + r["dur"], r["name"]) for r in records if r["ph"] == "X"]

    def at(flow: dict[str, Any]) -> set[str]:
        return {
            name for pid, tid, a, b, name in slices if (pid, tid) == (flow["pid"], flow["tid"]) and a <= flow["ts"] <= b
        }

    starts = {r["id"]: r for r in records if r["ph"] == "s"}
    ends = {r["id"]: r for r in records if r["ph"] == "f"}
    assert set(starts) == set(ends)
    assert len(starts) == 4
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"]
        wanted = ("net.send", "net.recv") if start["cat"] == "message" else ("handover.give", "handover.take")
        assert wanted[0] in at(start)
        assert wanted[1] in at(ends[number])


def test_a_link_through_a_store_is_one_flow() -> None:
    flows = [(r["cat"], r["name"]) for r in written(stored()) if r["ph"] == "s"]
    assert flows == [("store", "item"), ("store", "value"), ("store", "key")]


def test_the_fault_and_the_clients_are_on_a_track_of_their_own() -> None:
    records = written(analysis())
    assert [r["name"] for r in records if r["ph"] == "i"] == ["crash on s2", "healed"]
    assert [r["ph"] for r in records if r.get("cat") == "client"] == ["b", "e"]


def test_slices_of_one_track_nest() -> None:
    """Operations under way in one event loop overlap."""
    spans = [(1.0, 0.5), (1.1, 0.1), (1.2, 0.6), (1.25, 0.05), (1.9, 0.2), (1.9, 0.1)]
    some = plain(Columns.of(done("s1", n, start, "net.recv", took) for n, (start, took) in enumerate(spans, 1)))
    records = written(some)
    tracks: dict[int, list[tuple[float, float]]] = {}
    for made in records:
        if made["ph"] == "X":
            tracks.setdefault(made["tid"], []).append((made["ts"], made["ts"] + made["dur"]))
    assert len(tracks) == 2
    for some_spans in tracks.values():
        for a, b in some_spans:
            assert all(d <= a or c >= b or (c <= a and b <= d) or (a <= c and d <= b) for c, d in some_spans)
    assert {r["args"]["name"] for r in records if r["name"] == "thread_name"} == {"main", "main (2)"}


# --- ShiViz


def log(some: TraceAnalysis, **more: Any) -> list[tuple[str, dict[str, int], str]]:
    """The log as ShiViz reads it: the expression of the first line, for whole lines, the delimiter of the second."""
    out = io.StringIO()
    shiviz.write(out, view(), some, at_s(0.0), **more)
    first, second, rest = out.getvalue().split("\n", 2)
    assert second == ""
    expression = re.compile("^" + first.replace("(?<", "(?P<") + "$", re.MULTILINE)
    found = [(m["host"], json.loads(m["clock"]), m["event"]) for m in expression.finditer(rest)]
    assert len(found) * 2 == rest.count("\n")
    return found


def consistent(found: list[tuple[str, dict[str, int], str]]) -> None:
    """ShiViz refuses an own time that does not grow by one, missing times, and a clock that knows too little."""
    clocks: dict[str, list[dict[str, int]]] = {}
    for host, clock, _ in found:
        own = clocks.setdefault(host, [])
        assert clock[host] == len(own) + 1
        before = own[-1] if own else {}
        assert all(clock.get(other, 0) >= time for other, time in before.items())
        for other, time in clock.items():
            if other != host:
                assert 1 <= time <= len(clocks[other])
                assert all(clock.get(third, 0) >= t for third, t in clocks[other][time - 1].items())
        own.append(clock)


def test_the_clocks_are_consistent_and_follow_messages() -> None:
    found = log(analysis())
    consistent(found)
    by_host = {host: clock for host, clock, _ in found}  # the last of each
    assert set(by_host["s1"]) == {"c1", "s1", "s2"}
    assert set(by_host["s2"]) == {"c1", "s1", "s2"}
    assert by_host["c1"] == {"c1": 1}
    assert [event for host, _, event in found if host == "undermine"][-1] == "healed"
    kinds = [event.split()[0] for host, _, event in found if host != "undermine"]
    assert "lock.acquire" not in kinds
    assert "file.write" in kinds


def test_a_link_through_a_store_merges_the_vector_clocks() -> None:
    found = log(stored())
    consistent(found)
    clocks = {text.split()[1]: clock for host, clock, text in found if host == "s2"}
    assert clocks["BLPOP"]["s1"] == clocks["GET"]["s1"] == 1
    assert [text.split()[1] for host, _, text in found if host in ("s1", "s2")][:2] == ["PIPELINE(SET,RPUSH)", "BLPOP"]


def test_hostile_texts_are_lines() -> None:
    found = log(analysis(hostile()))
    consistent(found)
    assert all("\x1b" not in event for _, _, event in found)


def test_too_many_events_keep_the_ends_of_messages() -> None:
    found = log(analysis(), events_max=6)
    consistent(found)
    assert [event.split()[0] for host, _, event in found if host != "undermine"] == [
        "net.send",
        "net.recv",
        "net.send",
        "net.recv",
        "net.send",
        "net.recv",
    ]


# --- the summary


def test_the_summary_counts() -> None:
    told = summary(analysis())
    assert told.operations["net.send"] == 3
    assert told.nodes == ("c1", "s1", "s2")
    assert {(m.kind, m.sender, m.receiver, m.count, m.bytes) for m in told.messages} == {
        ("put", "c1", "s1", 1, 10),
        ("put", "s1", "s2", 1, 20),
        ("ack", "s2", "s1", 1, 5),
    }
    assert [(h.handler, h.messages, h.operations) for h in told.handlers] == [("app:handle", 2, 4)]
    assert told.paired_percent == 87.5
    assert [(u.why, u.events, u.bytes, u.places) for u in told.unpaired] == [
        ("the other end has no agent", 1, 5, ("s2: app:net_recv#1",))
    ]
    assert told.causal == {"extent": 5, "message": 3, "handover": 1}
    assert told.blocking == {"notify": 1}
    assert (told.holding_locks, told.under_deadline) == (1, 1)
    assert told.events_per_s == 20


def test_relations_of_operations_on_stores_are_counted_by_kind() -> None:
    told = summary(stored())
    assert told.store_links == {"item": 1, "key": 1, "value": 1}
    assert told.causal["store"] == 1
    assert [(s.kind, s.source, s.target, s.sender, s.receiver, s.count) for s in told.store_pairs] == [
        ("item", "RPUSH jobs", "BLPOP jobs", "s1", "s2", 1),
        ("value", "SET k:x<n>", "GET k:x<n>", "s1", "s2", 1),
        ("key", "SET k:x<n>", "EXISTS k:x<n>", "s1", "s2", 1),
    ]
    assert (summary(analysis()).store_links, summary(analysis()).store_pairs) == ({}, ())


def test_the_summary_says_what_was_done_for_operations_of_clients() -> None:
    """The first one has no effects in the trace; the writes that s2 does by itself do not belong to the other."""
    asks, answers = "127.0.0.1:41200>127.0.0.1:20001/1", "127.0.0.1:20001>127.0.0.1:41200/1"
    events = []
    for n, name in enumerate(("get", "put")):
        events += [
            done("client", 10 * n + 1, n + 1.0, "handover.give", target=name, resource=f"client-op-{n}"),
            done("client", 10 * n + 2, n + 1.1, "handover.take", 0.5, target=name, resource=f"client-op-{n}"),
        ]
    events += [
        done("client", 13, 2.2, "net.send", target="peer:s2", resource=asks, size=10, result=10),
        done("s2", 1, 2.1, "net.recv", 0.2, thread="rpc", resource=answers, result=10),
        done("s2", 2, 2.4, "file.write", thread="rpc", target="log"),
        done("s2", 3, 2.4, "file.write", thread="other", target="log"),
    ]
    told = summary(analyse(Columns.of(sorted(events, key=lambda event: event.t_ns))))
    assert told.clients == (ClientCount("get", (), 1, 0, 0), ClientCount("put", ("s2",), 1, 1, 2))
    assert summary(analysis()).clients == ()


def test_an_empty_trace_has_a_summary() -> None:
    told = summary(plain(Columns.of(())))
    assert (told.events, told.messages, told.paired_percent) == (0, (), 100.0)
    assert written(plain(Columns.of(())))
    assert np.all([host == "undermine" for host, _, _ in log(plain(Columns.of(())))])
