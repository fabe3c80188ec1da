"""The campaign's database: SQLite (WAL) with its rounds, runs, verdicts, points and findings. Never judges or prunes.

A round is written before it runs; a run is written when it starts and again when it has been judged. If the tool is killed,
committed data stays, and the store can tell which runs were interrupted.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from undermine.checkers.compose import NEWS_CHECKER, symptoms_of
from undermine.model.finding import Finding, LandedRun, Landing, landings
from undermine.model.plan import Lasted, Plan
from undermine.model.predictions.candidate import Reason
from undermine.model.predictions.landings import LandedStep, Tried
from undermine.model.rounds import REPEATS, RERUNS, SEQUELS, RoundKind
from undermine.model.run import RunRecord, SlowOp, Symptom, Verdict
from undermine.protocols import Dropped, PastRun, PointSeen
from undermine.store.fired import FiredStep, put_fired
from undermine.store.shown_points import CACHED_MAX, ShownPoints, decoded_plan

_RERUNS_SQL = ", ".join(f"'{kind}'" for kind in RERUNS)
_REPEATS_SQL = ", ".join(f"'{kind}'" for kind in REPEATS)
_PROPOSED_SQL = f"r.kind = '{RoundKind.STRATEGY}'"
_ODD_SQL = (  # the checker of logs passed the run but gave evidence
    f"EXISTS (SELECT 1 FROM verdicts v WHERE v.run = x.run AND v.checker = '{NEWS_CHECKER}' "
    "AND v.answer = 'pass' AND json_array_length(v.verdict, '$.evidence') > 0)"
)
_STATUS_SQL = "CASE WHEN s.covered THEN 'fired' ELSE x.status END"
"""The status of a slot. All steps of a covered plan landed, though later steps of the covering run may not have fired."""
_BY_KIND = (RoundKind.CONTROL, RoundKind.REALISM, RoundKind.SURVEY, *SEQUELS)
"""The rounds whose runs are counted by their kind."""


@lru_cache(CACHED_MAX)
def _landed(text: str) -> tuple[Landing, ...]:
    return msgspec.json.decode(text, type=tuple[Landing, ...])


@lru_cache(CACHED_MAX)
def _slow_ops(text: str) -> tuple[SlowOp, ...]:
    return msgspec.json.decode(text, type=tuple[SlowOp, ...])


def _lasted(text: str | None) -> tuple[Lasted, ...]:
    return msgspec.json.decode(text, type=tuple[Lasted, ...]) if text else ()


class Slot(msgspec.Struct, frozen=True):
    """A stored plan's place in its round."""

    round_index: int
    index: int
    strategy: str
    """The name of the strategy that proposed it; "" if none did."""
    plan: Plan
    kind: RoundKind = RoundKind.STRATEGY
    tries: int = 0
    """The number of runs so far in which it did not fire."""

    @property
    def label(self) -> str:
        """The purpose of the run, in one word: the name of the strategy, or else the kind of the round."""
        return self.strategy or self.kind.value


def _put_dropped(db: sqlite3.Connection, dropped: Iterable[Dropped]) -> None:
    rows = [(d.plan.id, d.plan.strategy, msgspec.json.encode(d.plan).decode(), d.rule, d.instead) for d in dropped]
    db.executemany("INSERT OR IGNORE INTO dropped VALUES (?, ?, ?, ?, ?)", rows)


class CampaignStore(ShownPoints):
    """One campaign's database. Safe to use from several threads."""

    def __init__(self, folder: Path, *, read_only: bool = False, upgrade: bool = True) -> None:
        super().__init__(folder, read_only=read_only, upgrade=upgrade)
        self.runs_dir = folder / "runs"
        self.runs_dir.mkdir(mode=0o700, exist_ok=True)

    # --- rounds and runs

    def write_round(
        self,
        strategy: str,
        plans: Sequence[Plan],
        dropped: Iterable[Dropped] = (),
        reasons: Mapping[str, Sequence[Reason]] | None = None,
    ) -> list[Slot]:
        """Store a round of plans that a strategy proposed, before any of them runs, and its dropped plans, in one transaction.
        `reasons` has the reasons for plans by their ids."""
        return self._write_round(RoundKind.STRATEGY, strategy, plans, dropped, reasons or {})

    def write_round_of(self, kind: RoundKind, plans: Sequence[Plan]) -> list[Slot]:
        """Store a round of plans that no strategy proposed, before any of them runs."""
        return self._write_round(kind, "", plans)

    def _write_round(
        self,
        kind: RoundKind,
        strategy: str,
        plans: Sequence[Plan],
        dropped: Iterable[Dropped] = (),
        reasons: Mapping[str, Sequence[Reason]] = MappingProxyType({}),
    ) -> list[Slot]:
        with self._change() as db:
            cursor = db.execute(
                "INSERT INTO rounds (kind, strategy, created) VALUES (?, ?, ?)", (kind.value, strategy, time.time())
            )
            round_index = int(cursor.lastrowid or 0)
            slots = [Slot(round_index, index, strategy, plan, kind) for index, plan in enumerate(plans)]
            db.executemany(
                "INSERT INTO slots (round, idx, plan, plan_id) VALUES (?, ?, ?, ?)",
                [(s.round_index, s.index, msgspec.json.encode(s.plan).decode(), s.plan.id) for s in slots],
            )
            db.executemany(
                "INSERT OR IGNORE INTO reasons VALUES (?, ?)",
                [(s.plan.id, msgspec.json.encode(r).decode()) for s in slots for r in reasons.get(s.plan.id, ())],
            )
            _put_dropped(db, dropped)
        return slots

    def cover(self, slot: Slot, run: int) -> None:
        """Store that a run of another plan has tried this slot's plan."""
        with self._change() as db:
            db.execute(
                "UPDATE slots SET run = ?, covered = 1 WHERE round = ? AND idx = ?", (run, slot.round_index, slot.index)
            )

    def reasons(self, run: int) -> tuple[Reason, ...]:
        """The reasons that strategies gave for the plan of a run, and for the plans that it covered."""
        rows = self._all(
            "SELECT q.reason FROM reasons q WHERE q.plan_id IN (SELECT s.plan_id FROM slots s LEFT JOIN runs x "
            "ON s.round = x.round AND s.idx = x.idx WHERE s.run = ?1 OR x.run = ?1) ORDER BY q.rowid",
            run,
        )
        return tuple(msgspec.json.decode(text, type=Reason) for (text,) in rows)

    def finish_round(self, round_index: int, used_s: float) -> None:
        """Add time to a round and close it, even if some of its plans were not run."""
        with self._change() as db:
            db.execute(
                "UPDATE rounds SET finished = ?, used_s = used_s + ? WHERE round = ?",
                (time.time(), used_s, round_index),
            )

    def spend(self, round_index: int, used_s: float) -> None:
        """Add time to a round, and close the round if all its plans were run."""
        with self._change() as db:
            db.execute(
                "UPDATE rounds SET used_s = used_s + ?, finished = CASE WHEN EXISTS "
                "(SELECT 1 FROM slots WHERE slots.round = rounds.round AND slots.run IS NULL) THEN NULL ELSE ? END "
                "WHERE round = ?",
                (used_s, time.time(), round_index),
            )

    def begin_run(self, slot: Slot) -> int:
        """Store that a run of this slot's plan has started; return its number."""
        with self._change() as db:
            cursor = db.execute(
                "INSERT INTO runs (round, idx, attempt, state, started) VALUES (?, ?, "
                "(SELECT COUNT(*) FROM runs WHERE round = ? AND idx = ?), 'running', ?)",
                (slot.round_index, slot.index, slot.round_index, slot.index, time.time()),
            )
            return int(cursor.lastrowid or 0)

    def finish_run(
        self,
        slot: Slot,
        record: RunRecord,
        verdicts: Sequence[Verdict],
        symptom: str,
        points: Iterable[PointSeen],
        fired: Iterable[FiredStep],
        *,
        fill: bool | None = None,
    ) -> None:
        """Store everything about a judged run, in one transaction. `fill` says whether its slot is done; by default it is unless
        the run broke."""
        with self._change() as db:
            db.execute(
                "UPDATE runs SET state = 'done', status = ?, reason = ?, ended = ?, timing = ?, symptom = ?, landed = ?, "
                "slow_ops = ?, worker = ? WHERE run = ?",
                (
                    record.status,
                    record.reason,
                    time.time(),
                    msgspec.json.encode(record.timing).decode(),
                    symptom,
                    msgspec.json.encode(landings(record)).decode(),
                    msgspec.json.encode(record.slow_ops).decode(),
                    record.worker,
                    record.id,
                ),
            )
            self._put_verdicts(db, record.id, verdicts)
            if record.status != "broken":
                self._points.put(db, record.id, points)
            put_fired(db, record.id, fired)
            if record.status != "broken" if fill is None else fill:
                db.execute(
                    "UPDATE slots SET run = ? WHERE round = ? AND idx = ?", (record.id, slot.round_index, slot.index)
                )

    def replace_verdicts(self, run: int, verdicts: Sequence[Verdict], symptom: str) -> None:
        """Replace the verdicts of a run, after a checker was edited."""
        with self._change() as db:
            db.execute("DELETE FROM verdicts WHERE run = ?", (run,))
            self._put_verdicts(db, run, verdicts)
            db.execute("UPDATE runs SET symptom = ? WHERE run = ?", (symptom, run))

    def _put_verdicts(self, db: sqlite3.Connection, run: int, verdicts: Sequence[Verdict]) -> None:
        db.executemany(
            "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)",
            [(run, v.checker, v.answer, msgspec.json.encode(v).decode()) for v in verdicts],
        )

    def interrupted(self) -> list[int]:
        """Mark runs that were under way when the tool died as broken, and return their numbers. Their slots stay open."""
        with self._change() as db:
            rows = db.execute(
                "UPDATE runs SET state = 'done', status = 'broken', reason = 'interrupted', ended = ? "
                "WHERE state = 'running' RETURNING run",
                (time.time(),),
            ).fetchall()
        return sorted(run for (run,) in rows)

    def open_slots(
        self, strategy: str = "", most: int = -1, kind: RoundKind | None = None, *, tried: bool | None = None
    ) -> list[Slot]:
        """The first `most` plans that were stored but not run to the end. Plans that were run and did not fire come after the
        others; else the order is (round, index). `strategy` and `kind` select the rounds of one strategy or of one kind,
        `tried` selects plans that were run and did not fire, or those that were not."""
        rows = self._all(
            "SELECT s.round, s.idx, r.strategy, s.plan, r.kind, (SELECT COUNT(*) FROM runs x WHERE x.round = s.round "
            "AND x.idx = s.idx AND x.status = 'not_fired') AS tries FROM slots s JOIN rounds r USING (round) "
            "WHERE s.run IS NULL AND r.finished IS NULL AND ?1 IN ('', r.strategy) AND ?2 IN ('', r.kind) "
            "AND ?4 IN (-1, tries > 0) ORDER BY tries, s.round, s.idx LIMIT ?3",
            strategy,
            kind.value if kind else "",
            most,
            -1 if tried is None else int(tried),
        )
        return [Slot(a, b, c, decoded_plan(d), RoundKind(e), f) for a, b, c, d, e, f in rows]

    def rounds_of(self, strategy: str) -> int:
        """The number of rounds of a strategy."""
        return int(self._all("SELECT COUNT(*) FROM rounds WHERE strategy = ?", strategy)[0][0])

    def used_s(self) -> dict[str, float]:
        """The seconds that each strategy has used."""
        rows = self._all(f"SELECT strategy, SUM(used_s) FROM rounds r WHERE {_PROPOSED_SQL} GROUP BY strategy")
        return {strategy: float(used_s) for strategy, used_s in rows}

    def has_run(self, strategy: str) -> bool:
        """Has a plan of this strategy run? Broken runs and runs that cover its plans do not count."""
        which = "r.strategy = ? AND x.state = 'done' AND x.status != 'broken'"
        return bool(self._all(f"SELECT 1 FROM runs x JOIN rounds r USING (round) WHERE {which} LIMIT 1", strategy))

    def reruns_s(self) -> float:
        """The seconds that confirmations, controls and realism checks have used."""
        return float(self._all(f"SELECT COALESCE(SUM(used_s), 0) FROM rounds WHERE kind IN ({_RERUNS_SQL})")[0][0])

    def past_runs(self, strategy: str = "", kind: RoundKind | None = None) -> tuple[PastRun, ...]:
        """The finished runs, one for each filled slot, in (round, index) order, not in the order in which they ended. `strategy`
        and `kind` select the rounds of one strategy or of one kind."""
        return self._past("?1 IN ('', r.strategy) AND ?2 IN ('', r.kind)", strategy, kind.value if kind else "")

    def _past(self, which: str, *values: str) -> tuple[PastRun, ...]:
        rows = self._all(
            f"SELECT x.run, s.round, s.idx, s.plan, {_STATUS_SQL}, x.symptom, {_ODD_SQL}, s.covered FROM slots s "
            f"JOIN rounds r USING (round) JOIN runs x ON x.run = s.run WHERE {which} ORDER BY s.round, s.idx",
            *values,
        )
        sure = (finding for finding in self.findings() if finding.confirmed and finding.believed)
        confirmed = {run for finding in sure for run in finding.runs}
        return tuple(
            PastRun(
                *(run, a, b, decoded_plan(plan), status, bool(symptom)),
                odd=bool(odd) and not symptom,
                covered=bool(covered),
                confirmed=bool(symptom) and run in confirmed,
            )
            for run, a, b, plan, status, symptom, odd, covered in rows
        )

    def predicted(self) -> frozenset[str]:
        """The ids of the plans that a strategy gave a reason for."""
        return frozenset(name for (name,) in self._all("SELECT DISTINCT plan_id FROM reasons"))

    def tried(self, known: Container[int]) -> Iterator[Tried]:
        """Where the faults of each finished run landed, except of runs that are `known`. Only faults count, so controls and
        runs with slow devices are left out, and so are a user's replays."""
        ended = self._all("SELECT run FROM runs WHERE state = 'done' AND status != 'broken'")
        new = json.dumps([run for (run,) in ended if run not in known])
        kinds = ", ".join(f"'{kind}'" for kind in (RoundKind.STRATEGY, RoundKind.BENIGN, RoundKind.CONFIRM))
        rows = self._all(
            "SELECT x.run, r.strategy, r.kind, s.plan, x.landed FROM runs x JOIN rounds r USING (round) "
            "JOIN slots s ON s.round = x.round AND s.idx = x.idx "
            f"WHERE x.run IN (SELECT value FROM json_each(?)) AND r.kind IN ({kinds}) ORDER BY x.run",
            new,
        )
        query = (
            "SELECT f.run, f.step, f.serving, COALESCE(o.numbers, '[]') FROM fired f LEFT JOIN occurrences o USING (run, step) "
            "WHERE f.run IN (SELECT value FROM json_each(?))"
        )
        fired = self._all(query, new) if rows else []
        when = {(run, step): (bool(serving), tuple(json.loads(numbers))) for run, step, serving, numbers in fired}
        for run, strategy, kind, text, landed in rows:
            steps = decoded_plan(text).steps
            at = tuple(LandedStep(steps[n], point, *when.get((run, n), ())) for n, point in _landed(landed))
            yield Tried(run, strategy or kind, at)

    def plans_taken(self, strategy: str) -> frozenset[str]:
        """The ids of all plans that the strategy proposed and that were stored."""
        rows = self._all("SELECT s.plan_id FROM slots s JOIN rounds r USING (round) WHERE r.strategy = ?", strategy)
        return frozenset(name for (name,) in rows)

    def write_dropped(self, dropped: Iterable[Dropped]) -> int:
        """Store dropped plans with their rules; return how many of them were not stored before."""
        with self._change() as db:
            before = db.total_changes
            _put_dropped(db, dropped)
            return db.total_changes - before

    def second_chances(self, strategy: str) -> list[Plan]:
        """For each representative of the strategy that did not fire, another plan of its class, unless one was already stored."""
        rows = self._all(
            "SELECT MIN(d.rowid), d.plan FROM dropped d JOIN slots s ON s.plan_id = d.instead JOIN rounds r USING (round) "
            "JOIN runs x ON x.run = s.run WHERE d.strategy = ?1 AND r.strategy = ?1 AND d.plan_id != d.instead "
            f"AND {_STATUS_SQL} = 'not_fired' AND d.instead NOT IN (SELECT e.instead FROM dropped e JOIN slots t "
            "USING (plan_id) WHERE e.strategy = ?1 AND e.plan_id != e.instead) GROUP BY d.instead ORDER BY 1",
            strategy,
        )
        return [decoded_plan(text) for _, text in rows]

    def settled(self, strategy: str) -> frozenset[str]:
        """The ids of plans that the strategy proposed: they were stored, or a policy dropped them."""
        dropped = self._all("SELECT plan_id FROM dropped WHERE strategy = ?", strategy)
        return self.plans_taken(strategy) | {row[0] for row in dropped}

    def run_rows(self) -> list[dict[str, Any]]:
        """All finished runs by number, each as a table of its columns with decoded timing, plan and kind."""
        rows = self._all(
            "SELECT x.run, r.strategy, r.kind, x.round, x.idx, x.status, x.reason, x.symptom, x.started, x.ended, x.timing, "
            "s.plan, json_extract(x.timing, '$.faults'), x.worker FROM runs x JOIN rounds r USING (round) "
            "JOIN slots s ON s.round = x.round AND s.idx = x.idx WHERE x.state = 'done' ORDER BY x.run"
        )
        names = (
            "run",
            "strategy",
            "kind",
            "round",
            "index",
            "status",
            "reason",
            "symptom",
            "started",
            "ended",
            "timing",
            "plan",
            "lasted",
            "worker",
        )
        out = []
        for row in rows:
            entry = dict(zip(names, row, strict=True))
            entry["timing"] = json.loads(entry["timing"]) if entry["timing"] else {}
            entry["plan"] = decoded_plan(entry["plan"])
            entry["lasted"] = _lasted(entry["lasted"])
            entry["kind"] = RoundKind(entry["kind"])
            out.append(entry)
        return out

    def finished(self, since: float = 0.0) -> int:
        """The number of runs that ended after this time, in seconds since 1970."""
        return int(self._all("SELECT COUNT(*) FROM runs WHERE state = 'done' AND ended >= ?", since)[0][0])

    def under_way(self) -> list[tuple[int, Slot, float]]:
        """The runs that are under way: each with its slot and the time at which it started, in seconds since 1970."""
        rows = self._all(
            "SELECT x.run, x.started, x.round, x.idx, r.strategy, s.plan, r.kind FROM runs x JOIN rounds r USING (round) "
            "JOIN slots s ON s.round = x.round AND s.idx = x.idx WHERE x.state = 'running' ORDER BY x.run"
        )
        return [
            (run, Slot(round_index, index, strategy, decoded_plan(plan), RoundKind(kind)), started)
            for run, started, round_index, index, strategy, plan, kind in rows
        ]

    def status_counts(self) -> dict[str, int]:
        """The number of runs by status. Fault-free and benign runs, controls, surveys, realism checks, comparisons and smaller
        plans are counted under their kind."""
        rows = self._all(
            f"SELECT CASE WHEN kind IN ({', '.join('?' * len(_BY_KIND))}) AND status != 'broken' THEN kind "
            "WHEN status != 'fired' THEN status WHEN kind = ? THEN 'fault-free' WHEN kind = ? THEN 'benign' ELSE status END "
            "AS how, COUNT(*) FROM runs JOIN rounds USING (round) WHERE state = 'done' GROUP BY how",
            *(kind.value for kind in (*_BY_KIND, RoundKind.BASELINE, RoundKind.BENIGN)),
        )
        return {status: int(count) for status, count in rows}

    def verdicts(self, run: int) -> tuple[Verdict, ...]:
        rows = self._all("SELECT verdict FROM verdicts WHERE run = ? ORDER BY rowid", run)
        return tuple(msgspec.json.decode(text, type=Verdict) for (text,) in rows)

    def landed_runs(self) -> tuple[LandedRun, ...]:
        """The runs that findings are built from, oldest first: failing runs with a fault, and all their re-runs, controls and
        smaller plans.

        A failing control, a realism check and a replay under another configuration do not count as failing runs.
        """
        return self._landed_runs(
            f"CASE WHEN r.kind IN ({_REPEATS_SQL}) THEN s.run = x.run "
            f"ELSE x.symptom != '' AND r.kind NOT IN ('{RoundKind.BASELINE}', '{RoundKind.REPLAY}') END",
            self._symptoms(),
        )

    def harmless_runs(self) -> tuple[LandedRun, ...]:
        """The runs of strategies, and benign runs, that passed although their faults fired."""
        kinds = f"r.kind IN ('{RoundKind.STRATEGY}', '{RoundKind.BENIGN}')"
        return self._landed_runs(f"x.symptom = '' AND x.status = 'fired' AND {kinds}", {})

    def _landed_runs(self, which: str, shown: Mapping[int, tuple[Symptom, ...]]) -> tuple[LandedRun, ...]:
        """The finished runs that this condition selects, oldest first, with their symptoms."""
        rows = self._all(
            "SELECT x.run, r.strategy, s.plan, s.plan_id, x.status, x.symptom, x.landed, x.slow_ops, r.kind, "
            "json_extract(x.timing, '$.faults'), x.worker FROM runs x JOIN rounds r USING (round) "
            f"JOIN slots s ON s.round = x.round AND s.idx = x.idx WHERE x.state = 'done' AND {which} ORDER BY x.run"
        )
        return tuple(
            LandedRun(
                run,
                by,
                decoded_plan(plan),
                plan_id,
                status,
                shown.get(run) or ((Symptom(symptom),) if symptom else ()),
                _landed(landed),
                _slow_ops(slow),
                RoundKind(kind),
                _lasted(lasted),
                worker,
            )
            for run, by, plan, plan_id, status, symptom, landed, slow, kind, lasted, worker in rows
        )

    def _symptoms(self) -> dict[int, tuple[Symptom, ...]]:
        """By run: its symptoms. A run that failed although no fault fired has none."""
        rows = self._all(
            "SELECT v.run, v.checker, json_extract(v.verdict, '$.text'), json_extract(v.verdict, '$.symptom'), "
            "json_extract(v.verdict, '$.rank'), json_extract(v.verdict, '$.frame') "
            "FROM verdicts v JOIN runs x USING (run) WHERE v.answer = 'fail' AND x.symptom != '' ORDER BY v.run, v.rowid"
        )
        failing: dict[int, list[Verdict]] = {}
        for run, checker, text, symptom, rank, frame in rows:
            verdict = Verdict("fail", text or "", symptom or "", checker=checker, rank=rank or "", frame=frame or "")
            failing.setdefault(run, []).append(verdict)
        return {run: symptoms_of(verdicts) for run, verdicts in failing.items()}

    def notes(self) -> list[tuple[str, list[int]]]:
        """The notes of checkers in runs that passed, and the runs of each."""
        rows = self._all(
            "SELECT run, note.value FROM verdicts, json_each(verdict, '$.notes') AS note WHERE answer = 'pass' "
            "AND run NOT IN (SELECT run FROM verdicts WHERE answer = 'fail') ORDER BY run, note.key"
        )
        found: dict[str, list[int]] = {}
        for run, note in rows:
            found.setdefault(note, []).append(run)
        return list(found.items())

    def planned(self) -> list[tuple[RoundKind, str, int, int, int]]:
        """For each strategy, and each other kind of round, in the order of their first rounds: the kind, the strategy's name,
        how many plans were run, how many are open, and how many another run has covered."""
        rows = self._all(
            "SELECT r.kind, r.strategy, SUM(s.run IS NOT NULL AND NOT s.covered), SUM(s.run IS NULL AND r.finished IS NULL), "
            "SUM(s.covered) FROM slots s JOIN rounds r USING (round) GROUP BY r.kind, r.strategy ORDER BY MIN(r.round)"
        )
        return [(RoundKind(kind), strategy, run, still, covered) for kind, strategy, run, still, covered in rows]

    def covered(self) -> dict[str, int]:
        """By strategy: the number of its plans that did not run, since another run had landed where they would have landed."""
        return {name: covered for kind, name, _, _, covered in self.planned() if kind is RoundKind.STRATEGY}

    def dropped(self) -> Iterator[tuple[str, str, str, str]]:
        """Strategy, rule, id of the representative, and the plan as JSON, in the order in which they were dropped."""
        with self._lock:
            yield from self._db.execute("SELECT strategy, rule, instead, plan FROM dropped ORDER BY rowid")

    def plans_placed(self, ids: Iterable[str]) -> dict[str, tuple[Plan, int, str]]:
        """The plans among these that are in a strategy's round, by id: the plan, its run (0 if it has none yet) and status."""
        rows = self._all(
            f"SELECT s.plan_id, s.plan, MAX(COALESCE(s.run, 0)), COALESCE({_STATUS_SQL}, '') FROM slots s "
            f"JOIN rounds r USING (round) LEFT JOIN runs x ON x.run = s.run WHERE {_PROPOSED_SQL} "
            "AND s.plan_id IN (SELECT value FROM json_each(?)) GROUP BY s.plan_id",
            json.dumps(list(ids)),
        )
        return {name: (decoded_plan(text), run, status) for name, text, run, status in rows}

    def dropped_for(self, strategy: str, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """The plans among these that this strategy had dropped, by id: the rule, and the id of the representative."""
        rows = self._all(
            "SELECT plan_id, rule, instead FROM dropped WHERE strategy = ? "
            "AND plan_id IN (SELECT value FROM json_each(?))",
            strategy,
            json.dumps(list(ids)),
        )
        return {name: (rule, instead) for name, rule, instead in rows}

    # --- findings

    def write_findings(self, findings: Iterable[Finding]) -> None:
        """Replace all stored findings. A name keeps its number, even if there is no longer such a finding."""
        findings = list(findings)
        with self._change() as db:
            db.execute("DELETE FROM findings")
            numbers = [(f.name, int(f.id.removeprefix("F"))) for f in findings]
            db.executemany("INSERT OR IGNORE INTO numbers VALUES (?, ?)", numbers)
            db.executemany(
                "INSERT INTO findings VALUES (?, ?, ?)",
                [(f.id, f.name, msgspec.json.encode(f).decode()) for f in findings],
            )

    def findings(self) -> tuple[Finding, ...]:
        rows = self._all("SELECT body FROM findings ORDER BY rowid")
        return tuple(msgspec.json.decode(body, type=Finding) for (body,) in rows)

    def finding_numbers(self) -> dict[str, int]:
        """By name: the number of every finding that this campaign ever had."""
        return dict(self._all("SELECT symptom, number FROM numbers"))
