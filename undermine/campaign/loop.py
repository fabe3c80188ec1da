"""The loop: from fault-free runs to a list of findings. Never starts a process and never reads the target's files.

The story of `Campaign.run`:

1. Open the campaign store. A run that was under way when the tool died is `broken`; its plan is run again.
2. Prepare: fault-free runs and benign runs. If no fault-free run passes, stop: no later finding could be believed.
3. Finish the re-runs that an earlier session stored but did not run. Its other plans wait for the turn of their strategy.
4. Every strategy proposes plans from history. Policies prune the plans; a round is stored *before* it runs.
5. Strategies take turns (`turns.py`): the one that finds most in a second runs its next plans, or proposes more. Every strategy
   gets one turn. Plans inside the window of a confirmed finding come last, those like a harmful one elsewhere come first.
6. Before a plan runs, its landings are compared with those of all runs. If another run has tried them, that run counts for the
   plan. Else run, judge and store it. A broken run is repeated, at most twice. So is a run that failed or did not fire while the
   machine was too busy; it is repeated while no other run is under way. A plan that did not fire is tried again in later turns.
7. A new symptom is a suspicion, also in a benign run. It is confirmed or refuted at once, one run at a time: the same plan with
   the long wait fails k of n times, the same moments without the fault 0 of n times. This may use a share of the budget.
8. Group the failing runs into findings, one for each symptom. Stop when the budget or the number of runs is used up, or no
   strategy proposes a plan. Then confirm the suspicions that wait, however long it takes.
   Run the plan of each confirmed finding on another worker, if there are several: perhaps only one machine shows it.
9. Join confirmed findings that have one cause (`findings/comparing.py`), and reduce their plans (`findings/shrink.py`) for at
   most `hunt.shrink_s`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from undermine.analysis.changed_points import ChangedPoints
from undermine.analysis.exposure.outages import long_outage, time_limits
from undermine.analysis.later_occurrences import later_occurrences, shown_in
from undermine.analysis.possible_faults import AT_REST, possible_faults_at
from undermine.campaign.confirming import Confirming
from undermine.campaign.forecast import Forecast, forecast
from undermine.campaign.helpers import Helpers
from undermine.campaign.limits import Allowance, Limits, UnderWay
from undermine.campaign.preparing import Preparing
from undermine.campaign.proposing import Proposal, Proposing
from undermine.campaign.running import LEARNT_FROM, JudgedRun, Listener, PlanRunner
from undermine.campaign.surveying import Surveying
from undermine.campaign.turns import FINDING, Gain, next_turn
from undermine.findings.grouping.suspicions import SuppressionOf
from undermine.model.errors import UserError
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import fault_kind, lacking
from undermine.model.finding import Finding
from undermine.model.point import Point
from undermine.model.predictions.landings import Landings, Tried
from undermine.model.rounds import RoundKind
from undermine.policies.pruning import ALREADY_PROPOSED
from undermine.program import calls_in
from undermine.protocols import (
    Checker,
    Counted,
    Follows,
    History,
    Later,
    Needs,
    PastRun,
    PointSeen,
    PossibleFault,
    Profile,
    Remarks,
    Strategy,
    TargetProgram,
)
from undermine.run.engine import Engine
from undermine.store.database import CampaignStore, Slot
from undermine.store.rundir import tidy
from undermine.store.stored_plans import note_counted_only, note_totals

PossibleFaultsAt = Callable[[Sequence[Point]], tuple[PossibleFault, ...]]


_LONG_OUTAGE = "long_outage_s"
"""The key under which the store keeps the duration of long outages."""
_BEFORE_HANG = 0.9
_BATCHES_ALONE = 4
"""The number of batches that one turn runs if there is only one strategy. Runs wait for each other only at the end of a turn."""


_LOOKED_AT = 1000
"""The number of waiting plans of a strategy among which confirmed findings choose the next ones."""


class Reachable(msgspec.Struct, frozen=True):
    """The points of the fault-free runs, the number of these runs, and the faults that are possible there and elsewhere."""

    points: tuple[PointSeen, ...]
    runs: int
    profile: Profile
    possible_faults: tuple[PossibleFault, ...]
    possible_faults_at: PossibleFaultsAt
    changed: ChangedPoints
    later: dict[Point, Later] = {}


class Campaign:
    """One campaign over one store."""

    def __init__(
        self,
        engine: Engine,
        store: CampaignStore,
        strategies: Sequence[Strategy],
        checkers: Sequence[Checker],
        listener: Listener,
        suppression_of: SuppressionOf = lambda _: "",
        helpers: Helpers = Helpers(),  # noqa: B008 - frozen
    ) -> None:
        self.plan_runner = PlanRunner(engine, store, checkers, listener)
        self.preparing = Preparing(engine, store, self.plan_runner, self.fault_limits, helpers.catch_up)
        self.surveying = Surveying(engine.config, store, self.plan_runner)
        self.confirming = Confirming(engine, store, self.plan_runner, suppression_of)
        self.proposing = Proposing(engine, store)
        self._engine = engine
        self._config = engine.config
        self._store = store
        self._strategies = list(strategies)
        # with several steps, any run may be extended by any strategy
        self.plan_runner.ask(strategies, traced_always=self._config.hunt.steps > 1)
        self._helpers = helpers
        self._reachable: tuple[tuple[int, FaultLimits], Reachable] | None = None
        self._programs: dict[tuple[int | str, ...], TargetProgram] = {}
        self._tried = Landings(fires_at=self.plan_runner.fires_at)
        self._reading = threading.Lock()

    # --- the loop

    def run(self, limits: Limits) -> tuple[Finding, ...]:
        """Run one session of the campaign; return all findings."""
        allowance = Allowance(limits)
        self.confirming.begin(limits.budget_s)
        if interrupted := self._store.interrupted():
            for run in interrupted:
                tidy(self.plan_runner.folder(run), keep_data=False)
            self.plan_runner.tell("resume", f"{len(interrupted)} interrupted run(s) will be run again")
        self.preparing.run()
        self._measure()
        self._tell_changed()
        self._finish_open()
        self.confirming.run()
        self._first_rounds(limits.asked)
        for line in self._forecast_of_session(msgspec.structs.replace(limits, budget_s=allowance.left_s)).words:
            self.plan_runner.tell("forecast", line)
        exhausted: set[str] = set()
        while not allowance.out_of_runs:
            strategy = self._next_strategy(exhausted, owed_only=allowance.out_of_time)
            if strategy is None:
                break
            slots = self._next_slots(strategy, limits.asked, allowance)
            if not slots:
                exhausted.add(strategy.name)
                continue
            self._run_some(slots, limits, allowance)
            exhausted -= {each.name for each in self._strategies if isinstance(each, Follows) and each.follows}
        self.confirming.catch_up()
        self.confirming.compare_workers()
        self.confirming.compare()
        return self.confirming.shrink()

    def _first_rounds(self, batch: int) -> None:
        """Ask each strategy for its first plans before any of them runs, so that reasons of several strategies can meet."""
        for strategy in self._strategies:
            if not self._store.rounds_of(strategy.name):
                self._announce(strategy, self.propose(strategy, batch), batch)

    def _forecast_of_session(self, limits: Limits) -> Forecast:
        """The forecast for the plans that are stored now."""
        waiting = {name: still for kind, name, _, still, _ in self._store.planned() if kind is RoundKind.STRATEGY}
        return self.forecast({s.name: waiting.get(s.name, 0) for s in self._strategies}, limits)

    def forecast(self, proposed: Mapping[str, int], limits: Limits) -> Forecast:
        """How many of its plans each strategy will reach. `proposed` has the number of plans that each proposes now. Stores the
        totals of strategies that propose a few at a time, for `undermine plan --campaign`."""
        totals = {s.name: s.total(self.history_of(s, 1)) for s in self._strategies if isinstance(s, Counted)}
        note_totals(self._store, totals)
        plans = {s.name: totals[s.name] if s.name in totals else proposed[s.name] for s in self._strategies}
        rows = self._store.run_rows()
        runs_s = [row["timing"]["total_s"] for row in rows if row["timing"] and row["kind"] in LEARNT_FROM]
        return forecast(plans, runs_s, limits.budget_s, self._config.hunt.confirm_share, limits.jobs)

    def _announce(self, strategy: Strategy, slots: Sequence[Slot], batch: int) -> None:
        if len(slots) > batch:
            why = f" ({slots[0].plan.why})" if slots[0].plan.why else ""
            self.plan_runner.tell("round", f"{strategy.name}: {len(slots):,} plans to run{why}")

    def baseline(self) -> None:
        """Make only the fault-free runs; raise a `ClusterError` if none passes."""
        self.preparing.fault_free()

    def refuse_unusable(self) -> None:
        """Raise a `UserError` if a strategy names a policy that cannot be used, or needs faults that are not possible here."""
        self.proposing.refuse_unknown(self._strategies)
        for strategy in self._strategies:
            for option, fault in strategy.needs.items() if isinstance(strategy, Needs) else ():
                if why := lacking(fault, self._engine.runner.features):
                    raise UserError(f"{self._config.where(f'strategies.{strategy.name}.{option}')}: {why}")

    def possible_faults(self) -> tuple[PossibleFault, ...]:
        """The faults that are possible at points of the fault-free runs, and those that are not, with the reason."""
        return self._from_fault_free_runs().possible_faults

    def _measure(self) -> None:
        reached = self.plan_runner.measure().reached
        if reached.runs:
            self.plan_runner.tell("coverage", f"{reached.runs} experiments so far", coverage=reached)

    def _tell_changed(self) -> None:
        """Say how much of what fault-free runs showed is below changed functions, if the user asked for them."""
        if since := self._helpers.changed.since:
            number, found = len(self._helpers.changed), self._from_fault_free_runs().changed
            what = "function has" if number == 1 else "functions have"
            text = f"{number:,} {what} changed since {since}; {found.number:,} of {found.of:,} points are in or below them"
            self.plan_runner.tell("remark", text + (" and come first" if found.number else ""))

    def _next_strategy(self, exhausted: set[str], *, owed_only: bool) -> Strategy | None:
        """The strategy that has the next turn. With `owed_only`, only strategies that have had none are asked."""
        used = {name: seconds for name, seconds in self._store.used_s().items() if seconds}
        left = {s.name: s for s in self._strategies if s.name not in exhausted and not (owed_only and s.name in used)}
        name = next_turn(list(left), used, self._gains())
        return left[name] if name else None

    def _gains(self) -> list[Gain]:
        """The gain of each experiment so far: new recovery classes and locations, and first sights of bugs."""
        first_seen = {finding.runs[0] for finding in self._store.findings() if finding.believed and finding.runs}
        gains = self.plan_runner.coverage.gains if self.plan_runner.coverage else {}
        return [Gain(name, gain + FINDING * (run in first_seen)) for run, (name, gain) in gains.items()]

    def _next_slots(self, strategy: Strategy, batch: int, allowance: Allowance) -> list[Slot]:
        """The strategy's stored plans that were not run yet; if there are none, its next proposals. After each batch, one plan
        that did not fire is tried again; if nothing else is left, more of them."""
        most = batch if len(self._strategies) > 1 else _BATCHES_ALONE * batch
        again = self._uncovered(self._store.open_slots(strategy.name, tried=True))  # first: proposals depend on the results
        waiting = self._store.open_slots(strategy.name, max(most, _LOOKED_AT), tried=False)
        fresh = self._uncovered(self.confirming.promising(waiting)[:most])
        if not fresh:
            had_one = bool(self._store.rounds_of(strategy.name))
            fresh = self.propose(strategy, batch, lambda: had_one and allowance.out_of_time)
            self._announce(strategy, fresh, batch)
        return _with_retries(fresh[:most], again, batch) if fresh else again[:most]

    def _uncovered(self, slots: Iterable[Slot]) -> list[Slot]:
        """The slots whose plans no other run has tried. The others are filled with the run that has."""
        landings = self._landings()
        left: list[Slot] = []
        covered: list[tuple[Slot, Tried]] = []
        for slot in slots:
            if tried := landings.of(slot.plan):
                self._store.cover(slot, tried.run)
                covered.append((slot, tried))
            else:
                left.append(slot)
        if covered:
            slot, tried = covered[0]
            text = f"{slot.strategy}: run {tried.run} of {tried.strategy} has tried {slot.plan}"
            text += f", and other runs {len(covered) - 1:,} more of its plans" if len(covered) > 1 else ""
            self.plan_runner.tell("covered", text, strategy=slot.strategy, plans=len(covered))
        return left

    def _landings(self) -> Landings:
        """The landings of all runs so far."""
        with self._reading:
            for tried in self._store.tried(self._tried):
                self._tried.add(tried)
            return self._tried

    def history_of(self, strategy: Strategy, batch: int) -> History:
        reachable = self._from_fault_free_runs()
        return History(
            points=reachable.points,
            baseline_runs=reachable.runs,
            possible_faults=reachable.possible_faults,
            runs=self._store.past_runs(strategy.name),
            settled=self._store.settled(strategy.name),
            round_index=self._store.rounds_of(strategy.name),
            seed=self._config.hunt.seed,
            batch=batch,
            steps_max=self._config.faults.max_steps,
            baseline=reachable.profile,
            profile=self._store.profile,
            possible_faults_at=reachable.possible_faults_at,
            frames=self._store.frames,
            fault_free=self._store.fault_free(),
            columns=self.plan_runner.columns,
            fired_ns=self.plan_runner.fired_ns,
            ended=self.plan_runner.ended,
            exchanged=self.plan_runner.exchanged,
            exits=self.plan_runner.exits,
            served=self.plan_runner.served,
            metadata=self._config.metadata,
            program=self._program,
            delay_s=self._config.faults.delay_s,
            is_long=self.fault_limits().is_long,
            later=reachable.later,
            landings=self._landings(),
            others=self._others,
            faulty=self.preparing.went_well,
            changed=reachable.changed.hit_by,
        )

    def _others(self) -> tuple[PastRun, ...]:
        return tuple(run for run in self._store.past_runs(kind=RoundKind.STRATEGY) if not run.covered)

    def _program(self, folders: Sequence[str]) -> TargetProgram:
        """The target's program, as the nodes of the newest fault-free run that passed would find it. It is read once."""
        key: tuple[int | str, ...] = (self._store.baselines(), *folders)
        if key not in self._programs:
            stacks = (self.plan_runner.columns(run).stacks for run in self._store.fault_free())
            observed = sorted({call for each in stacks for call in calls_in(each)})
            self._programs[key] = self._helpers.read_program(self.preparing.newest, folders, observed)
        return self._programs[key]

    def _from_fault_free_runs(self) -> Reachable:
        """The points of the fault-free runs and the faults that are possible there. Cached until there are more such runs."""
        self._learn_long_outage()
        key = (self._store.baselines(), self.fault_limits())
        if self._reachable is None or self._reachable[0] != key:
            points, runs = self._store.baseline_points()
            profile, at = self._store.baseline_profile(), possible_faults_at(key[1])
            possible = at([AT_REST, *(seen.point for seen in points)])
            changed = ChangedPoints(self._helpers.changed, points, self._store.frames)
            self._reachable = key, Reachable(points, runs, profile, possible, at, changed, self._later())
        return self._reachable[1]

    def _learn_long_outage(self) -> None:
        """Decide once how long nodes are down in long outages, and say so. A longer one than `run.hang_s` would not be an outage
        that ends, since everything is healed if clients make no progress for that time."""
        faults, hang_s, runs = self._config.faults, self._config.run.hang_s, self._store.fault_free()
        if self._store.meta(_LONG_OUTAGE) is not None or not (faults.outage_s_max and runs):
            return
        limits = time_limits(map(self.plan_runner.columns, runs), self._program(()))
        found = long_outage(limits, min(faults.outage_s_max, hang_s * _BEFORE_HANG), faults.delay_s)
        cut = f"; {found.cut} (see faults.outage_s_max and run.hang_s)" if found.cut else ""
        self.plan_runner.tell("remark", f"long outages last {found.seconds:g} s: {found.why}{cut}")
        self._store.set_meta(_LONG_OUTAGE, found.seconds)

    def _later(self) -> dict[Point, Later]:
        """The later occurrences of points that are worth a try."""
        contents = self.preparing.contents
        runs = ((self.plan_runner.learnt_columns(run), self.plan_runner.served(run)[1]) for run in self._store.fault_free())
        return later_occurrences(shown_in(columns, contents, healed_ns) for columns, healed_ns in runs)

    def fault_limits(self) -> FaultLimits:
        """The user's limits, with the abilities of the agents and the deployment."""
        faults = self._config.faults
        shared = set(faults.__struct_fields__) & set(FaultLimits.__struct_fields__) - {"groups"}
        return FaultLimits(
            **{name: getattr(faults, name) for name in shared},
            long_outage_s=min(self._store.meta(_LONG_OUTAGE, 0.0), faults.outage_s_max),
            groups=tuple(self._config.group(name) for name in faults.groups),
            capabilities={n: tuple(c) for n, c in self._store.meta("capabilities", {}).items()},
            node_roles=self._config.node_roles,
            features=self._engine.runner.features,
        )

    def propose(self, strategy: Strategy, batch: int, over: Callable[[], bool] = lambda: False) -> list[Slot]:
        """Prune and store the strategy's next plans. Dropped plans are stored with their rule and not proposed again.

        If a representative did not fire, another plan of its class is run first. The strategy is asked again while other runs
        have tried all that it proposes, until the session is `over`.
        """
        if plans := self.proposing.instead(strategy):
            return self._store.write_round(strategy.name, plans)
        while not over():
            proposal = self.ask(strategy, batch)
            pruned = proposal.pruned
            note_counted_only(self._store, strategy.name, pruned)
            dropped = [one for one in pruned.dropped if one.rule != ALREADY_PROPOSED]  # those have a slot
            if pruned.kept:
                slots = self._store.write_round(strategy.name, pruned.kept, dropped, proposal.reasons)
                if left := self._uncovered(slots):
                    return left
                self._store.spend(slots[0].round_index, 0.0)
            elif not self._store.write_dropped(dropped):
                break
        return []

    def ask(self, strategy: Strategy, batch: int) -> Proposal:
        """The plans that the strategy proposes now, pruned, with its reasons. The listener gets its remarks."""
        proposal = self.proposing.ask(strategy, self.history_of(strategy, batch))
        self.plan_runner.note_wishes(strategy)
        for remark in strategy.remarks() if isinstance(strategy, Remarks) else ():
            self.plan_runner.tell("remark", f"{strategy.name}: {remark}", strategy=strategy.name)
        return proposal

    # --- runs

    def _finish_open(self) -> None:
        """Run the re-runs and fault-free runs that an earlier session stored, in order. Plans of strategies wait for their turn,
        or for a session with their strategy."""
        rounds: dict[int, list[Slot]] = {}
        for slot in self._store.open_slots():
            if slot.kind is not RoundKind.STRATEGY:
                rounds.setdefault(slot.round_index, []).append(slot)
        for slots in rounds.values():
            self.plan_runner.run_alone(slots)

    def _run_some(self, slots: Sequence[Slot], limits: Limits, allowance: Allowance) -> None:
        """Run plans of one round, as many at a time as the engine has places, until one shows a new symptom. That is confirmed
        before more plans run, if the share of re-runs allows it. Each strategy gets one run even if the time is over."""
        begun = time.monotonic()
        places = self._engine.places(limits.jobs)
        sure_of_one = not self._store.has_run(slots[0].strategy)
        findings = self._store.findings()
        suspicious = threading.Event()
        under_way = UnderWay()

        def run(slot: Slot) -> JudgedRun | None:
            sure = sure_of_one and slot is slots[0]
            with under_way.reserved(slot.plan) as free:
                if suspicious.is_set() or not free or not self._uncovered([slot]) or not allowance.take(sure=sure):
                    return None
                judged = self.plan_runner.run_slot(slot, alone=places == 1)
            if judged.symptom and not judged.noisy and not _known(judged, findings):
                suspicious.set()
            return judged

        results = [run(slot) for slot in slots] if places == 1 else self._side_by_side(run, slots, places)
        results = [self._repeat(judged) if judged and judged.noisy else judged for judged in results]
        self._spend([judged.slot for judged in results if judged] or [slots[0]], time.monotonic() - begun)
        if any(judged and judged.symptom for judged in results):
            self._uncovered(self._store.open_slots(kind=RoundKind.STRATEGY, tried=False))  # a finding has the reasons of all
            self.confirming.run()

    def _repeat(self, noisy: JudgedRun) -> JudgedRun:
        """Run the plan of a noisy run again, unless another run of this turn has tried it."""
        return self.plan_runner.run_slot(noisy.slot, after=noisy.attempt) if self._uncovered([noisy.slot]) else noisy

    def _spend(self, slots: Sequence[Slot], used_s: float) -> None:
        """Divide the time among the rounds of these slots."""
        for round_index, count in Counter(slot.round_index for slot in slots).items():
            self._store.spend(round_index, used_s * count / len(slots))

    def _side_by_side(
        self, run: Callable[[Slot], JudgedRun | None], slots: Sequence[Slot], places: int
    ) -> list[JudgedRun | None]:
        """Run the plans in threads. If the user interrupts, stop the runs that are under way at once."""
        with ThreadPoolExecutor(places) as pool:
            try:
                return list(pool.map(run, slots))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._engine.abort()
                raise

    # --- results

    def findings(self) -> tuple[Finding, ...]:
        """Group the failing runs so far into findings and store them."""
        return self.confirming.findings()


def _with_retries(fresh: Sequence[Slot], again: Sequence[Slot], batch: int) -> list[Slot]:
    """The fresh plans, and after each batch of them one that is tried again. A hunt may end before the turn does."""
    chosen: list[Slot] = []
    for number, begin in enumerate(range(0, len(fresh), batch)):
        chosen += [*fresh[begin : begin + batch], *again[number : number + 1]]
    return chosen


def _known(judged: JudgedRun, findings: Sequence[Finding]) -> bool:
    """Has the same symptom come before, with the same kinds of faults? With other kinds, it may be another finding."""
    kinds = {fault_kind(step.fault) for step in judged.slot.plan.steps}
    return any(finding.symptom == judged.symptom and kinds <= set(finding.faults) for finding in findings)
