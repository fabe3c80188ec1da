"""The loop: from fault-free runs to a list of findings. Never starts a process and never looks into a target.

The story of `Campaign.run`:

1. Open the store; a run that was under way when the tool died is `broken`, its plan is still open.
2. Fault-free runs. If one fails, stop and say why: nothing found later could be believed.
3. Finish the plans that an earlier session stored but did not run.
4. Take turns by time: the strategy that has had the least proposes from history; every strategy gets one round.
5. Policies prune; the round is stored *before* it runs.
6. Run, judge and store each plan. A broken run is tried again, at most twice; so is one that failed or did not fire
   while the machine was too late with everything, and then no other run is under way.
7. A symptom not seen before is confirmed at once: the same plan again, k of n.
8. Group what failed into findings. Stop when the budget or the number of runs is used up, or nothing is proposed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from undermine.accelerator import catch_up
from undermine.analysis.chances import FaultLimits, chances, possible
from undermine.engine import Engine
from undermine.experiments import Experiments, Judged, Listener
from undermine.findings.group import group
from undermine.model.errors import ClusterError
from undermine.model.event import AgentInfo
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.policies import prune
from undermine.protocols import Checker, History, Strategy
from undermine.rundir import tidy
from undermine.store import BASELINE, CONFIRM, SPECIAL, Slot, Store


class Limits(msgspec.Struct, frozen=True):
    """How long one session of a campaign may go on."""

    budget_s: float
    runs_max: int = 0
    jobs: int = 1


class Allowance:
    """What of the limits is left in this session; asked by several threads before each run."""

    def __init__(self, limits: Limits) -> None:
        self._end = time.monotonic() + limits.budget_s
        self._runs_left = limits.runs_max or sys.maxsize
        self._lock = threading.Lock()

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() >= self._end

    @property
    def out_of_runs(self) -> bool:
        return self._runs_left <= 0

    def take(self, *, sure: bool) -> bool:
        """May a strategy's run begin? One that is `sure` of it may also when the time is over, never above the number."""
        with self._lock:
            if self.out_of_runs or (self.out_of_time and not sure):
                return False
            self._runs_left -= 1
            return True


class Campaign:
    """One campaign over one store."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        strategies: Sequence[Strategy],
        checkers: Sequence[Checker],
        listener: Listener,
    ) -> None:
        self.experiments = Experiments(engine, store, checkers, listener)
        self._engine = engine
        self._config = engine.config
        self._store = store
        self._strategies = list(strategies)
        self._known_symptoms = {symptom for _, _, symptom, _ in store.failing()}

    # --- the loop

    def run(self, limits: Limits) -> tuple[Finding, ...]:
        allowance = Allowance(limits)
        if interrupted := self._store.interrupted():
            for run in interrupted:
                tidy(self.experiments.folder(run), keep_data=False)
            self.experiments.tell("resume", f"{len(interrupted)} interrupted run(s) will be run again")
        self.baseline()
        self._finish_open(limits, allowance)
        self._confirm_forgotten()
        exhausted: set[str] = set()
        while not allowance.out_of_runs:
            strategy = self._next_strategy(exhausted, owed_only=allowance.out_of_time)
            if strategy is None:
                break
            plans = self.propose(strategy, batch=4 * limits.jobs)
            if not plans:
                exhausted.add(strategy.name)
                continue
            slots = self._store.write_round(strategy.name, plans)
            self._run_round(slots, limits, allowance)
        return self.findings()

    def baseline(self) -> None:
        """Fault-free runs, one at a time; the campaign ends here if one fails."""
        wanted = self._config.hunt.baseline_runs
        before = [run.id for run in self._store.past_runs(BASELINE) if run.status != "broken"]
        done = [run for run in before if all(v.answer != "fail" for v in self._store.verdicts(run))]
        if failed := len(before) - len(done):
            self.experiments.tell("warning", f"{failed} earlier fault-free run(s) failed: the cluster is flaky")
        begun_before = [slot for slot in self._store.open_slots() if slot.strategy == BASELINE]
        for _ in range(wanted - len(done)):
            plan = Plan(seed=self._config.hunt.seed, strategy=BASELINE, why="what a correct run looks like")
            slot = begun_before.pop() if begun_before else self._store.write_round(BASELINE, [plan])[0]
            if complaint := self._complaint(self.experiments.run_alone([slot])[0]):
                raise ClusterError(f"the cluster fails without any fault: {complaint}")
        if self._store.meta("capabilities") is None:
            agents = self._agents()
            catch_up(agents)
            capabilities = {agent.node: agent.capabilities for agent in agents}
            self._store.set_meta("capabilities", capabilities)
            self._warn_of_missing_agents(capabilities)
            points, _ = self._store.baseline_points()
            reachable = {chance.point.id for chance in possible(chances(points, self.fault_limits()))}
            self._store.set_meta("reachable", sorted(reachable))

    def _complaint(self, judged: Judged) -> str:
        if judged.status == "broken":
            return judged.reason
        failing = [v for v in judged.verdicts if v.answer == "fail"]
        return f"{failing[0].checker}: {failing[0].text}" if failing else ""

    def _agents(self) -> tuple[AgentInfo, ...]:
        """What the agents said of themselves in the newest fault-free run."""
        newest = self._store.past_runs(BASELINE)[-1]
        return self.experiments.view(newest.id).trace.agents

    def _warn_of_missing_agents(self, capabilities: Mapping[str, tuple[str, ...]]) -> None:
        for role in self._config.roles.values():
            missing = [node for node in role.nodes if node not in capabilities]
            if missing and self._config.agent(role.name) != "none":
                text = (
                    f"the agent did not load in {', '.join(missing)}: only process faults there (see `undermine check`)"
                )
                self.experiments.tell("warning", text)

    def _next_strategy(self, exhausted: set[str], *, owed_only: bool) -> Strategy | None:
        """The one that has had the least time; those without a round come first, and alone once the time is over."""
        used = self._store.used_s()
        left = [s for s in self._strategies if s.name not in exhausted and not (owed_only and s.name in used)]
        return min(left, key=lambda s: used.get(s.name, -1.0), default=None)

    def history_of(self, strategy: Strategy, batch: int) -> History:
        points, baselines = self._store.baseline_points()
        return History(
            points=points,
            baseline_runs=baselines,
            chances=chances(points, self.fault_limits()),
            runs=self._store.past_runs(strategy.name),
            settled=self._store.settled(),
            round_index=self._store.rounds_of(strategy.name),
            seed=self._config.hunt.seed,
            batch=batch,
            steps_max=self._config.faults.max_steps,
        )

    def fault_limits(self) -> FaultLimits:
        faults = self._config.faults
        return FaultLimits(
            kinds=faults.kinds,
            reboot_after_s=faults.reboot_after_s,
            delay_s=faults.delay_s,
            delay_modes=faults.delay_modes,
            pause_s=faults.pause_s,
            partition_levels=faults.partition_levels,
            partition_directions=faults.partition_directions,
            partition_losses=faults.partition_losses,
            disk_errors=faults.disk_errors,
            network_errors=faults.network_errors,
            roles=faults.roles,
            groups=tuple(self._config.group(name) for name in faults.groups),
            capabilities={n: tuple(c) for n, c in self._store.meta("capabilities", {}).items()},
            node_roles={node: role.name for role in self._config.roles.values() for node in role.nodes},
            features=self._engine.runner.features,
        )

    def propose(self, strategy: Strategy, batch: int) -> list[Plan]:
        """The strategy's next plans, pruned; what is dropped is stored with its rule and not proposed again."""
        while proposed := strategy.propose(self.history_of(strategy, batch)):
            kept, dropped = prune(proposed, self._store.plans_taken(), self._engine.user_filters)
            self._store.write_dropped(dropped)
            if kept:
                return kept
            if not dropped:
                break
        return []

    # --- runs

    def _finish_open(self, limits: Limits, allowance: Allowance) -> None:
        """What was stored before but not run: round by round, in order."""
        rounds: dict[int, list[Slot]] = {}
        for slot in self._store.open_slots():
            rounds.setdefault(slot.round_index, []).append(slot)
        for slots in rounds.values():
            if slots[0].strategy in SPECIAL:
                self.run_alone(slots)
            else:
                self._run_round(slots, limits, allowance)

    def _run_round(self, slots: Sequence[Slot], limits: Limits, allowance: Allowance) -> None:
        """Run the plans of a round, `jobs` at a time. A strategy that never ran is sure of one run."""
        begun = time.monotonic()
        sure_of_one = not self._store.past_runs(slots[0].strategy)

        def run(slot: Slot) -> Judged | None:
            sure = sure_of_one and slot is slots[0]
            return self.experiments.run_slot(slot, alone=limits.jobs == 1) if allowance.take(sure=sure) else None

        results = [run(slot) for slot in slots] if limits.jobs == 1 else self._side_by_side(run, slots, limits.jobs)
        results = [self.experiments.run_slot(j.slot, after=j.attempt) if j and j.noisy else j for j in results]
        if None not in results:
            self._store.finish_round(slots[0].round_index, time.monotonic() - begun)
        for judged in results:
            if judged and judged.symptom and judged.symptom not in self._known_symptoms:
                self._known_symptoms.add(judged.symptom)
                self.confirm(judged.slot.plan, judged.symptom)

    def _side_by_side(
        self, run: Callable[[Slot], Judged | None], slots: Sequence[Slot], jobs: int
    ) -> list[Judged | None]:
        """In threads; if the user interrupts, end the runs that are under way at once."""
        with ThreadPoolExecutor(jobs) as pool:
            try:
                return list(pool.map(run, slots))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._engine.abort()
                raise

    def _confirm_forgotten(self) -> None:
        """What failed just before the tool was killed, so that its confirmation was never stored."""
        stored = self._store.plans_of(CONFIRM)
        for finding in self.findings():
            if finding.plan.id not in stored:
                self.confirm(finding.plan, finding.symptom)

    def confirm(self, plan: Plan, symptom: str) -> None:
        """The same plan again, alone, as often as configured."""
        self.experiments.tell("suspect", f"confirming: {symptom}")
        count = self._config.hunt.confirm
        if count:
            again = msgspec.structs.replace(plan, strategy=CONFIRM)
            self.run_alone(self._store.write_round(CONFIRM, [again] * count))
        self.findings()

    def run_alone(self, slots: Sequence[Slot]) -> list[Judged]:
        """One run at a time, whatever the limits say. What fails in it is known."""
        results = self.experiments.run_alone(slots)
        self._known_symptoms.update(judged.symptom for judged in results)
        return results

    # --- results

    def findings(self) -> tuple[Finding, ...]:
        """Group what failed so far and store it."""
        found = group(self._store.failing(), self._store.confirmations(), self._store.verdicts)
        self._store.write_findings(found)
        return found
