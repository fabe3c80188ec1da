"""Re-runs plans that showed a new symptom, with the fault and without it. `findings/confirm.py` decides what is confirmed.

The story of `Confirming.run`, for each symptom that is still undecided:

1. If the plan that first showed it has a delay, it is run with a slow device instead (`findings/realism.py`), unless that
   operation was measured before. If the slow device does not delay the operation, the plan is dropped, and other plans that
   showed the symptom are tried.
2. The plan is run again, alone and with the long wait, until enough runs have fired at the same points.
3. If none of them fails, the target recovers by itself, or the failure was chance. Then other plans that showed the symptom are
   tried.
4. If one fails, its control is run as often: the same moments without the faults. If a control fails, the symptom is flaky.

If the hunt has several workers, all of this runs on the one that showed the symptom. `Confirming.compare_workers` then runs the
plan on another one.

Afterwards, `Confirming.compare` runs the fault of one confirmed finding at the moment of another one with the same symptom
(`findings/comparing.py`). `Confirming.shrink` runs other plans of the findings that fail too rarely, then smaller plans
(`findings/shrink.py`), and the fault of each smallest plan at other moments (`findings/bounds.py`).

The next re-run is computed from the campaign store. So `run` may stop between two re-runs, and a later call, or a resumed
campaign, continues there. Meanwhile the finding is stored as undecided: suspected, to be confirmed.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import cache
from itertools import permutations

import msgspec

from undermine.campaign.running import PlanRunner
from undermine.checkers.compose import symptoms_of
from undermine.findings.bounds import Bounded, Trail, trail
from undermine.findings.circumstances import all_circumstances
from undermine.findings.comparing import Comparison, next_comparison
from undermine.findings.confirm import Attempt, Rerun, best, next_rerun
from undermine.findings.explaining import window_words
from undermine.findings.grouping.suspicions import SuppressionOf, Suspicion, suspicions
from undermine.findings.shrink import Shrunk, Workload
from undermine.findings.windows import Explored, Position, Windows
from undermine.inject.compile import unsupported
from undermine.model.errors import UserError
from undermine.model.finding import Finding, LandedRun
from undermine.model.plan import Plan, place_of
from undermine.model.point import Point
from undermine.model.rounds import RoundKind
from undermine.run.engine import Engine
from undermine.store.database import CampaignStore, Slot
from undermine.store.rundir import RunDir, load_record

_SEARCHES = {RoundKind.SHRINK: ("shrinking", "shrunk"), RoundKind.BOUNDS: ("bounding", "bounded")}
"""By kind of round: the kinds of the notices before each run, and at the end."""


_MOVED_MAX = 2
"""How often the plan of a finding is run on other workers until one run counts."""


class Confirming:
    """Confirms the suspicions of one campaign, one plan at a time.

    While experiments wait, call `run`: it stops when the re-runs of this session have used their share of its budget. At the end,
    call `catch_up`.
    """

    def __init__(
        self,
        engine: Engine,
        store: CampaignStore,
        plan_runner: PlanRunner,
        suppression_of: SuppressionOf = lambda _: "",
    ) -> None:
        self._engine = engine
        self._config = engine.config
        self._store = store
        self._plan_runner = plan_runner
        self._suppression_of = suppression_of
        self._announced: set[str] = set()
        """The symptoms that were announced as waiting."""
        self._trails = cache(self._read_trail)
        self._operations = cache(self._read_operations)
        self._end_s = math.inf
        """The seconds of re-runs in this campaign after which `run` stops."""

    def begin(self, budget_s: float) -> None:
        """Begin a session with this budget."""
        self._end_s = self._store.reruns_s() + self._config.hunt.confirm_share * budget_s

    def run(self) -> tuple[Finding, ...]:
        """Confirm or refute the suspicions so far, as far as the share of the budget allows; return all findings."""
        return self._confirm(lambda: self._store.reruns_s() < self._end_s)

    def catch_up(self) -> tuple[Finding, ...]:
        """Confirm or refute every suspicion so far, however long it takes; return all findings."""
        return self._confirm(lambda: True)

    def compare(self) -> tuple[Finding, ...]:
        """Find out which confirmed findings with one symptom have one cause; return all findings, with these joined."""
        suspected = self._suspicions()
        while todo := self._next_comparison(suspected):
            one, other = todo.fault_of.finding, todo.moment_of.finding
            self._tell("comparing", f"{todo.plan}, as for {one.id}", other, round=RoundKind.COMPARE.value)
            self._run(RoundKind.COMPARE, todo.plan, suspected, other.name)
            suspected = self._suspicions()
            for gone, kept in permutations((one, other)):
                if not _named(suspected, gone.name):
                    self._tell("joined", f"has one cause with {kept.id}", gone)
        return self._store_findings(suspected)

    def _next_comparison(self, suspected: Sequence[Suspicion]) -> Comparison | None:
        confirmed = [each for each in suspected if self._is_confirmed(each)]
        made: dict[str, list[LandedRun]] = {}
        for run in self._store.landed_runs():
            if run.kind is RoundKind.COMPARE:
                made.setdefault(run.plan_id, []).append(run)
        return next_comparison(confirmed, lambda plan: made.get(plan.id, ()), self._config.node_roles)

    def compare_workers(self) -> tuple[Finding, ...]:
        """Run the plan of each confirmed finding on another worker than the one that showed it, if there are several; return all
        findings. One run decides, unless its faults fire elsewhere."""
        suspected = self._suspicions()
        for name in [each.finding.name for each in suspected]:
            while (
                (suspicion := _named(suspected, name))
                and self._is_confirmed(suspicion)
                and (attempt := best(suspicion.attempts)).moved < _MOVED_MAX
                and len({*attempt.shown_on, *attempt.passed_on}) == 1
                and (others := set(self._engine.workers) - {attempt.first.worker})
            ):
                what = f"on one of {len(others)} other worker(s)"
                self._tell("comparing", what, suspicion.finding, round=RoundKind.WORKER.value)
                self._run_at(RoundKind.WORKER, attempt.plan, "", attempt.first.worker)
                suspected = self._suspicions()
        return self._store_findings(suspected)

    def _is_confirmed(self, suspicion: Suspicion) -> bool:
        """Is it decided, and a bug?"""
        finding = suspicion.finding
        return finding.confirmed and not finding.ruled_out and not self._next_rerun(suspicion)

    def shrink(self) -> tuple[Finding, ...]:
        """For the confirmed findings, look for plans that fail more reliably, then run plans with smaller faults, then look for
        the window of each, then try smaller workloads. Stop when the time for all this is over; return all findings."""
        end_s = time.monotonic() + self._config.hunt.shrink_s
        suspected = self._search(self._find_reliable(end_s), RoundKind.SHRINK, self._smaller_faults, end_s)
        suspected = self._search(suspected, RoundKind.BOUNDS, self._moved, end_s)
        return self._store_findings(self._search(suspected, RoundKind.SHRINK, self._smaller, end_s))

    def _find_reliable(self, end_s: float) -> tuple[Suspicion, ...]:
        """Re-run other plans of the confirmed findings that fail in too few of their re-runs."""
        suspected = self._suspicions()
        for name in [each.finding.name for each in suspected if self._is_confirmed(each)]:
            while (
                (suspicion := _named(suspected, name))
                and (todo := self._next_rerun(suspicion, reliable=True))
                and time.monotonic() < end_s
            ):
                self._rerun(suspicion, *todo)
                suspected = self._suspicions()
        return suspected

    def _search(
        self, suspected: tuple[Suspicion, ...], kind: RoundKind, next_plan: Callable[[Suspicion], Plan | None], end_s: float
    ) -> tuple[Suspicion, ...]:
        """Run plans for one finding after the other until none is left to run or the time is over."""
        searching, found = _SEARCHES[kind]
        for name in [each.finding.name for each in suspected]:
            begun = False
            while (suspicion := _named(suspected, name)) and (todo := next_plan(suspicion)) and time.monotonic() < end_s:
                self._tell(searching, f"trying {todo}", suspicion.finding, round=kind.value)
                self._run(kind, todo, suspected, name)
                begun, suspected = True, self._suspicions()
            if begun:
                self._store_findings(suspected)  # for a report that is written meanwhile
            if begun and suspicion and not next_plan(suspicion):
                finding = self._finding(suspicion)
                smallest, window = finding.smallest or finding.plan, window_words(finding) or "not found"
                self._tell(found, f"smallest plan: {smallest}" if kind is RoundKind.SHRINK else f"window: {window}", finding)
        return suspected

    def _smaller_faults(self, suspicion: Suspicion) -> Plan | None:
        """The next plan with smaller faults to run; None if none is left."""
        todo = self._smaller(suspicion)
        return None if todo is None or todo.work else todo

    def _smaller(self, suspicion: Suspicion) -> Plan | None:
        """The next smaller plan to run; None if the finding isn't confirmed, or nothing smaller is left to try."""
        reduced = self._shrunk(suspicion)
        return reduced.todo if reduced else None

    def _shrunk(self, suspicion: Suspicion) -> Shrunk | None:
        """The smallest plan so far of a confirmed finding."""
        wanted, first = self._config.hunt.confirm, best(suspicion.attempts).first.run
        if not suspicion.shrunk or not wanted or not self._is_confirmed(suspicion):
            return None
        return suspicion.shrunk(wanted, workload=lambda: self._workload(first))

    def _workload(self, run: int) -> Workload:
        """What can be left out of the workload of a run. The tool cannot stop the clients of a command."""
        return Workload(self._config.parts, 0 if self._config.workload.command else self._operations(run))

    def _read_operations(self, run: int) -> int:
        """The most operations that a client of a run made."""
        try:
            history = self._plan_runner.view(run).history
        except UserError:  # its folder is gone
            return 0
        return max(Counter(op.client for op in history if op.phase == "workload").values(), default=0)

    def _moved(self, suspicion: Suspicion) -> Plan | None:
        """The next plan to run in search of the window; None if it is known, or if smaller faults are left to try."""
        return self._bounded(suspicion).todo

    def _bounded(self, suspicion: Suspicion) -> Bounded:
        smallest = self._shrunk(suspicion)
        if smallest is None or smallest.of_faults is None or suspicion.bounded is None:
            return Bounded()
        wanted, rate = self._config.hunt.confirm, smallest.rate_of_faults
        return suspicion.bounded(smallest.of_faults, rate, wanted, trail_of=self._trails)

    def _read_trail(self, control: LandedRun) -> Trail | None:
        """The operations around the moment at which a control held last."""
        last = len(control.plan.steps) - 1
        try:
            record = load_record(RunDir(self._plan_runner.folder(control.run)))
        except UserError:  # its folder is gone
            return None
        fired = {moment.step: moment for moment in reversed(record.moments)}
        if last not in fired:
            return None
        armed_ns = fired[last - 1].t_ns if last - 1 in fired else 0
        columns, place = self._plan_runner.columns(control.run), place_of(control.plan.steps[last].trigger)
        return trail(columns, fired[last], place, armed_ns, record.healed_ns)

    def _confirm(self, may: Callable[[], bool]) -> tuple[Finding, ...]:
        """Make re-runs until everything is decided, or `may`, which is asked before each of them, says no.

        A finding that is ruled out may leave another symptom of its runs as a new suspicion.
        """
        suspected = self._suspicions()
        while waiting := [each.finding for each in suspected if self._next_rerun(each)]:
            self._store_findings(suspected)
            if not may():
                self._announce(waiting)
                break
            self._decide(waiting[0].name, may)
            suspected = self._suspicions()
        return self._store_findings(suspected)

    def findings(self) -> tuple[Finding, ...]:
        """Group the failing runs so far into findings and store them."""
        return self._store_findings(self._suspicions())

    def _store_findings(self, suspected: Sequence[Suspicion]) -> tuple[Finding, ...]:
        found = tuple(self._finding(suspicion) for suspicion in suspected)
        self._store.write_findings(found)
        return found

    def _finding(self, suspicion: Suspicion) -> Finding:
        """The finding, with the reasons of strategies, its smallest plan, and whether re-runs are still to come."""
        attempt = best(suspicion.attempts)
        finding = msgspec.structs.replace(
            suspicion.finding,
            undecided=self._next_rerun(suspicion) is not None,
            reasons=self._store.reasons(attempt.first.run),
            shown_on=attempt.shown_on,
            passed_on=attempt.passed_on,
        )
        finding = msgspec.structs.replace(finding, window=self._bounded(suspicion).window)
        reduced = self._shrunk(suspicion)
        if reduced is None or reduced.plan.id == finding.plan.id:
            return finding
        rate = f"{reduced.rate.hits}/{reduced.rate.tries}"
        return msgspec.structs.replace(finding, smallest=reduced.plan, smallest_rate=rate)

    def _announce(self, waiting: Sequence[Finding]) -> None:
        """Tell which suspicions wait, each of them once."""
        for finding in waiting:
            if finding.name not in self._announced:
                self._tell("waiting", "suspected, to be confirmed", finding)
        self._announced.update(finding.name for finding in waiting)

    def _tell(self, kind: str, text: str, finding: Finding, **data: object) -> None:
        self._plan_runner.tell(kind, f"{text}: {finding.name}", symptom=finding.symptom, when=finding.when, **data)

    def _decide(self, name: str, may: Callable[[], bool]) -> None:
        """Re-run plans until the suspicion with this name is decided, or time is up."""
        begun = False
        todo: tuple[Attempt, Rerun] | None = None
        while (suspicion := self._find(name)) and (todo := self._next_rerun(suspicion)) and may():
            if not begun:
                self._tell("suspect", "confirming", suspicion.finding)
                begun = True
            self._rerun(suspicion, *todo)
        if suspicion and not todo:
            kind, text = _outcome(suspicion.finding)
            self._tell(kind, text, suspicion.finding, rate=suspicion.finding.rate)

    def _rerun(self, suspicion: Suspicion, attempt: Attempt, kind: Rerun) -> None:
        """Run one plan. It is a round of its own, so that the next re-run can depend on its result."""
        finding = suspicion.finding
        if kind is RoundKind.REALISM and attempt.probe:
            self._tell("confirming", "with a slow device", finding, round=kind.value)
            self._run_at(kind, attempt.probe, attempt.first.worker)
            return
        plan, rate = (attempt.plan, attempt.again) if kind is RoundKind.CONFIRM else attempt.next_control
        number, of = rate.tries + 1, max(self._config.hunt.confirm, rate.tries + 1)
        without = "without the last fault" if attempt.last_control else "without the fault"
        what = f"{'confirming' if kind is RoundKind.CONFIRM else without} {number}/{of}"
        self._tell("confirming", what, finding, round=kind.value, number=number, of=of, hits=rate.hits)
        self._run_at(kind, plan, attempt.first.worker)

    def _run(self, kind: RoundKind, plan: Plan, suspected: Sequence[Suspicion], name: str) -> None:
        """Run a plan on the worker that showed the finding with this name first."""
        suspicion = _named(suspected, name)
        self._run_at(kind, plan, best(suspicion.attempts).first.worker if suspicion else "")

    def _run_at(self, kind: RoundKind, plan: Plan, at: str, not_at: str = "") -> None:
        slots = self._store.write_round_of(kind, [msgspec.structs.replace(plan, strategy=kind.value)])
        self._plan_runner.run_alone(slots, at, not_at)

    def _next_rerun(self, suspicion: Suspicion, *, reliable: bool = False) -> tuple[Attempt, Rerun] | None:
        """The next re-run that the suspicion needs, also to find a reliable plan, if wanted; None if it is decided."""
        if suspicion.normal or suspicion.finding.suppressed:
            return None
        wanted = self._config.hunt.confirm
        return next_rerun(suspicion.attempts, wanted, self._has_control, lasting=suspicion.lasting, reliable=reliable)

    def _has_control(self, plan: Plan) -> bool:
        """Can the control of this plan be run?"""
        capabilities = self._store.meta("capabilities")
        features, variables, nodes = self._engine.runner.features, self._config.variable_names, self._config.node_ids
        return bool(plan.steps) and not unsupported(plan.control, capabilities, features, variables, nodes)

    def _suspicions(self) -> tuple[Suspicion, ...]:
        store = self._store
        counted = [run.id for run in store.past_runs(kind=RoundKind.BASELINE) if run.status != "broken"]
        fault_free = [symptoms_of(store.verdicts(run)) for run in counted]
        lacking = self._engine.runner.lacking_devices if self._config.hunt.realism_s else None
        runs, numbers, roles = store.landed_runs(), store.finding_numbers(), self._config.node_roles
        return suspicions(
            runs,
            store.verdicts,
            numbers,
            fault_free,
            self._suppression_of,
            lacking,
            roles,
            order=lambda point: self._order(point, counted),
            harmless=store.harmless_runs,
        )

    def _order(self, point: Point, fault_free: Container[int]) -> Position | None:
        """The position of a point in the fault-free run that showed it first; None if none did, or if it is a client's."""
        seen = self._store.first_seen(point)
        if seen is None or seen.run not in fault_free or not seen.frames:
            return None
        return Position((seen.run, point.get("node"), seen.frames[-1]), seen.position, seen.times == 1)

    def promising(self, slots: Sequence[Slot]) -> list[Slot]:
        """The slots in the order in which confirmed findings suggest to run them (`Explored` in `findings/windows.py`)."""
        confirmed = [finding for finding in self._store.findings() if finding.confirmed and finding.believed]
        if not confirmed:
            return list(slots)
        counted = [run.id for run in self._store.past_runs(kind=RoundKind.BASELINE) if run.status != "broken"]
        roles = self._config.node_roles

        def order(point: Point) -> Position | None:
            return self._order(point, counted)

        windows = Windows(order, (), tuple, lambda run: all_circumstances(run, roles))
        tried = (*self._store.landed_runs(), *self._store.harmless_runs())
        experiments = [run for run in tried if run.kind in (RoundKind.STRATEGY, RoundKind.BENIGN)]
        return Explored(windows, order, confirmed, experiments).promising(slots, lambda slot: slot.plan)

    def _find(self, name: str) -> Suspicion | None:
        return _named(self._suspicions(), name)


def _named(suspected: Sequence[Suspicion], name: str) -> Suspicion | None:
    return next((each for each in suspected if each.finding.name == name), None)


def _outcome(finding: Finding) -> tuple[str, str]:
    """The kind of the notice about a decided finding, and its text."""
    if finding.flaky:
        return "flaky", f"flaky, it fails without the fault too ({finding.rate})"
    if finding.dropped:
        return "dropped", f"dropped, {finding.realism.text} ({finding.rate})"
    if finding.hits:
        return "confirmed", f"confirmed ({finding.rate})"
    if finding.tries:
        return "not reproduced", f"not reproduced, it recovers by itself or was chance ({finding.rate})"
    return "not reproduced", f"not reproduced ({finding.rate})"
