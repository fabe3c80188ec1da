"""A believable campaign to look at: `python tests/report/report_samples.py FOLDER` writes its report there."""

from __future__ import annotations

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from report_campaigns import CampaignMaker, at_s, event, op, plan, point, record

from undermine.model.event import ProcessStacks, ThreadStack
from undermine.model.faults import Crash, Delay, Error, Reboot
from undermine.model.finding import Finding, Variant
from undermine.model.plan import At, Plan, Step, Then
from undermine.model.run import (
    HealthSample,
    NodeExit,
    Op,
    OpStatus,
    Receipt,
    Settling,
    Timing,
    Verdict,
    WorkloadResult,
)
from undermine.protocols import PointSeen

WRITE = point("s2", "file.write", "granary.shard_disk:ShardDisk.append#2", "shard-<n>/log")
RENAME = point("s1", "file.rename", "granary.durable:replace_file#4", "state.tmp -> state")
SEND = point("m1", "net.send", "granary.rpc:Connection.call#1", "peer:s1")
RECV = point("s3", "net.recv", "granary.rpc:Server.serve_one#1", "accepted")
SYNC = point("m1", "file.fsync", "granary.assignment:Assignments.save#3", "assignments.json")
OTHERS = [
    point(node, kind, f"granary.{module}:{name}#1", target)
    for node in ("m1", "s1", "s2", "s3")
    for kind, module, name, target in (
        ("file.open", "registry", "Registry.load", "registry.json"),
        ("net.connect", "gossip", "Gossip.round", "peer:s1"),
        ("file.read", "logbook", "Logbook.recover", "orders.log"),
        ("file.unlink", "membership", "Membership.leave", "members/s3"),
    )
]


STUCK = (
    ThreadStack("MainThread", ("selectors:select:415", "granary.rpc:serve:88"), ("granary.rpc:serve",)),
    ThreadStack(
        "worker-1",
        ("threading:wait:320", "granary.assignment:Assignments.save:41", "granary.master:assign:77"),
        ("granary.assignment:Assignments.save", "granary.master:assign"),
        waits="lock@7f31, held by worker-2 since granary.assignment:Assignments.save:43, at granary.master:assign:77",
    ),
    ThreadStack(
        "worker-2",
        ("os:fsync", "granary.assignment:Assignments.save:44"),
        ("granary.assignment:Assignments.save",),
        holds=("lock@7f31",),
    ),
)


def workload(seed: int, *, until_s: float = 2.9, hurt_from_s: float = 9.0) -> list[Op]:
    rng = random.Random(seed)
    ops: list[Op] = []
    for client, f in (("kv1", "put"), ("kv2", "put"), ("log1", "append"), ("log2", "append"), ("job", "submit")):
        now = 0.65 + rng.random() / 20
        while now < until_s:
            took = rng.uniform(0.012, 0.11)
            hurt = now > hurt_from_s and rng.random() < 0.4
            status: OpStatus = rng.choice(("fail", "unknown")) if hurt else "ok"
            took = took * 4 if hurt else took
            error = "ConnectionRefusedError: [Errno 111] Connection refused" if hurt else ""
            args = {"key": f"{client}-{len(ops) % 4}", "value": f"v{len(ops)}"}
            ops.append(op(len(ops), client, f, now, now + took, status, node="s2", args=args, error=error))
            now += took + rng.uniform(0.02, 0.2)
    for number in range(4):
        ops.append(op(len(ops), "final", "read", 3.5 + number / 10, 3.56 + number / 10, phase="final"))
    return ops


def sample(folder: pathlib.Path) -> pathlib.Path:
    made = CampaignMaker(folder)
    seen = [PointSeen(p, 3, 1, i, 40 + 7 * i) for i, p in enumerate((WRITE, RENAME, SEND, RECV, SYNC, *OTHERS))]
    passing = [Verdict("pass", checker=c) for c in ("exits", "deaths", "hang", "liveness", "acknowledged")]
    for _ in range(3):
        made.run("baseline", Plan(seed=7, strategy="baseline"), history=workload(1), verdicts=passing, points=seen)
    lost = _lost_write(made)
    stuck = _stuck(made)
    died = _died(made)
    doubt = _doubt(made)
    for number, where in enumerate(OTHERS):
        fault = (Crash(), Reboot(), Delay(5.0), Error("EIO", "disk"))[number % 3]
        what = plan(fault, where, strategy="exhaustive", why="every fault at every point, once")
        if number % 5 == 4:
            late = record(0, what, status="not_fired", reason="step 1 of 1 never reached its trigger")
            made.run("exhaustive", what, made=late, verdicts=passing)
        elif number % 7 == 6:
            broken = record(0, what, status="broken", reason="s2 did not get ready: nothing listens on port 20001")
            made.run("exhaustive", what, made=broken)
        else:
            receipts = [Receipt(0, where["node"], "crash", at_s(1.1))]
            made.run("exhaustive", what, made=record(0, what, receipts), verdicts=passing)
    made.findings(doubt, lost, stuck, died)
    return made.close()


def _lost_write(made: CampaignMaker) -> Finding:
    why = "an acknowledged write is in two places; a crash between them leaves one"
    what = Plan((Step(Then(At(SEND, "after"), At(WRITE, "before", 3)), Reboot(0.4)),), 7, "random", why)
    text = "2 acknowledged writes are gone after the reboot of s2"
    verdicts = [
        Verdict(
            "fail",
            text,
            "acknowledged writes are lost",
            (
                "kv1-2 = v14 was acknowledged at 1.402 s by s2, the final read at 3.512 s says v10",
                "kv2-0 = v12 was acknowledged at 1.377 s by s2, the final read at 3.514 s says v8",
            ),
            "acknowledged",
        ),
        Verdict("fail", "the workload failed: 2 of 61 keys differ", "workload fails", ("Traceback …",), "workload"),
        Verdict("pass", checker="exits"),
        Verdict("pass", "1 new", "", ("s2: shard-<*>/log ends in a torn record, cutting it",), "logs"),
    ]
    receipts = [Receipt(0, "s2", "reboot", at_s(1.412), 100, 7, 0, "before file.write shard-<n>/log")]
    exits = [NodeExit("s2", 1, -9, at_s(0.02), at_s(1.43), True, "")]
    events = [
        event("s2", 7, 1.41, "file.write", WRITE["loc"], target="shard-<n>/log", thread="worker-2", line=118),
        event("s2", 1, 1.86, "file.open", "granary.shard_disk:ShardDisk.recover#1", incarnation=2, pid=140),
    ]
    log = "\n".join(
        f"2026-01-07 12:00:0{i % 10}.{i:03d} INFO  store s2: appended record {i} to shard-1" for i in range(80)
    )
    logs = {
        "s2.1.err": log.encode(),
        "s2.2.err": b"12:00:01.9 WARN store s2: shard-1/log ends in a torn record, cutting it\n12:00:01.9 INFO store s2: ready\n",
    }
    runs = []
    for number in range(8):
        history = workload(5 + number, hurt_from_s=1.42)
        strategy = ("random", "random", "exhaustive")[number] if number < 3 else "confirm"
        made_record = record(0, what, receipts, exits)
        runs.append(
            made.run(strategy, what, made=made_record, history=history, verdicts=verdicts, events=events, logs=logs)
        )
    fails = tuple(v for v in verdicts if v.answer == "fail")
    for _ in range(5):
        held = [Receipt(0, "s2", "hold", at_s(1.4))]
        made.run("control", what.control, made=record(0, what.control, held), verdicts=verdicts[2:3])
    elsewhere = Variant("granary.durable:replace_file#4", plan(Crash(), RENAME), 9, 2)
    return Finding(
        "F2",
        "acknowledged writes are lost",
        text,
        what,
        tuple(runs),
        ("random", "exhaustive"),
        fails,
        tries=5,
        hits=5,
        control_tries=5,
        variants=(elsewhere,),
        shown_by=runs[3],
    )


def _stuck(made: CampaignMaker) -> Finding:
    what = plan(Delay(8.0), SYNC, strategy="random", why="this operation runs under a lock that every request takes")
    text = "put of client kv1 was never answered, not even after healing, while 12 later operations were answered"
    verdict = Verdict(
        "fail",
        text,
        "put is never answered, not even after healing",
        ("kv1: put at s2 {'key': 'kv1-1'} had waited 9.6 s when everything was healed",),
        "hang",
    )
    receipts = [Receipt(0, "m1", "delay", at_s(9.3), 100, 9, 8_000_000_000, "before file.fsync assignments.json")]
    history = list(workload(3, until_s=1.32))[:-4]
    history.append(op(900, "kv1", "put", 1.36, 0, "pending", node="s2", args={"key": "kv1-1"}))
    history += [op(901 + i, "log1", "append", 9.35 + i / 9, 9.41 + i / 9) for i in range(4)]
    history.append(op(950, "kv2", "put", 1.31, 9.34, "unknown", node="m1", error="TimeoutError: timed out"))
    events = [
        event("m1", 9, 1.3, "file.fsync", SYNC["loc"], target="assignments.json", thread="MainThread", role="master")
    ]
    made_record = record(
        0,
        what,
        receipts,
        started_ns=at_s(0.0),
        healed_ns=at_s(10.9),
        workload=WorkloadResult("hung"),
        stalled_ns=at_s(10.4),
        health=tuple(
            HealthSample(node, at_s(2 + i), "" if i < 7 else "late") for i in range(9) for node in ("m1", "s2")
        ),
        stacks=(ProcessStacks("m1", 1, 100, at_s(10.4), STUCK),),
        timing=Timing(start_s=0.6, workload_s=10.3, settle_s=4, total_s=15.2),
    )
    runs = [
        made.run(s, what, made=made_record, history=history, verdicts=[verdict], events=events)
        for s in ("random", "confirm", "confirm", "confirm")
    ]
    return Finding("F1", verdict.symptom, text, what, tuple(runs), ("random",), (verdict,), 5, 3)


def _died(made: CampaignMaker) -> Finding:
    what = plan(Error("ECONNRESET"), RECV, nth=2, strategy="exhaustive", why="every fault at every point, once")
    text = "s3 ended by itself with exit code 1: KeyError: 'leader'"
    tail = "Traceback (most recent call last):\n  File \"granary/gossip.py\", line 88, in merge\nKeyError: 'leader'\n"
    verdict = Verdict(
        "fail", text, "store ends by itself", ("s3 (start 1) ended with exit code 1", *tail.splitlines()), "exits"
    )
    receipts = [Receipt(0, "s3", "error", at_s(1.05), 100, 5, 0, "before net.recv accepted: ECONNRESET once")]
    exits = [NodeExit("s3", 1, 1, at_s(0.02), at_s(1.21), False, tail)]
    events = [
        event("s3", 5, 1.04, "net.recv", RECV["loc"], target="accepted", thread="serve-<n>"),
        event("s3", 6, 1.09, "thread.die", "granary.gossip:Gossip.merge#2", target="KeyError", resource="'leader'"),
    ]
    run = made.run(
        "exhaustive",
        what,
        made=record(0, what, receipts, exits),
        history=workload(8, hurt_from_s=1.2),
        verdicts=[verdict],
        events=events,
        logs={"s3.1.err": tail.encode()},
    )
    return Finding("F3", verdict.symptom, text, what, (run,), ("exhaustive",), (verdict,))


def _doubt(made: CampaignMaker) -> Finding:
    what = plan(Crash(), RENAME, "after", strategy="random")
    verdict = Verdict(
        "fail", "s1 did not serve again after healing: refused", "store does not serve again", (), "liveness"
    )
    receipts = [Receipt(0, "s1", "crash", at_s(0.9), 100, 3, 0, "after file.rename state.tmp -> state")]
    exits = [NodeExit("s1", 1, -9, at_s(0.02), at_s(0.92), True, "")]
    settling = Settling({"s1": "connection refused"})
    hurt = record(0, what, receipts, exits, settling=settling)
    run = made.run("random", what, made=hurt, history=workload(2, hurt_from_s=0.9), verdicts=[verdict])
    return Finding("F4", verdict.symptom, verdict.text, what, (run,), ("random",), (verdict,), 5, 0)


if __name__ == "__main__":
    from undermine.report.html import write_report

    print(write_report(sample(pathlib.Path(sys.argv[1]))))
