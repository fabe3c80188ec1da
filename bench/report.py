"""Builds a campaign of 10,000 hand-made runs and measures its report: the time to write it, its size, and the time to open it.

    python -m bench.report [RUNS]

No target runs. The runs, histories, traces and logs are made by the helpers of the tests, with the real store. A headless
Chromium opens the page several times, each time with a new profile.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path += [str(TESTS / "report"), str(TESTS / "support")]

import msgspec  # noqa: E402
from browser import CHROMIUM, browsing  # type: ignore[import-not-found]  # noqa: E402
from report_campaigns import CampaignMaker, at_s, op, record  # type: ignore[import-not-found]  # noqa: E402

from bench.table import table  # noqa: E402
from undermine.model.faults import Crash, Delay, Error, Fault, Reboot  # noqa: E402
from undermine.model.finding import Finding  # noqa: E402
from undermine.model.plan import At, Plan, Step  # noqa: E402
from undermine.model.point import Point, point_of  # noqa: E402
from undermine.model.run import Op, Receipt, Verdict  # noqa: E402
from undermine.protocols import Dropped, PointSeen  # noqa: E402
from undermine.report.html import write_report  # noqa: E402
from undermine.testing import event  # noqa: E402

RUNS = 10_000
OPENED = 5
OPEN_S_MAX = 2.0
BYTES_MAX = 5_000_000

_NODES = ("s1", "s2", "s3")
_MODULES = 40
_FUNCTIONS = 10
"""In each module. Each function has one operation."""
_BUGS = 40
_SHOWN = 300
"""The points that one run shows."""
_DROPPED = 12_000
_STRATEGIES = ("random", "exhaustive", "sieve", "prefail", "fcatch")
_FAULTS: tuple[Fault, ...] = (Crash(), Reboot(0.5), Delay(3.0), Error("EIO"), Error("ECONNRESET"))
_OPS = ("file.write", "file.fsync", "file.rename", "net.send", "net.recv")
_RULES = ("new_source_location", "first_read_only", "no_crash_towards_dead_receiver", "any_k_nodes")
_LINES = 12
"""The lines of a function."""


def write_project(folder: Path) -> None:
    """The source of the target."""
    for module in range(_MODULES):
        lines = ['"""A module of the target."""', ""]
        for function in range(_FUNCTIONS):
            body = [f"    total_{n} = combine(state, {n}, '<&>')  # step {n}" for n in range(_LINES - 4)]
            lines += [f"def handle_{function}(state, data):", *body, f"    write_{function}(state, data)", "", ""]
        path = folder / "shop" / f"module_{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))


def points() -> list[PointSeen]:
    """The points of the fault-free runs: each operation on each node."""
    found: list[PointSeen] = []
    for module in range(_MODULES):
        for function in range(_FUNCTIONS):
            for node in _NODES:
                loc = f"shop.module_{module}:handle_{function}#1"
                name = _OPS[(module + function) % len(_OPS)]
                target = "peer:s1" if name.startswith("net") else f"shard-<n>/log-{function}"
                at = point_of(event(name, node, loc, target))
                line = 2 + function * _LINES + (_LINES - 2)
                found.append(PointSeen(at, 1, 3, len(found), line, 1, frames=(loc.partition("#")[0], "shop.main:serve")))
    return found


def some_plan(rng: random.Random, where: Point, strategy: str) -> Plan:
    fault = rng.choice(_FAULTS)
    return Plan((Step(At(where, rng.choice(("before", "after")), rng.randint(1, 4)), fault),), rng.randrange(10**6), strategy)


def history(rng: random.Random) -> list[Op]:
    ops: list[Op] = []
    for client in range(6):
        now = 0.5
        for _ in range(40):
            took = rng.uniform(0.01, 0.08)
            ops.append(op(len(ops), f"c{client}", "put", now, now + took, rng.choice(("ok", "ok", "ok", "fail"))))
            now += took
    return ops


def build(folder: Path, runs: int, seed: int = 7) -> None:
    """Write a campaign of this size, and its target's source beside it."""
    rng = random.Random(seed)
    write_project(folder)
    known = points()
    identity = {
        "version": "0.1.0",
        "config": str(folder / "undermine.toml"),
        "significant": {"hunt": {"seed": seed}, "faults": {"kinds": ["crash", "reboot", "delay", "error", "pause"]}},
    }
    made = CampaignMaker(folder / ".undermine" / "campaigns" / "large", identity)
    made.store.set_meta("reachable", [seen.point.id for seen in known])
    for _ in range(3):
        made.run("baseline", Plan(), points=known, verdicts=[Verdict.ok()])
    bugs = rng.sample(known, _BUGS)
    failing: dict[int, list[int]] = {bug: [] for bug in range(_BUGS)}
    plans: dict[int, Plan] = {}
    for number in range(runs - 3):
        strategy = _STRATEGIES[number % len(_STRATEGIES)]
        bug = rng.randrange(_BUGS) if rng.random() < 0.04 else None
        where = (rng.choice(known) if bug is None else bugs[bug]).point
        what = some_plan(rng, where, strategy)
        run = _run(made, rng, strategy, what, bug, rng.sample(known, _SHOWN))
        if bug is not None:
            failing[bug].append(run)
            plans.setdefault(bug, what)
    made.store.write_dropped(_dropped(rng, known))
    made.findings(*(_finding(bug, plans[bug], found) for bug, found in failing.items() if found))
    made.close()


def _run(
    made: CampaignMaker, rng: random.Random, strategy: str, what: Plan, bug: int | None, shown: Sequence[PointSeen]
) -> int:
    node = what.steps[0].trigger.point.get("node")  # type: ignore[union-attr]
    fires = bug is not None or rng.random() < 0.9
    receipts = [Receipt(0, node, "crash", at_s(1.2), 100, 7, 0, "before file.write log")] if fires else []
    finished = record(0, what, receipts, status="fired" if fires else "not_fired")
    if bug is None:
        return int(made.run(strategy, what, made=finished, verdicts=[Verdict.ok()], points=shown))
    events = [
        event(rng.choice(_OPS), rng.choice(_NODES), f"shop.module_{n % _MODULES}:handle_0#1", seq=n, t_ns=at_s(0.5 + n / 1000))
        for n in range(1, 1500)
    ]
    log = b"".join(b"<b>line %d</b> & so on \x1b[31m\n" % n for n in range(400))
    more = {"history": history(rng), "events": events, "logs": {f"{node}.1.err": log}}
    return int(made.run(strategy, what, made=finished, verdicts=[_verdict(bug)], points=shown, **more))


def _verdict(bug: int) -> Verdict:
    text = f"acknowledged write {bug} is gone after the fault <script>alert({bug})</script>"
    return Verdict.fail(text, evidence=[f"key {n}: written, acknowledged, not in the final read" for n in range(30)])


def _finding(bug: int, what: Plan, found: Sequence[int]) -> Finding:
    verdict = _verdict(bug)
    strategies = tuple(_STRATEGIES[: 1 + bug % len(_STRATEGIES)])
    hits = 3 if bug % 4 else 1
    finding = Finding(f"F{bug + 1}", verdict.symptom, verdict.text, what, tuple(found), strategies, (verdict,))
    return msgspec.structs.replace(finding, tries=3, hits=hits, control_tries=3)


def _dropped(rng: random.Random, known: Sequence[PointSeen]) -> Iterator[Dropped]:
    for _ in range(_DROPPED):
        what = some_plan(rng, rng.choice(known).point, rng.choice(_STRATEGIES))
        yield Dropped(what, rng.choice(_RULES))


def opened_s(page: Path) -> float:
    """Seconds from the start of the navigation until the page is loaded and drawn."""
    profile = Path(tempfile.mkdtemp(prefix="undermine-bench-"))
    try:
        with browsing(page.as_uri(), profile, 1400, 1000) as shown:
            shown.until("document.readyState === 'complete' && location.protocol === 'file:'")
            shown.frames()
            loaded = float(shown.ask("performance.now()"))
            assert not shown.errors, shown.errors
            return loaded / 1000
    finally:
        shutil.rmtree(profile, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    runs = int(arguments[0]) if arguments else RUNS
    folder = Path(tempfile.mkdtemp(prefix="undermine-bench-"))
    try:
        begun = time.monotonic()
        build(folder, runs)
        built_s = time.monotonic() - begun
        begun = time.monotonic()
        page = write_report(folder / ".undermine" / "campaigns" / "large")
        written_s = time.monotonic() - begun
        opened = sorted(opened_s(page) for _ in range(OPENED)) if CHROMIUM else []
        size = page.stat().st_size
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = [
        ("runs", f"{runs:,}", ""),
        ("seconds to write the page", f"{written_s:.1f}", ""),
        ("bytes", f"{size:,}", f"{BYTES_MAX:,}"),
        ("seconds to open, median", f"{median(opened):.2f}" if opened else "no Chromium", f"{OPEN_S_MAX}"),
        ("seconds to open, worst", f"{opened[-1]:.2f}" if opened else "no Chromium", f"{OPEN_S_MAX}"),
    ]
    print(table(("figure", "value", "at most"), rows))
    result = {"runs": runs, "built_s": round(built_s, 1), "written_s": round(written_s, 2), "bytes": size}
    print(json.dumps({**result, "opened_s": [round(each, 2) for each in opened]}))


if __name__ == "__main__":
    main(sys.argv[1:])
