"""Campaigns over an engine whose workers are threads: losses, results that cannot be used, and equal proposals. Without Dask."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from fake_cluster import READY, FakeCluster, FakeWorker
from fake_engine import TOML, Says, Scripted, configured, hurts

from undermine.campaign.limits import Limits
from undermine.campaign.loop import Campaign
from undermine.fleet.cluster import SchedulerGone
from undermine.fleet.engine import FleetEngine, open_fleet
from undermine.model.faults import NETWORK_PARTITION, POWER_LOSS, Crash
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Conditions
from undermine.report.card import control_of
from undermine.report.finding_lines import finding_lines
from undermine.store.database import CampaignStore
from undermine.strategies.exhaustive import Exhaustive
from undermine.strategies.random import Random
from undermine.testing import point

LIMITS = Limits(budget_s=1000, batch=8)


@contextlib.contextmanager
def engine_on(folder: Path, cluster: FakeCluster, toml: str = TOML) -> Iterator[FleetEngine]:
    folder.mkdir(exist_ok=True)
    config = configured(folder, toml)
    with open_fleet(config, folder / "campaign", "", lambda kind, text: None, connect=cluster.connect) as engine:
        yield engine


@contextlib.contextmanager
def stored(folder: Path) -> Iterator[CampaignStore]:
    store = CampaignStore(folder / "campaign")
    try:
        yield store
    finally:
        store.close()


def hunt(engine: FleetEngine, store: CampaignStore, strategy, fails: Callable[[Plan], bool] = lambda plan: False, runs: int = 0):
    checker = Says(lambda run: "it breaks" if fails(run.plan) else "")
    return Campaign(engine, store, [strategy], [checker], lambda news: None).run(msgspec.structs.replace(LIMITS, runs_max=runs))


def proposed(folder: Path, workers: int, strategy) -> list[tuple[int, str]]:
    """The round and the plan of everything that a strategy proposed with this number of workers."""
    cluster = FakeCluster(*(FakeWorker(f"w{number}") for number in range(workers)))
    with engine_on(folder, cluster) as engine, stored(folder) as store:
        hunt(engine, store, strategy, lambda plan: hurts(plan) and "crash" in str(plan), runs=30)
        rows = store._all("SELECT s.round, s.plan FROM slots s JOIN rounds r USING (round) WHERE r.kind = 'strategy'")
    assert all(worker.orders for worker in cluster.there.values())
    order = {number: index for index, number in enumerate(sorted({number for number, _ in rows}))}
    return sorted((order[number], text) for number, text in rows)


@pytest.mark.parametrize("strategy", [Random, Exhaustive])
def test_proposals_are_the_same_for_one_and_four_workers(tmp_path: Path, strategy) -> None:
    one, four = (proposed(tmp_path / str(workers), workers, strategy()) for workers in (1, 4))
    assert max(number for number, _ in one) > 0, "a second round depends on the results of the first one"
    assert one == four


def test_each_run_is_stored_once_though_workers_are_lost(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b"), FakeWorker("c"))
    counted = itertools.count(1)

    def sometimes_ends(worker: FakeWorker, order) -> None:
        """Every third run, the worker ends before it can answer, and another one takes its place."""
        if (number := next(counted)) % 3 == 0:
            worker.stuck.set()
            del cluster.there[f"tcp://{worker.machine.name}"]
            cluster.there[f"tcp://new{number}"] = FakeWorker(f"new{number}")

    cluster.meets = sometimes_ends
    with engine_on(tmp_path, cluster) as engine, stored(tmp_path) as store:
        hunt(engine, store, Scripted("a", 4), hurts)
        runs = store.past_runs("a")
        assert len(runs) == 8
        assert len({run.id for run in runs}) == 8
        assert store.interrupted() == []
        assert {row["status"] for row in store.run_rows()} == {"fired"}
        (finding,) = store.findings()
        assert finding.rate == "2/2, 0/2 without the fault"


def test_a_plan_that_takes_every_worker_along_is_a_broken_run(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeWorker("a"))
    cluster.there["tcp://a"].fails = lambda order: "the guardian was killed"
    with engine_on(tmp_path, cluster) as engine:
        view = engine.runner.execute(tmp_path / "run", 3, Plan())
    assert view.record.status == "broken"
    assert view.record.reason == "3 workers did not finish it; worker a: the guardian was killed"
    assert cluster.there["tcp://a"].prepared >= 3, "after a loss it prepares the project again"


def test_a_result_of_another_run_is_not_taken(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b"))
    liar = cluster.there["tcp://a"].runner
    true_execute = liar.execute
    liar.execute = lambda folder, run_id, *more: true_execute(folder, run_id + 1, *more)
    with engine_on(tmp_path, cluster) as engine:
        records = [engine.runner.execute(tmp_path / f"run{number}", number, Plan()).record for number in (1, 2)]
    assert [(record.id, record.worker) for record in records] == [(1, "b"), (2, "b")]


def test_the_engine_can_what_any_worker_can_and_such_plans_go_there(tmp_path: Path) -> None:
    able = msgspec.structs.replace(READY, features=frozenset({POWER_LOSS}), lacking_devices={"disk": "", "network": "no"})
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b", ready=able), FakeWorker("c"))
    with engine_on(tmp_path, cluster) as engine:
        assert engine.runner.features == {POWER_LOSS}
        assert engine.runner.lacking_devices == {"disk": "", "network": "no"}
        for number in range(3):
            engine.runner.execute(tmp_path / f"slow{number}", number, Plan(), None, Conditions(slow_s=1.0))
    assert [len(worker.orders) for worker in cluster.there.values()] == [0, 3, 0]


def test_a_plan_that_no_worker_can_run_goes_to_any_which_says_why(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeWorker("a"))
    plan = Plan((Step(At(point(loc="app:f#1")), Crash(nodes=("ghost",))),))
    with engine_on(tmp_path, cluster) as engine:
        assert NETWORK_PARTITION not in engine.runner.features
        engine.runner.execute(tmp_path / "run", 1, plan)
    assert [order.plan for order in cluster.there["tcp://a"].orders] == [plan]


def test_re_runs_have_their_worker_to_themselves(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b"))
    with engine_on(tmp_path, cluster) as engine, stored(tmp_path) as store:
        hunt(engine, store, Scripted("a", 1), hurts)
    orders = [order for worker in cluster.there.values() for order in worker.orders]
    alone = {order.plan.strategy for order in orders if order.alone}
    assert alone == {"confirm", "control", "worker"}
    assert {order.plan.strategy for order in orders if not order.alone} >= {"a", "baseline"}


def found_on(
    folder: Path, workers: int, fails_on: tuple[str, ...], fires_on: str = "w"
) -> tuple[Finding, list[tuple[str, str]]]:
    """The finding of a hunt in which runs fail on these workers, and the purpose and the worker of each run."""
    cluster = FakeCluster(*(FakeWorker(f"w{number}") for number in range(workers)))
    for worker in cluster.there.values():
        worker.runner.fires = worker.machine.name.startswith(fires_on)
    checker = Says(lambda run: "it breaks" if hurts(run.plan) and run.record.worker in fails_on else "")
    with engine_on(folder, cluster) as engine, stored(folder) as store:
        (finding,) = Campaign(engine, store, [Scripted("a", 3)], [checker], lambda news: None).run(LIMITS)
        return finding, [(row["strategy"] or row["kind"].value, row["worker"]) for row in store.run_rows()]


def test_re_runs_are_made_where_the_plan_failed_and_once_elsewhere(tmp_path: Path) -> None:
    finding, runs = found_on(tmp_path, 3, ("w0", "w1", "w2"))
    home = finding.shown_on[0]
    assert [worker for kind, worker in runs if kind in ("confirm", "control")] == [home] * 4
    (elsewhere,) = [worker for kind, worker in runs if kind == "worker"]
    assert elsewhere != home
    assert finding.rate == "2/2, 0/2 without the fault"
    assert finding.worker_words == f"{home}, {elsewhere} show it"


def test_a_finding_that_only_one_worker_shows_says_so(tmp_path: Path) -> None:
    finding, runs = found_on(tmp_path, 2, ("w1",))
    assert finding.confirmed
    assert finding.worker_words == "only w1 shows it; on w0 the same plan passed"
    assert [worker for kind, worker in runs if kind == "worker"] == ["w0"]
    assert ("workers", finding.worker_words) in list(finding_lines(finding))
    assert finding.worker_words in control_of(finding)


def test_one_worker_or_one_that_cannot_fire_proves_nothing_about_others(tmp_path: Path) -> None:
    finding, runs = found_on(tmp_path / "one", 1, ("w0",))
    assert finding.worker_words == ""
    assert "worker" not in [kind for kind, _ in runs]
    finding, runs = found_on(tmp_path / "two", 2, ("w1",), fires_on="w1")
    assert finding.worker_words == ""
    assert [worker for kind, worker in runs if kind == "worker"] == ["w0", "w0"], "the faults fired on neither try"


def test_a_hunt_whose_scheduler_ends_continues_with_another_one(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b"))
    counted = itertools.count(1)

    def ends(worker: FakeWorker, order) -> None:
        if next(counted) == 6:
            cluster.gone = True
            worker.stuck.set()

    cluster.meets = ends
    with stored(tmp_path) as store:
        with pytest.raises(SchedulerGone), engine_on(tmp_path, cluster) as engine:
            hunt(engine, store, Scripted("a", 4))
        done = {run.id for run in store.past_runs()}
        with engine_on(tmp_path, FakeCluster(FakeWorker("c"))) as engine:
            hunt(engine, store, Scripted("a", 4))
        runs = store.past_runs("a")
        assert len(runs) == 8
        assert done < {run.id for run in store.past_runs()}
        assert store.open_slots() == []
