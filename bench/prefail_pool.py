"""A pool of experiments that several policies share. No experiment runs twice, whichever policy asks for it.

A pool is a folder with the store of one workload. A policy's campaign uses the tool's own parts: the strategy extends and orders
sequences, the policies prune them, and both see only the runs that this policy has asked for.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, takewhile
from pathlib import Path
from typing import cast

import msgspec

import undermine
from undermine import plugins
from undermine.analysis.possible_faults import injectable, possible_faults_at
from undermine.api.helpers import helpers
from undermine.campaign.loop import Campaign
from undermine.campaign.running import JudgedRun, Listener
from undermine.config.schema import Config
from undermine.deployments.sweep import sweep
from undermine.model.errors import UserError
from undermine.model.faults import failure_of
from undermine.model.plan import At, Plan, Step
from undermine.model.point import LEAVING_TRACES, Point
from undermine.model.rounds import RoundKind
from undermine.policies.library import parse_policy
from undermine.policies.plan_view import CampaignProfiles, PlanView, profiles_of, using
from undermine.policies.pruning import Policy, compose, draw, filter_policy
from undermine.protocols import History, PastRun, Profile
from undermine.run.engine import Engine, open_engine
from undermine.store.campaign_dirs import open_store
from undermine.store.database import CampaignStore, Slot
from undermine.strategies.prefail import Prefail

POOL = "pool"
"""The strategy name with which the runs are stored."""
FAILURES_MAX = 8
_CHANGES = LEAVING_TRACES - {"file.fsync"}
PROPOSED_MAX = 300_000
"""The number of sequences of a level that are examined. If there are more, counts are lower bounds."""


def crash_before_changes(fs: PlanView) -> bool:
    """Nodes crash only before they change a file or send something.

    A crash between two such operations loses nothing: the kernel keeps a dead process's writes, flushed or not.
    """
    return all(task["op"] in _CHANGES and task["place"] == "before" for task in fs)


def policy_of(text: str) -> Policy:
    """Return a built-in policy, or the one of this benchmark."""
    return filter_policy(crash_before_changes) if text == crash_before_changes.__name__ else parse_policy(text)


class Clock:
    """The time budget of a part of the benchmark."""

    def __init__(self, budget_s: float) -> None:
        self._begun, self._budget_s = time.monotonic(), budget_s

    def over(self, share: float) -> bool:
        return time.monotonic() >= self._begun + share * self._budget_s

    def rest(self) -> Clock:
        """A clock with the remaining time, for a part that begins now."""
        return Clock(max(0.0, self._begun + self._budget_s - time.monotonic()))


class Level(msgspec.Struct, frozen=True):
    """The experiments with a given number of failures that a policy keeps, in the strategy's order."""

    plans: tuple[Plan, ...]
    exact: bool
    """False: the count is a lower bound, because the level before was not completely run or examined."""


class Pool:
    """The runs of one workload. No fault hits a point that idle runs show too, because the cluster reaches it without clients."""

    def __init__(
        self, campaign: Campaign, store: CampaignStore, engine: Engine, jobs: int, seed: int, idle: frozenset[Point]
    ) -> None:
        self.campaign = campaign
        self.store = store
        self.engine = engine
        self.seed = seed
        self._idle = idle
        self._jobs = jobs
        self._runs = {run.plan.id: run for run in store.past_runs(POOL)}
        self._history = campaign.history_of(Prefail(), 1)

    def runs(self, plans: Sequence[Plan]) -> tuple[PastRun, ...]:
        """The runs of these plans, in order, up to the first plan that has not run. Later plans that others ran do not count."""
        return tuple(self._runs[plan.id] for plan in takewhile(lambda plan: plan.id in self._runs, plans))

    def history(self, own: Sequence[PastRun] = ()) -> History:
        """The history of a campaign with only these runs, without the points of idle nodes."""
        return msgspec.structs.replace(
            self._history,
            runs=tuple(own),
            baseline=self._without_idle(self._history.baseline),
            profile=lambda run: self._without_idle(self.store.profile(run)),
        )

    def _without_idle(self, profile: Profile) -> Profile:
        return msgspec.structs.replace(profile, after=profile.after - self._idle)

    # --- the plans that a policy keeps

    def next_level(self, policies: Sequence[str], own: Sequence[PastRun], *, complete: bool) -> Level:
        """Extend the policy's own longest runs by one failure. `complete`: these are all plans that the level before kept."""
        strategy, history = Prefail(Prefail.Options(failures=FAILURES_MAX)), self.history(own)
        proposed = islice(strategy.propose(history), PROPOSED_MAX)
        store = self.store
        with using(profiles_of(own, store.profile, self._history.baseline, store.frames, store.fired_points())):
            pruned = compose([policy_of(text) for text in policies], proposed, self.seed)
        looked_at = len(pruned.kept) + sum(pruned.counts.values())
        return Level(tuple(strategy.arrange(pruned.kept, history)), complete and looked_at < PROPOSED_MAX)

    def in_random_order(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        """Order plans so that the first ones are a fair sample. Classes choose by the same order, so many have run already."""
        return tuple(sorted(plans, key=lambda plan: draw(self.seed, plan)))

    def random_plans(self, failures: int, count: int, base: Sequence[str]) -> tuple[Plan, ...]:
        """Plans with failures at random points of the fault-free runs that the base policies keep."""
        singles = self.singles_of(self.campaign.fault_limits().kinds)
        with using(self.profiles):
            kept = compose([policy_of(text) for text in base], singles, self.seed).kept
        return drawn([plan.steps[0] for plan in kept], self._counts(), failures, count, self.seed)

    def _counts(self) -> dict[Point, int]:
        return {seen.point: seen.count for seen in self._history.points}

    @property
    def profiles(self) -> CampaignProfiles:
        """The profiles of the fault-free runs."""
        return CampaignProfiles(self._history.baseline, frames=self.store.frames)

    # --- running

    def run(self, plans: Sequence[Plan], clock: Clock, share: float) -> None:
        """Run the plans that have not run yet, until the time is over."""
        missing = [plan for plan in plans if plan.id not in self._runs]
        batch = 4 * self._jobs
        for begin in range(0, len(missing), batch):
            if clock.over(share):
                return
            self._run_batch(missing[begin : begin + batch])

    def _run_batch(self, plans: Sequence[Plan]) -> None:
        slots, begun = self.store.write_round(POOL, plans), time.monotonic()
        for judged in self._side_by_side(slots):
            if judged.noisy:
                judged = self.campaign.plan_runner.run_slot(judged.slot, after=judged.attempt)
            if not judged.symptom:  # the store has its profile, and nothing else of it is read
                shutil.rmtree(self.campaign.plan_runner.folder(judged.run), ignore_errors=True)
        self.store.finish_round(slots[0].round_index, time.monotonic() - begun)
        ids = {plan.id for plan in plans}
        self._runs |= {run.plan.id: run for run in self.store.past_runs(POOL) if run.plan.id in ids}

    def _side_by_side(self, slots: Sequence[Slot]) -> list[JudgedRun]:
        with ThreadPoolExecutor(self._jobs) as threads:
            try:
                run = self.campaign.plan_runner.run_slot
                return list(threads.map(lambda slot: run(slot, alone=self._jobs == 1), slots))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.engine.abort()
                raise

    def confirm(self) -> dict[int, str]:
        """Confirm all symptoms. Return the confirmed symptom of each failing run of the pool."""
        found = self.campaign.confirming.run()
        return {run: finding.symptom for finding in found if finding.believed for run in finding.runs}

    def doubted(self) -> list[str]:
        """Symptoms that did not recur, or that also occur without the faults."""
        return [finding.symptom for finding in self.store.findings() if not finding.believed]

    @property
    def count(self) -> int:
        """The number of experiments that ran, for any policy."""
        return len(self._runs)

    def seconds_a_run(self) -> float:
        rows = [row for row in self.store.run_rows() if row["strategy"] == POOL and row["timing"]]
        return sum(row["timing"]["total_s"] for row in rows) / len(rows) if rows else 0.0

    # --- single failures of every kind

    def singles_of(self, kinds: tuple[str, ...], *, idle: bool = False) -> list[Plan]:
        """All plans with one fault of these kinds at points of the fault-free runs. `idle`: points of idle nodes too."""
        limits = msgspec.structs.replace(self.campaign.fault_limits(), kinds=kinds)
        points = [seen.point for seen in self._history.points if idle or seen.point not in self._idle]
        steps = [Step(At(c.point, c.place), c.fault) for c in injectable(possible_faults_at(limits)(points))]
        return [Plan((step,), self.seed, POOL) for step in steps]


def drawn(steps: Sequence[Step], counts: Mapping[Point, int], failures: int, count: int, seed: int) -> tuple[Plan, ...]:
    """Return `count` different plans, with steps and their occurrences drawn at random."""
    source = random.Random(f"{seed}/{failures}")
    plans: dict[str, Plan] = {}
    for _ in range(20 * count if steps else 0):
        if len(plans) == count:
            break
        some = tuple(_at_random(source.choice(steps), counts, source) for _ in range(failures))
        plan = Plan(some, seed, POOL, "drawn at random")
        plans.setdefault(plan.id, plan)
    return tuple(plans.values())


def _at_random(step: Step, counts: Mapping[Point, int], source: random.Random) -> Step:
    at = cast(At, step.trigger)
    return msgspec.structs.replace(step, trigger=At(at.point, at.place, source.randint(1, max(1, counts[at.point]))))


def pruned_singles(
    plans: Sequence[Plan], failure: str, policies: Sequence[str], profiles: CampaignProfiles
) -> tuple[int, int]:
    """The number of single failures of a kind with and without these policies. Variants of an error count once."""
    own = [plan for plan in plans if _failure(plan) == failure]
    with using(profiles):
        kept = compose([policy_of(text) for text in policies], own, 0).kept
    return len({_moment(plan) for plan in kept}), len({_moment(plan) for plan in own})


def _failure(plan: Plan) -> str:
    return failure_of(plan.steps[0].fault, _point(plan.steps[0]))


def _moment(plan: Plan) -> tuple[Point, str]:
    at = cast(At, plan.steps[0].trigger)
    return at.point, at.place


def _point(step: Step) -> Point:
    return cast(At, step.trigger).point


@contextlib.contextmanager
def open_pool(
    config: Config, folder: Path, jobs: int, listener: Listener, idle: frozenset[Point] = frozenset()
) -> Iterator[Pool]:
    """Open the pool in this folder and do its fault-free runs. Refuses a folder that was begun with another configuration."""
    hunt = msgspec.structs.replace(config.hunt, benign_runs=0)
    own = msgspec.structs.replace(config.campaign, dir=str(folder))
    config = msgspec.structs.replace(config, hunt=hunt, campaign=own)
    sweep(config.dir)
    with open_store(folder, exclusive=True) as store, open_engine(config, folder) as engine:
        identity = {"version": undermine.__version__, "fingerprint": config.fingerprint(), "seed": config.hunt.seed}
        if store.meta(POOL, identity) != identity:
            raise UserError(f"{folder} was begun with another configuration; name another folder")
        store.set_meta(POOL, identity)
        checkers = plugins.checkers(config, engine.userland.declared["checkers"])
        campaign = Campaign(engine, store, (), checkers, listener, helpers=helpers(config))
        store.interrupted()
        campaign.preparing.run()
        _finish_special(campaign, store)
        yield Pool(campaign, store, engine, jobs, config.hunt.seed, idle)


def _finish_special(campaign: Campaign, store: CampaignStore) -> None:
    """Finish the re-runs of suspicions that were under way when an earlier session ended."""
    rounds: dict[int, list[Slot]] = {}
    for slot in store.open_slots():
        if slot.kind is not RoundKind.STRATEGY:
            rounds.setdefault(slot.round_index, []).append(slot)
    for slots in rounds.values():
        campaign.plan_runner.run_alone(slots)
