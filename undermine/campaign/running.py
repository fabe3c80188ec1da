"""Runs stored plans, and judges and stores the runs. Never proposes a plan.

The slot of a plan that did not fire stays open until it was tried `hunt.tries` times.
A run that broke is repeated, at most twice. So is a run that failed or did not fire while the machine was too busy; it is
repeated while no other run is under way.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from undermine.analysis.contents import Contents
from undermine.analysis.coverage import Coverage, coverage_of
from undermine.analysis.landing_numbers import fires_at, numbers_of
from undermine.analysis.points import points_of
from undermine.checkers.compose import check_all, symptom_of, unranked
from undermine.model.codec import read_columns, read_contents
from undermine.model.columns import Columns
from undermine.model.errors import UserError
from undermine.model.event import Trace
from undermine.model.faults import fault_kind
from undermine.model.finding import landings
from undermine.model.plan import At, Step, Then, final_at
from undermine.model.point import CLIENT, CONTENT, KEYS
from undermine.model.predictions.landings import COUNTED_KEYS, Tried
from undermine.model.rounds import SEQUELS, RoundKind
from undermine.model.run import Conditions, Moment, Op, RunRecord, RunView, Verdict
from undermine.protocols import Checker, PointSeen, Strategy, asked_by
from undermine.run.engine import Engine
from undermine.store.database import CampaignStore, Slot
from undermine.store.fired import FiredStep
from undermine.store.rundir import RunDir, load_record, load_view, read_history, save_record, tidy

ATTEMPTS_MAX = 3
_PATIENT = (RoundKind.CONFIRM, RoundKind.CONTROL, *SEQUELS, RoundKind.REPLAY)
"""The kinds of re-runs that get the long wait."""
LEARNT_FROM = (RoundKind.BASELINE, RoundKind.BENIGN)
"""The kinds of runs that strategies learn from."""
_COLUMNS_KEPT = 8
"""The runs whose events stay in memory. Each strategy reads those of the fault-free runs."""
_WISHES = "wishes"


class Notice(msgspec.Struct, frozen=True):
    """Something that happened, for a listener: a progress display or another program."""

    kind: str
    text: str
    data: dict[str, Any] = {}


Listener = Callable[[Notice], None]


class JudgedRun(msgspec.Struct, frozen=True):
    """A finished run and its verdicts."""

    run: int
    slot: Slot
    status: str
    reason: str
    symptom: str
    verdicts: tuple[Verdict, ...]
    attempt: int = 1
    noisy: bool = False
    """It does not count, since the machine was too busy."""
    port_taken: bool = False
    """It broke, since another process had a node's port."""


class PlanRunner:
    """Runs, judges and stores the plans of one campaign. Safe to use from several threads."""

    def __init__(self, engine: Engine, store: CampaignStore, checkers: Sequence[Checker], listener: Listener) -> None:
        self._engine = engine
        self._config = engine.config
        self._store = store
        self.checkers = tuple(checkers)
        self._listen = listener
        self._columns = lru_cache(_COLUMNS_KEPT)(self._read_columns)
        self._tried_columns = lru_cache(_COLUMNS_KEPT)(self._read_columns)
        self._fires: dict[tuple[Then, int, int], bool] = {}
        self._asked: frozenset[str] = frozenset()
        self._traced_always = False
        self._without_labels = False
        self.coverage: Coverage | None = None
        """The coverage of this campaign; None before `measure` is called."""
        self._counting = threading.Lock()

    def ask(self, strategies: Iterable[Strategy], *, traced_always: bool = False) -> None:
        """Observe fault-free and benign runs as any of these strategies asks for at first. With `traced_always`, all runs have
        full traces if one strategy needs them at first."""
        self._asked = frozenset(wish for strategy in strategies for wish in asked_by(strategy))
        self._traced_always = traced_always and bool(self._asked)

    def note_wishes(self, strategy: Strategy) -> None:
        """Observe the runs of this strategy as it asks for now. Stored, since a resumed campaign runs stored plans before it asks
        the strategy again."""
        self._store.set_meta(_WISHES, {**self._store.meta(_WISHES, {}), strategy.name: sorted(asked_by(strategy))})

    def measure(self) -> Coverage:
        """Count the runs so far, and from now on every run that ends. Call it after the fault-free runs."""
        self.coverage = coverage_of(self._store)
        return self.coverage

    def folder(self, run_id: int) -> Path:
        return self._store.runs_dir / f"{run_id:06d}"

    def view(self, run_id: int) -> RunView:
        return load_view(RunDir(self.folder(run_id)), lambda: self.columns(run_id))

    def columns(self, run_id: int) -> Columns:
        """All events of a run; empty if its trace was not kept."""
        return self._columns(run_id)

    def _read_columns(self, run_id: int) -> Columns:
        return read_columns(RunDir(self.folder(run_id)).trace)

    def learnt_columns(self, run_id: int) -> Columns:
        """All events of a fault-free run, with the contents that it recorded to learn them."""
        return read_contents(RunDir(self.folder(run_id)).trace)

    def fires_at(self, wanted: Then, tried: Tried, number: int) -> bool:
        """Would this trigger have fired where that step of a stored run landed? The run's trace tells."""
        key = (wanted, tried.run, number)
        if key not in self._fires:
            self._fires[key] = self._would_fire(wanted, tried.run, number)
        return self._fires[key]

    def _would_fire(self, wanted: Then, run_id: int, number: int) -> bool:
        try:
            record = load_record(RunDir(self.folder(run_id)))
        except UserError:  # its folder was removed
            return False
        moments = {moment.step: moment for moment in reversed(record.moments)}
        *_, before, at = [None, *(moments.get(step) for step, _ in landings(record)[: number + 1])]
        if at is None or (number and before is None):
            return False
        columns = self._tried_columns(run_id)
        trace = columns.trace_of_nodes({wanted.first.point.get("op"), at.point.get("op")})
        return fires_at(wanted, trace, at, before.t_ns if before else 0)

    def store_points(self, run_id: int, contents: Contents) -> None:
        """Store the points of a fault-free run again, with these contents."""
        events = (event for event in self.learnt_columns(run_id).events() if event.node != CLIENT)
        view = self.view(run_id)
        self._store.replace_points(run_id, points_of(Trace(contents.kept(events)), view.history, view.record.healed_ns))

    def fired_ns(self, run_id: int) -> int:
        """When the first step of a run fired; 0 if none did."""
        moments = load_record(RunDir(self.folder(run_id))).moments
        return moments[0].t_ns if moments else 0

    def served(self, run_id: int) -> tuple[int, int]:
        """When the first client of a run began, and when everything was healed."""
        run = RunDir(self.folder(run_id))
        return _served_ns(read_history(run.history)), load_record(run).healed_ns or sys.maxsize

    def ended(self, run_id: int) -> Moment | None:
        """The operation before which the fault of a run's last step ended; None if it lasted until healing."""
        return next(reversed(load_record(RunDir(self.folder(run_id))).ended), None)

    def exchanged(self, run_id: int) -> Mapping[str, str]:
        """By node of a run's plan: the node that took its place, if it is another one."""
        return load_record(RunDir(self.folder(run_id))).exchanged

    def exits(self, run_id: int) -> list[tuple[str, int]]:
        """The nodes that died in a run, each with the time."""
        return [(exited.node, exited.t_ns) for exited in load_record(RunDir(self.folder(run_id))).exits]

    def run_alone(self, slots: Sequence[Slot], at: str = "", not_at: str = "") -> list[JudgedRun]:
        """Run a round one plan at a time, without regard to the limits of the session. `at` and `not_at` are as in
        `Conditions`."""
        begun = time.monotonic()
        results = [self.run_slot(slot, at=at, not_at=not_at) for slot in slots]
        self._store.finish_round(slots[0].round_index, time.monotonic() - begun)
        return results

    def run_slot(
        self, slot: Slot, *, alone: bool = True, after: int = 0, at: str = "", not_at: str = ""
    ) -> JudgedRun:
        """Run one plan until a run counts, at most three times; `after` is the number of earlier attempts.

        A noisy run is repeated here only if no other run is under way (`alone`); otherwise the caller repeats it later.
        """
        for attempt in range(after + 1, ATTEMPTS_MAX + 1):
            judged = self._run_once(slot, attempt, at, not_at)
            if judged.status != "broken":
                break
            self.tell("broken", f"run {judged.run} broke: {judged.reason}", run=judged.run)
            if judged.noisy and not alone:
                break
            if slot.kind is RoundKind.BASELINE and not (judged.noisy or judged.port_taken):
                break
        return judged

    def _run_once(self, slot: Slot, attempt: int, at: str, not_at: str) -> JudgedRun:
        capabilities = self._store.meta("capabilities")
        run_id = self._store.begin_run(slot)
        folder = self.folder(run_id)
        last = attempt == ATTEMPTS_MAX
        self.tell("run", str(slot.plan), run=run_id, strategy=slot.label, round=slot.kind.value)
        conditions = msgspec.structs.replace(self._conditions(slot), at=at, not_at=not_at)
        view = self._engine.runner.execute(
            folder, run_id, slot.plan, capabilities if slot.plan.steps else None, conditions
        )
        begun = time.monotonic()
        verdicts = self._judge(view, folder)
        if slot.tries:
            view = self._note_try(view, slot)
            save_record(RunDir(folder), view.record)
        noisy = False
        if noise := self._noise(view, verdicts):
            noisy = not last or slot.kind is RoundKind.CONTROL  # noise alone must not make a finding flaky
            view, verdicts = _noted(view, noise, broken=noisy), () if noisy else verdicts
            save_record(RunDir(folder), view.record)
        symptom = self._symptom(view, verdicts)
        record = view.record
        judged = JudgedRun(run_id, slot, record.status, record.reason, symptom, verdicts, attempt, noisy, record.port_taken)
        fill = last if record.status == "broken" else not self._tries_left(slot, record)
        self._store_run(slot, view, judged, check_s=time.monotonic() - begun, fill=fill)
        tidy(folder, keep_data=bool(symptom))
        data = {"run": run_id, "strategy": slot.label, "round": slot.kind.value, "status": judged.status, "symptom": symptom}
        symptoms = tuple(verdict.symptom for verdict in verdicts if verdict.answer == "fail")
        words = record.plan.words(record.timing.faults) + (f" (try {record.tries})" if record.tries > 1 else "")
        self.tell("done", words, **data, symptoms=symptoms, **self._count(judged))
        return judged

    def _note_try(self, view: RunView, slot: Slot) -> RunView:
        """A copy of the run whose record has the number of the try and says whether it was the last one."""
        view = view.with_record(msgspec.structs.replace(view.record, tries=slot.tries + 1))
        given_up = view.record.status == "not_fired" and not self._tries_left(slot, view.record)
        return _noted(view, f"given up after {slot.tries + 1} tries", broken=False) if given_up else view

    def _tries_left(self, slot: Slot, record: RunRecord) -> bool:
        """Will the plan be tried again after this run? A plan that cannot fire here is not."""
        may_fire = record.status == "not_fired" and not record.skipped and slot.kind is RoundKind.STRATEGY
        return may_fire and slot.tries + 1 < self._config.hunt.tries

    def _count(self, judged: JudgedRun) -> dict[str, Any]:
        """Add a run to the coverage; return the data for the listener. A re-run may correct the coverage but isn't announced."""
        kind = judged.slot.kind
        if self.coverage is None or judged.status == "broken" or kind not in (RoundKind.STRATEGY, RoundKind.CONFIRM):
            return {}
        with self._counting:
            for experiment in self._store.experiments(judged.run):
                self.coverage.add(experiment)
            return {"coverage": self.coverage.reached} if kind is RoundKind.STRATEGY else {}

    def _judge(self, view: RunView, folder: Path) -> tuple[Verdict, ...]:
        return check_all(view, self.checkers, lambda: self._engine.user_checks(folder))

    def _conditions(self, slot: Slot) -> Conditions:
        """Re-runs get the long wait, and their agents observe everything that could explain a hang. A realism check only measures
        one operation, so it has the usual limits. Everything that decides about a suspicion runs at speed 1."""
        if slot.kind is RoundKind.REALISM:
            return Conditions(observe_all=True, slow_s=self._config.hunt.realism_s)
        if slot.kind is RoundKind.SURVEY:
            return Conditions(observe_all=True, survey=True, speed=self._config.run.speed)
        if slot.kind not in _PATIENT:
            learnt_from = slot.kind in LEARNT_FROM
            asked = self._asked if learnt_from else self._store.meta(_WISHES, {}).get(slot.strategy, ())
            return Conditions(
                observe_all=self._traced_always or bool(asked),
                heap="heap" in asked,
                content="content" in asked,
                labels="labels" in asked and slot.kind is RoundKind.BASELINE and not self._without_labels,
                speed=self._config.run.speed,
            )
        return Conditions(patience_s=self._config.run.patience_s, observe_all=True)

    def _noise(self, view: RunView, verdicts: Sequence[Verdict]) -> str:
        """The reason why a busy machine, or slow agents, may have made the run fail or not fire; "" if there is none."""
        if view.record.conditions.labels and (view.record.status == "broken" or symptom_of(verdicts)):
            self._without_labels = True
            why = symptom_of(verdicts) or view.record.reason
            return f"with labels, which slow the target down, the run fails: {why}. The next runs have none"
        late_ms = view.record.timing.late_ms_max
        if late_ms <= 1000 * self._config.run.late_s_max or view.record.status == "broken":
            return ""
        fails = any(verdict.answer == "fail" for verdict in verdicts)
        return f"noisy: the machine was {late_ms:.0f} ms late" if fails or view.record.status == "not_fired" else ""

    def _symptom(self, view: RunView, verdicts: Sequence[Verdict]) -> str:
        """The symptom that a run is grouped by; "" if it passed. A run that fails although nothing fired shows a flaky
        workload, not a bug. A run with a slow device shows only how long an operation takes."""
        symptom = symptom_of(verdicts)
        fired = bool(landings(view.record))
        if symptom and not fired and view.plan.steps:
            self.tell("warning", f"run {view.record.id} failed although no fault fired, so it is flaky: {symptom}")
        return symptom if fired and not view.record.conditions.slow_s else ""

    def _store_run(self, slot: Slot, view: RunView, judged: JudgedRun, check_s: float, fill: bool) -> None:
        timing = view.record.timing
        timing = msgspec.structs.replace(
            timing, check_s=check_s, total_s=timing.total_s + check_s, own_s=timing.own_s + check_s
        )
        record = msgspec.structs.replace(view.record, timing=timing)
        seen: Sequence[PointSeen] = ()
        if record.status != "broken":
            since_ns = record.moments[-1].t_ns if record.moments else 0
            seen = points_of(view.trace, view.history, record.healed_ns, since_ns)
        self._store.finish_run(slot, record, judged.verdicts, judged.symptom, seen, _fired(view), fill=fill)

    def recheck(self) -> int:
        """Judge every stored run again, after a checker was edited; return how many runs have other verdicts."""
        changed = 0
        for row in self._store.run_rows():
            if row["status"] == "broken":
                continue
            folder = self.folder(row["run"])
            try:
                view = load_view(RunDir(folder))
            except UserError as error:
                self.tell("broken", str(error), run=row["run"])
                continue
            verdicts = self._judge(view, folder)
            symptom = self._symptom(view, verdicts)
            if unranked(verdicts) != unranked(self._store.verdicts(row["run"])):
                changed += 1
                self._store.replace_verdicts(row["run"], verdicts, symptom)
                kind: RoundKind = row["kind"]
                data = {"run": row["run"], "strategy": row["strategy"] or kind.value, "round": kind.value}
                self.tell("done", row["plan"].words(row["lasted"]), **data, status=row["status"], symptom=symptom)
        return changed

    def tell(self, kind: str, text: str, **data: Any) -> None:
        self._listen(Notice(kind, text, data))


def _noted(view: RunView, note: str, *, broken: bool) -> RunView:
    """A copy of the run whose record names the note as a reason."""
    reason = note if broken else "; ".join(filter(None, (view.record.reason, note)))
    record = msgspec.structs.replace(view.record, reason=reason, status="broken" if broken else view.record.status)
    return view.with_record(record)


def _served_ns(history: Sequence[Op]) -> int:
    """When the first operation of a client began."""
    return min((op.start_ns for op in history), default=sys.maxsize)


def _fired(view: RunView) -> list[FiredStep]:
    """The steps that took effect; a damaged receipt may name a step that does not exist.

    If the plan does not name the whole point, the point is the one that the run reached.
    """
    rows = []
    proven = {receipt.step for receipt in view.receipts if receipt.proves}
    moments = {moment.step: moment for moment in reversed(view.record.moments)}
    served_ns = _served_ns(view.history)
    for number, step in enumerate(view.plan.steps):
        if number not in proven:
            continue
        at, moment = final_at(step.trigger), moments.get(number)
        point = moment.point if moment else None
        if at is not None and len(at.point.items) >= len(KEYS) and not (point and point.get(CONTENT)):
            point = at.point
        detail = msgspec.json.encode(step.fault).decode()
        serving = any(one.step == number and one.t_ns >= served_ns for one in view.record.moments)
        numbers = json.dumps(_numbers(view, step, moment, moments.get(number - 1)) if moment else ())
        rows.append(FiredStep(number, point.id if point else "", fault_kind(step.fault), detail, serving, numbers))
    return rows


def _numbers(view: RunView, step: Step, moment: Moment, before: Moment | None) -> tuple[int, ...]:
    """The numbers of the occurrence at which the step fired (see `LandedStep`). A trigger `At` has counted one of them itself. A
    state, or an unseen point, has no number: the point at which it fires is an accident."""
    at = final_at(step.trigger)
    if at is None or (moment.step and before is None):
        return ()
    found = numbers_of(view.trace, moment, at.place, before.t_ns if before else 0)
    if not isinstance(step.trigger, At):
        return found
    named = [moment.point.abstract_in(keys) == at.point for keys in COUNTED_KEYS]
    return tuple(at.nth if is_named else number for is_named, number in zip(named, found, strict=True))
