"""Who takes part, who takes the next run, and what becomes of the runs of a worker that is lost. Without Dask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import pytest
from fake_cluster import KIND, READY, FakeCluster, FakeWorker
from waiting import HANG_S, wait_until

from undermine.analysis.contents import Contents
from undermine.fleet.bundles import Bundle
from undermine.fleet.cluster import SchedulerGone, WorkerLost
from undermine.fleet.messages import Answer, Order, Project, Ready
from undermine.fleet.roster import Member, Need, Roster
from undermine.model.baseline import Agreements
from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.run import Conditions

BUNDLE = Bundle(Project("d", "campaign", "undermine.toml", b"", {}), b"files")
ORDER = Order("campaign", 1, Plan(), None, Conditions(), Contents(), Agreements(), False)


class Open:
    """Rosters that are closed at the end, and their notices."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.rosters: list[Roster] = []

    def __call__(self, cluster: FakeCluster, **more) -> Roster:
        roster = Roster(cluster, BUNDLE, lambda kind, text: self.said.append((kind, text)), **{"late_s_max": 0.5, **more})
        self.rosters.append(roster)
        roster.open()
        return roster

    def warnings(self) -> list[str]:
        return [text for kind, text in self.said if kind == "warning"]


@pytest.fixture
def opened() -> Iterator[Open]:
    made = Open()
    yield made
    for roster in made.rosters:
        roster.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def run(roster: Roster, need: Need = Need(), inside: Callable[[Member], object] = lambda member: None) -> tuple[str, Answer]:  # noqa: B008
    """Run one plan; return the name of its worker, and the answer."""
    with roster.seat(need) as member:
        inside(member)
        return member.name, roster.run(member, ORDER, HANG_S)


def test_all_workers_prepare_the_project_and_share_the_runs(opened) -> None:
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b"))
    roster = opened(cluster)
    assert [worker.prepared for worker in cluster.there.values()] == [1, 1]
    assert sorted(run(roster)[0] for _ in range(4)) == ["a", "a", "b", "b"]
    roster.close()
    assert [worker.left for worker in cluster.there.values()] == [1, 1]


def test_workers_of_another_kind_take_no_part_and_the_reason_is_said(opened) -> None:
    odd = msgspec.structs.replace(KIND, python="3.11.0", kernel="5.10")
    roster = opened(FakeCluster(FakeWorker("a"), FakeWorker("b", odd), FakeWorker("c")))
    assert roster.names == ["a", "c"]
    assert opened.warnings() == ["worker b takes no part: it has Python 3.11.0 (not 3.12.1), the kernel 5.10 (not 6.1)"]


def test_a_resumed_campaign_keeps_its_kind(opened) -> None:
    odd = msgspec.structs.replace(KIND, python="3.11.0")
    with pytest.raises(UserError, match=r"no worker can run this project: .*Python 3\.12\.1 \(not 3\.11\.0\)"):
        opened(FakeCluster(FakeWorker("a"), FakeWorker("c")), kind=odd)


def test_workers_that_cannot_run_the_project_take_no_part(opened) -> None:
    roster = opened(FakeCluster(FakeWorker("a"), FakeWorker("b", ready=Ready(cannot="there is no JDK"))))
    assert roster.names == ["a"]
    assert opened.warnings() == ["worker b takes no part: there is no JDK"]


def test_without_a_worker_that_can_the_hunt_ends_with_all_reasons(opened) -> None:
    with pytest.raises(UserError, match=r"worker a takes no part: no JDK; worker b takes no part: no root"):
        opened(FakeCluster(FakeWorker("a", ready=Ready(cannot="no JDK")), FakeWorker("b", ready=Ready(cannot="no root"))))
    with pytest.raises(UserError, match="has no workers"):
        opened(FakeCluster())


def test_all_workers_isolate_nodes_in_the_same_way(opened) -> None:
    other = msgspec.structs.replace(READY, isolation="namespaces")
    roster = opened(FakeCluster(FakeWorker("a"), FakeWorker("b", ready=other)))
    assert len(roster.names) == 1
    assert "isolates nodes by" in opened.warnings()[0]


def test_a_run_goes_to_a_worker_that_can(opened) -> None:
    able = msgspec.structs.replace(READY, features=frozenset({"x"}))
    roster = opened(FakeCluster(FakeWorker("a"), FakeWorker("b", ready=able)))
    assert {run(roster, Need(lambda ready: "x" in ready.features))[0] for _ in range(3)} == {"b"}


def test_a_plan_that_no_worker_can_run_ends_the_hunt_with_a_sentence(opened) -> None:
    roster = opened(FakeCluster(FakeWorker("a")), nobody_s=0.0)
    with pytest.raises(UserError, match="no worker of the cluster can run this plan any more"):
        run(roster, Need(lambda ready: False))


def test_a_wish_for_a_worker_holds_while_there_is_a_choice(opened) -> None:
    roster = opened(FakeCluster(FakeWorker("a"), FakeWorker("b")))
    assert {run(roster, Need(at="b"))[0] for _ in range(3)} == {"b"}
    assert {run(roster, Need(not_at="b"))[0] for _ in range(3)} == {"a"}
    assert run(roster, Need(at="gone"))[0] in ("a", "b")
    roster.lose(next(iter(roster._members.values())), "is lost")
    assert len(roster.names) == 1
    assert run(roster, Need(not_at=roster.names[0]))[0] == roster.names[0]


def test_a_run_that_must_be_alone_waits_for_others_and_others_wait_for_it(opened, pool) -> None:
    roster = opened(FakeCluster(FakeWorker("a", cores=4)))
    roster._members["tcp://a"].tempo.places = 4
    leave = threading.Event()
    inside: list[str] = []

    def stay(name: str) -> Callable[[Member], object]:
        def entered(member: Member) -> None:
            inside.append(name)
            leave.wait(HANG_S)

        return entered

    shared = [pool.submit(run, roster, Need(), stay("shared")) for _ in range(2)]
    wait_until(lambda: len(inside) == 2)
    alone = pool.submit(run, roster, Need(alone=True), lambda member: inside.append(f"alone of {member.under_way}"))
    assert not alone.done()
    leave.set()
    for one in (*shared, alone):
        one.result(HANG_S)
    assert inside[-1] == "alone of 1"


def stuck_run(roster: Roster, cluster: FakeCluster, pool: ThreadPoolExecutor, name: str) -> Future[tuple[str, Answer]]:
    """A run under way on this worker, which will never answer."""
    worker = cluster.there[f"tcp://{name}"]
    worker.stuck.set()
    begun = threading.Event()
    result = pool.submit(run, roster, Need(at=name), lambda member: begun.set())
    assert begun.wait(HANG_S)
    wait_until(lambda: roster._calls.get(f"tcp://{name}"))
    return result


def test_the_runs_of_a_worker_that_ends_are_lost_and_it_may_come_back(opened, pool) -> None:
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b"))
    roster = opened(cluster)
    waiting = stuck_run(roster, cluster, pool, "a")
    worker = cluster.there.pop("tcp://a")
    with pytest.raises(WorkerLost):
        waiting.result(HANG_S)
    assert roster.names == ["b"]
    assert "worker a has ended; its 1 run(s) are made again" in opened.warnings()
    worker.stuck.clear()
    cluster.there["tcp://a"] = worker
    wait_until(lambda: roster.names == ["a", "b"])
    assert worker.prepared == 2


def test_the_runs_of_a_silent_worker_are_lost(opened, pool) -> None:
    cluster = FakeCluster(FakeWorker("a"), FakeWorker("b"))
    roster = opened(cluster, silent_s=3.0)
    waiting = stuck_run(roster, cluster, pool, "a")
    cluster.silent.add("tcp://a")
    with pytest.raises(WorkerLost):
        waiting.result(HANG_S)
    assert "worker a does not answer; its 1 run(s) are made again" in opened.warnings()
    cluster.there["tcp://a"].stuck.clear()
    cluster.silent.clear()
    wait_until(lambda: roster.names == ["a", "b"])


def test_a_worker_that_never_answers_a_run_is_given_up(opened) -> None:
    cluster = FakeCluster(FakeWorker("a"))
    roster = opened(cluster)
    cluster.there["tcp://a"].stuck.set()
    with roster.seat(Need()) as member, pytest.raises(WorkerLost):
        roster.run(member, ORDER, 0.01)
    assert any(text.startswith("worker a is given up") for text in opened.warnings())


def test_new_workers_join_while_the_hunt_is_under_way(opened) -> None:
    cluster = FakeCluster(FakeWorker("a"))
    roster = opened(cluster)
    cluster.there["tcp://b"] = FakeWorker("b")
    wait_until(lambda: roster.names == ["a", "b"])
    assert roster.places == 2


def test_a_scheduler_that_is_gone_ends_everything_with_its_sentence(opened, pool) -> None:
    cluster = FakeCluster(FakeWorker("a"))
    roster = opened(cluster)
    waiting = stuck_run(roster, cluster, pool, "a")
    cluster.gone = True
    with pytest.raises(SchedulerGone, match="scheduler is gone"):
        waiting.result(HANG_S)
    with pytest.raises(SchedulerGone):
        run(roster)


def test_an_abort_ends_all_runs(opened, pool) -> None:
    cluster = FakeCluster(FakeWorker("a"))
    roster = opened(cluster)
    waiting = stuck_run(roster, cluster, pool, "a")
    roster.abort()
    with pytest.raises(RuntimeError, match="stopped"):
        waiting.result(HANG_S)
    cluster.there["tcp://a"].stuck.clear()


def test_a_worker_gets_more_runs_while_it_is_on_time_and_this_is_said(opened) -> None:
    roster = opened(FakeCluster(FakeWorker("a", cores=2)))
    for _ in range(2):
        with roster.seat(Need()) as member:
            roster.note(member, 1.0)
    assert roster.places == 2
    assert opened.said[-1] == ("workers", "1 worker(s), 2 run(s) at a time")
