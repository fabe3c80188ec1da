"""Makes campaign folders by hand, with the real store: runs, histories, logs and event files as agents write them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rounds import written

from undermine.model.event import Event
from undermine.model.faults import Fault, fault_kind
from undermine.model.finding import Finding
from undermine.model.plan import At, Place, Plan, Step, final_at
from undermine.model.point import Point, point_of
from undermine.model.run import NodeExit, NodeInfo, Op, OpStatus, Receipt, RunRecord, Timing, Verdict
from undermine.protocols import PointSeen
from undermine.store.database import CampaignStore
from undermine.store.fired import FiredStep
from undermine.store.rundir import RunDir, save_record

T0 = 1_000_000_000_000
"""When every run starts, in nanoseconds of the machine's clock."""
NODES = ("m1", "s1", "s2", "s3")


def at_s(seconds: float) -> int:
    return T0 + int(seconds * 1e9)


def event(node: str, seq: int, seconds: float, op: str, loc: str, **more: Any) -> Event:
    fields: dict[str, Any] = {"incarnation": 1, "pid": 100, "line": 42, "role": "store", **more}
    fields.setdefault("stack", (loc, "granary.store:Store.handle#1", "granary.process:main#3"))
    return Event(node=node, seq=seq, t_ns=at_s(seconds), op=op, loc=loc, **fields)


def point(node: str, op: str, loc: str, target: str = "") -> Point:
    return point_of(event(node, 1, 0.0, op, loc, target=target))


def plan(
    fault: Fault, where: Point, place: Place = "before", nth: int = 1, strategy: str = "random", why: str = ""
) -> Plan:
    return Plan((Step(At(where, place, nth), fault),), 7, strategy, why)


def op(index: int, client: str, f: str, start_s: float, end_s: float, status: OpStatus = "ok", **more: Any) -> Op:
    end_ns = 0 if status == "pending" else at_s(end_s)
    return Op(index, client, f, status=status, start_ns=at_s(start_s), end_ns=end_ns, **more)


def nodes() -> tuple[NodeInfo, ...]:
    return tuple(
        NodeInfo(name, "master" if name == "m1" else "store", "127.0.0.1", 20000 + i, {}, f"/x/{name}")
        for i, name in enumerate(NODES)
    )


def record(
    run: int, what: Plan, receipts: Sequence[Receipt] = (), exits: Sequence[NodeExit] = (), **more: Any
) -> RunRecord:
    fields: dict[str, Any] = {
        "status": "fired",
        "nodes": nodes(),
        "started_ns": at_s(0.0),
        "healed_ns": at_s(3.0),
        "timing": Timing(start_s=0.6, workload_s=2.4, settle_s=1.0, total_s=4.3),
        **more,
    }
    return RunRecord(run, what, receipts=tuple(receipts), exits=tuple(exits), **fields)


class CampaignMaker:
    """A campaign that grows run by run."""

    def __init__(self, folder: Path, identity: dict[str, Any] | None = None) -> None:
        self.store = CampaignStore(folder)
        self.folder = folder
        kinds = ["crash", "reboot", "delay", "error"]
        self.store.set_meta(
            "identity",
            identity
            or {
                "version": "0.1.0",
                "config": "/home/me/granary/undermine.toml",
                "significant": {"hunt": {"seed": 7}, "faults": {"kinds": kinds}},
            },
        )

    def dir(self, run: int) -> RunDir:
        return RunDir(self.folder / "runs" / f"{run:06d}")

    def run(
        self,
        strategy: str,
        what: Plan,
        *,
        made: RunRecord | None = None,
        history: Iterable[Op] = (),
        verdicts: Sequence[Verdict] = (),
        points: Sequence[PointSeen] = (),
        events: Sequence[Event] = (),
        logs: dict[str, bytes] | None = None,
    ) -> int:
        """Store one judged run and write its folder."""
        (slot,) = written(self.store, strategy, [what])
        number = self.store.begin_run(slot)
        finished = msgspec.structs.replace(made or record(number, what), id=number)
        run = self.dir(number)
        run.create()
        save_record(run, finished)
        run.history.write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in history))
        for name, data in (logs or {}).items():
            (run.logs / name).write_bytes(data)
        if events:
            write_events(run.trace, events)
        failing = [v.symptom for v in verdicts if v.answer == "fail"]
        fired = [
            FiredStep(i, at.point.id if (at := final_at(step.trigger)) else "", fault_kind(step.fault), str(step.fault))
            for i, step in enumerate(what.steps)
            if any(r.step == i for r in finished.receipts)
        ]
        symptom = failing[0] if failing and finished.receipts else ""
        self.store.finish_run(slot, finished, verdicts, symptom, points, fired, fill=True)
        self.store.finish_round(slot.round_index, finished.timing.total_s)
        return number

    def findings(self, *findings: Finding) -> None:
        self.store.write_findings(findings)

    def close(self) -> Path:
        self.store.close()
        return self.folder


def write_events(folder: Path, events: Sequence[Event]) -> None:
    """One event file for each process, as protocol/README.md defines it."""
    by_process: dict[tuple[str, int, int], list[Event]] = {}
    for item in events:
        by_process.setdefault((item.node, item.incarnation, item.pid), []).append(item)
    for (node, incarnation, pid), some in by_process.items():
        safe = node.replace("/", "_")[:40]
        (folder / f"{safe}.{incarnation}.{pid}.events").write_bytes(_event_file(some))


def _event_file(events: Sequence[Event]) -> bytes:
    first = events[0]
    process = {
        "version": 2,
        "node": first.node,
        "role": first.role,
        "incarnation": first.incarnation,
        "pid": first.pid,
        "agent": "python",
        "runtime": "3.11",
    }
    out = [_record(1, json.dumps(process).encode())]
    strings: dict[str, int] = {}

    def string(text: str) -> int:
        if text and text not in strings:
            strings[text] = len(strings) + 1
            out.append(_record(2, struct.pack("<I", strings[text]) + text.encode()))
        return strings.get(text, 0)

    frames = 0
    for number, item in enumerate(events, 1):
        ids = []
        for loc in item.stack:
            frames += 1
            out.append(_record(3, struct.pack("<III", frames, string(loc), item.line)))
            ids.append(frames)
        out.append(_record(4, struct.pack(f"<IH{len(ids)}I", number, len(ids), *ids)))
        texts = [string(t) for t in (item.op, item.target, item.resource, item.thread)]
        body = struct.pack("<IqIIIIIq", item.seq, item.t_ns, texts[0], number, *texts[1:], item.size)
        out.append(_record(5, body))
        if item.end_ns:
            out.append(_record(6, struct.pack("<IqqI", item.seq, item.end_ns, item.result, string(item.error))))
    return (b"UMC1" + b"".join(out)).ljust(65536, b"\0")


def _record(kind: int, body: bytes) -> bytes:
    return struct.pack("<IB", len(body) + 5, kind) + body
