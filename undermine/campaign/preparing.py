"""Makes the fault-free and benign runs of a campaign and learns its baseline from them. Never proposes where to inject.

The story of `Preparing.run`:

1. Make fault-free runs, one at a time, until enough have passed. If none passes, stop with the reason: no later finding could be
   believed. If only some fail, the workload is flaky: warn with the rate and continue.
2. Choose the contents that are part of points. Store them, the agents' capabilities, the points at which a fault can fire, and
   why some faults cannot be injected.
3. Make benign runs. They show, for example, that every run with a fault logs "connection refused", so that this is not news.
4. Learn from the runs that passed. A benign run that fails is a suspicion like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from undermine.analysis.agreement.rest import agreements_of
from undermine.analysis.contents import Contents, choose
from undermine.analysis.possible_faults import injectable, possible_faults
from undermine.campaign.helpers import CatchUp, no_catch_up
from undermine.campaign.running import JudgedRun, PlanRunner
from undermine.campaign.variables import Unmatched, unmatched
from undermine.checkers.compose import symptom_of
from undermine.findings.baseline import learn, unanswered
from undermine.findings.benign import benign_plans, middle_of
from undermine.model.baseline import Agreements, Baseline
from undermine.model.errors import ClusterError
from undermine.model.fault_limits import FaultLimits
from undermine.model.plan import Plan
from undermine.model.rounds import RoundKind
from undermine.model.run import RunView, Verdict
from undermine.model.text import printable
from undermine.protocols import PastRun, PossibleFault
from undermine.run.engine import Engine
from undermine.store.database import CampaignStore, Slot
from undermine.store.rundir import load_baseline, save_baseline

META = "baseline"
"""The key under which the store keeps the baseline."""
CONTENTS = "contents"
"""The key under which the store keeps the contents that are part of points."""


class Preparing:
    """The fault-free and benign runs of one campaign. Runs that a session has finished are not repeated."""

    def __init__(
        self,
        engine: Engine,
        store: CampaignStore,
        plan_runner: PlanRunner,
        fault_limits: Callable[[], FaultLimits],
        catch_up: CatchUp = no_catch_up,
    ) -> None:
        self._engine = engine
        self._config = engine.config
        self._store = store
        self._plan_runner = plan_runner
        self._fault_limits = fault_limits
        self._catch_up = catch_up
        self._shown: tuple[int, Agreements] = 0, Agreements()
        """The agreements that this number of fault-free runs shows."""

    def run(self) -> list[JudgedRun]:
        """Do all of it; return the benign runs that failed."""
        ran = self.fault_free()
        benign = self._benign_runs()
        if ran or benign or not self._learnt():
            self.learn()
        return [judged for judged in benign if judged.symptom]

    # --- without a fault

    def fault_free(self) -> list[JudgedRun]:
        """Make fault-free runs until enough have passed; raise a `ClusterError` if none passes."""
        if self._store.meta(CONTENTS) is not None:  # runs that a later session adds have the contents of the earlier ones
            self._engine.runner.contents = self.contents
        ran = self._until_enough_pass()
        if self._store.meta("capabilities") is None:
            agents = self.newest.agents
            self._catch_up(agents)
            self._choose_contents()
            capabilities = {agent.node: agent.capabilities for agent in agents}
            self._store.set_meta("capabilities", capabilities)
            self._warn_of_missing_agents(capabilities)
            points, _ = self._store.baseline_points()
            possible = possible_faults(points, self._fault_limits())
            self._store.set_meta("reachable", sorted({one.point.id for one in injectable(possible)}))
            self._store.set_meta("impossible", _impossible(possible))
            self._warn_of_silent_checkers()
            for f, error in unanswered(self._views(RoundKind.BASELINE)).items():
                self._warn(f"the operation {printable(f)} never succeeds, even without a fault: {printable(error)}")
            for missing in self.unmatched_variables():
                self._warn(str(missing))
        self._engine.runner.contents = self.contents
        self._engine.runner.agreements = self._agreements()
        return ran

    def _agreements(self) -> Agreements:
        """Everything that nodes agree about at rest: as learnt, or, before the benign runs, as the fault-free runs show it."""
        if self._learnt():
            return load_baseline(self._store.folder).agreements
        return self._shown_agreements()

    def _shown_agreements(self) -> Agreements:
        """Everything that nodes agree about at rest in the fault-free runs. Nobody has said that they must agree about variables
        that the campaign has chosen itself, so these don't count."""
        if self._config.auto_variables:
            return Agreements()
        if self._shown[0] != (runs := len(self._passing(RoundKind.BASELINE))):
            self._shown = runs, agreements_of(self._views(RoundKind.BASELINE), self._config.metadata)
        return self._shown[1]

    @property
    def contents(self) -> Contents:
        """The contents that are part of points."""
        return msgspec.convert(self._store.meta(CONTENTS) or {}, Contents)

    def _choose_contents(self) -> None:
        """Choose the contents that recur, and give the points of the fault-free runs their contents."""
        runs = self._store.fault_free()
        contents = choose(self._plan_runner.learnt_columns(run) for run in runs)
        for run in runs if contents.used else ():
            self._plan_runner.store_points(run, contents)
        self._store.set_meta(CONTENTS, msgspec.to_builtins(contents))

    def _until_enough_pass(self) -> list[JudgedRun]:
        """Make fault-free runs until `hunt.baseline_runs` have passed, or as many have failed, which is enough for a rate."""
        wanted = self._config.hunt.baseline_runs
        passed, failed_as = len(self._passing(RoundKind.BASELINE)), self._failed_as()
        failures = len(failed_as) if passed else 0
        unfinished = self._store.open_slots(kind=RoundKind.BASELINE)
        ran: list[JudgedRun] = []
        while passed < wanted and failures < wanted:
            judged = self._plan_runner.run_alone([unfinished.pop() if unfinished else self._fault_free_slot()])[0]
            ran.append(judged)
            if complaint := _complaint(judged):
                failures += 1
                if not passed and (judged.status == "broken" or failures == wanted):
                    raise ClusterError(f"the cluster fails without any fault: {complaint}")
            else:
                passed += 1
        self._warn_of_flakiness(passed)
        return ran

    def _fault_free_slot(self) -> Slot:
        plan = Plan(seed=self._config.hunt.seed, strategy=RoundKind.BASELINE.value, why="shows what a correct run looks like")
        return self._store.write_round_of(RoundKind.BASELINE, [plan])[0]

    def _warn_of_flakiness(self, passed: int) -> None:
        if failed_as := self._failed_as():
            rate = f"{len(failed_as)} of {passed + len(failed_as)} fault-free runs failed"
            self._warn(f"the workload is flaky: {rate}: {'; '.join(dict.fromkeys(failed_as))}")

    @property
    def went_well(self) -> tuple[int, ...]:
        """The numbers of the benign runs whose fault fired and that passed."""
        return tuple(run.id for run in self._passing(RoundKind.BENIGN))

    @property
    def newest(self) -> RunView:
        """The newest fault-free run that passed."""
        return self._plan_runner.view(self._passing(RoundKind.BASELINE)[-1].id)

    def _warn_of_missing_agents(self, capabilities: Mapping[str, tuple[str, ...]]) -> None:
        for role in self._config.roles.values():
            missing = [node for node in role.nodes if node not in capabilities]
            if missing and self._config.runtime(role.name).has_agent:
                self._warn(
                    f"the agent did not load in {', '.join(missing)}: only process faults there (see `undermine check`)"
                )

    def unmatched_variables(self) -> tuple[Unmatched, ...]:
        """The variables of the configuration that no node had in the fault-free runs."""
        return tuple(unmatched(self._config, self._views(RoundKind.BASELINE)))

    def _warn_of_silent_checkers(self) -> None:
        """Warn about checkers that answer `unknown` in every fault-free run: they will hardly ever find anything."""
        answers: dict[str, list[Verdict]] = {}
        for run in self._passing(RoundKind.BASELINE):
            for verdict in self._store.verdicts(run.id):
                answers.setdefault(verdict.checker, []).append(verdict)
        for checker, verdicts in answers.items():
            if all(verdict.answer == "unknown" for verdict in verdicts):
                self._warn(f"the checker {checker} answers unknown even without a fault: {printable(verdicts[-1].text)}")

    # --- benign runs

    def _benign_runs(self) -> list[JudgedRun]:
        """Run benign plans that an earlier session stored but did not run, then those that are not stored yet."""
        rounds: dict[int, list[Slot]] = {}
        for slot in self._store.open_slots(kind=RoundKind.BENIGN):
            rounds.setdefault(slot.round_index, []).append(slot)
        waiting = [slot.plan.id for slots in rounds.values() for slot in slots]
        stored = Counter([*waiting, *(run.plan.id for run in self._store.past_runs(kind=RoundKind.BENIGN))])
        if missing := _without(self._benign_plans(), stored):
            slots = self._store.write_round_of(RoundKind.BENIGN, missing)
            rounds[slots[0].round_index] = slots
        ran = [judged for slots in rounds.values() for judged in self._plan_runner.run_alone(slots)]
        for judged in ran:
            self._warn_of_benign(judged)
        return ran

    def _benign_plans(self) -> list[Plan]:
        limits = self._fault_limits()
        allowed = {name: role.nodes for name, role in self._config.roles.items() if name in (limits.roles or (name,))}
        return benign_plans(
            allowed,
            nodes_in_all=len(self._config.node_ids),
            kinds=limits.kinds,
            levels=limits.partition_levels,
            features=limits.features,
            capabilities=limits.capabilities,
            reboot_after_s=limits.reboot_after_s,
            count=self._config.hunt.benign_runs,
            seed=self._config.hunt.seed,
            middle=middle_of(self.newest.history),
        )

    def _warn_of_benign(self, judged: JudgedRun) -> None:
        if judged.symptom:
            self._warn(f"the benign run {judged.run} failed ({judged.slot.plan}): {judged.symptom}")
        elif judged.status != "fired":
            self._warn(f"the tool learns nothing from run {judged.run} ({judged.slot.plan}): {judged.reason}")

    # --- learning

    def learn(self) -> Baseline:
        """Learn the baseline from the runs that passed so far, and store it for checkers, reports and later sessions."""
        agreements = self._shown_agreements()
        baseline = learn(self._views(RoundKind.BASELINE), self._views(RoundKind.BENIGN), self._failed_as(), agreements)
        self._engine.runner.agreements = baseline.agreements
        save_baseline(self._store.folder, baseline)
        self._store.set_meta(META, msgspec.to_builtins(baseline))
        return baseline

    def _learnt(self) -> bool:
        return self._store.meta(META) is not None and load_baseline(self._store.folder) != Baseline()

    def _views(self, kind: RoundKind) -> Iterator[RunView]:
        """Yield the passing runs one at a time, since all their logs together may be large."""
        return (self._plan_runner.view(run.id) for run in self._passing(kind))

    def _passing(self, kind: RoundKind) -> list[PastRun]:
        past = [run for run in self._store.past_runs(kind=kind) if run.status == "fired"]
        return [run for run in past if not _failing(self._store.verdicts(run.id))]

    def _failed_as(self) -> list[str]:
        """The symptoms of the fault-free runs that failed; broken runs do not count."""
        past = [run for run in self._store.past_runs(kind=RoundKind.BASELINE) if run.status != "broken"]
        return [symptom for run in past if (symptom := symptom_of(self._store.verdicts(run.id)))]

    def _warn(self, text: str) -> None:
        self._plan_runner.tell("warning", text)


def _impossible(possible: Iterable[PossibleFault]) -> dict[str, list[str]]:
    """By reason: the ids of the points at which some fault cannot be injected for it."""
    found: dict[str, set[str]] = {}
    for one in possible:
        if one.skipped:
            found.setdefault(one.skipped, set()).add(one.point.id)
    return {why: sorted(ids) for why, ids in found.items()}


def _without(plans: Iterable[Plan], stored: Counter[str]) -> list[Plan]:
    """The plans that are not stored yet. A plan may occur several times."""
    left = Counter(stored)
    missing = []
    for plan in plans:
        if left[plan.id]:
            left[plan.id] -= 1
        else:
            missing.append(plan)
    return missing


def _failing(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.answer == "fail"]


def _complaint(judged: JudgedRun) -> str:
    """Why a fault-free run cannot be learnt from; "" if it can."""
    if judged.status == "broken":
        return judged.reason
    failing = _failing(judged.verdicts)
    return f"{failing[0].checker}: {failing[0].text}" if failing else ""
