"""The view of plans that policies get: tasks, sequences, abstractions and results of experiments."""

from __future__ import annotations

from pathlib import Path

import pytest
from rounds import written
from tables import for_each

from undermine.model.faults import FAILURES, Corrupt, Crash, Delay, Drop, Error, Fault, Hold, Partition, Pause, Reboot
from undermine.model.plan import At, Compare, FirstUnseen, Plan, Step, Then, When
from undermine.model.point import Point, client_point
from undermine.model.run import RunRecord
from undermine.policies.plan_view import (
    CampaignProfiles,
    PlanView,
    StepView,
    StoredProfiles,
    abstract_in,
    abstract_out,
    all_points,
    crashed,
    explored,
    first_read,
    has_run,
    plan_view,
    post_injection_points,
    profiles_of,
    recovery_functions,
    recovery_path,
    using,
)
from undermine.protocols import PastRun, PointSeen, Profile
from undermine.store.database import CampaignStore
from undermine.testing import point

WRITE = point("file.write", "n1", "app:Log.write#2", "wal")
SEND = point("net.send", "n1", "app:send#1", "peer:n2")
RECV = point("net.recv", "n2", "app:recv#1", "peer:n1")
MESSAGE = point("msg.send", "n1", "app:ask#1", "vote peer:n3")


def step(at: Point, fault: Fault | None = None, **more) -> Step:
    return Step(At(at, **more), fault or Crash())


def task(at: Point, fault: Fault | None = None, **more) -> StepView:
    return StepView(step(at, fault, **more))


def seq(*steps: Step) -> PlanView:
    return plan_view(Plan(steps, 7, "some", "why"))


# --- tasks


def test_a_task_has_the_keys_of_its_point_and_derived_ones() -> None:
    found = task(WRITE, Crash(), place="after", nth=3)
    assert {key: found[key] for key in ("op", "loc", "node", "role", "target")} == {
        "op": "file.write",
        "loc": "app:Log.write#2",
        "node": "n1",
        "role": "server",
        "target": "wal",
    }
    assert (found["func"], found["io_type"], found["io_target"]) == ("app:Log.write", "write", "disk")
    assert (found["place"], found["nth"], found["scope"], found["sender"], found["receiver"]) == (
        "after",
        3,
        "once",
        "",
        "",
    )
    assert found["stack"] == WRITE["stack"]
    assert (found.point, found.fault, found.step) == (WRITE, Crash(), step(WRITE, place="after", nth=3))


@pytest.mark.parametrize(
    ("at", "sender", "receiver"),
    [
        (SEND, "n1", "n2"),
        (RECV, "n1", "n2"),
        (MESSAGE, "n1", "n3"),
        (point("db.read", "n1", target="get peer:store"), "store", "n1"),
        (point("net.connect", "n1", target="peer:n2"), "n1", "n2"),
        (point("net.accept", "n1", target="peer:n2"), "n2", "n1"),
        (point("net.send", "n1", target="somewhere"), "n1", ""),
        (client_point("put", "n2"), "client", "n2"),
        (WRITE, "", ""),
    ],
)
def test_sender_and_receiver_follow_from_the_direction(at: Point, sender: str, receiver: str) -> None:
    found = task(at)
    assert (found["sender"], found["receiver"]) == (sender, receiver)


@for_each(
    ("fault", "failure"),
    [
        (Crash(), "crash"),
        (Reboot(), "reboot"),
        (Error("EIO"), "disk"),
        (Error("ENOSPC", "disk"), "disk"),
        (Error("ECONNRESET"), "net"),
        (Corrupt(), "corruption"),
        (Delay(), "delay"),
        (Drop(), "drop"),
        (Partition(), "partition"),
        (Pause(), "pause"),
        (Hold(), "hold"),
    ],
)
def test_every_fault_is_a_failure(fault: Fault, failure: str) -> None:
    assert task(WRITE, fault)["failure"] == failure
    assert failure in FAILURES


def test_an_error_without_a_known_name_has_the_failure_of_its_operation() -> None:
    assert (task(WRITE, Error("E?"))["failure"], task(SEND, Error("E?"))["failure"]) == ("disk", "net")


def test_tasks_have_content_and_scope() -> None:
    assert task(MESSAGE)["content"] == "vote"
    assert task(WRITE, Error("EIO", "file"))["scope"] == "file"


def test_an_unknown_key_is_reported_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no key 'lok'.*loc"):
        task(WRITE)["lok"]
    with pytest.raises(KeyError, match="no key 'failure'"):
        abstract_in(WRITE, "failure")


def test_tasks_are_equal_by_trigger_and_fault_whatever_comes_before() -> None:
    first, second = seq(step(WRITE), step(SEND)), seq(step(RECV), step(SEND))
    assert first.last == second.last
    assert len({first.last, second.last}) == 1
    different = [task(SEND), task(SEND, Reboot()), task(SEND, place="after"), task(SEND, nth=2), task(RECV)]
    assert len(set(different)) == len(different)
    assert task(SEND) != SEND


def test_the_nodes_of_a_task_are_those_that_it_hits() -> None:
    assert task(WRITE).nodes == ("n1",)
    assert task(WRITE, Crash(("n2", "n3"))).nodes == ("n2", "n3")
    assert StepView(Step(When((Compare("x", "==", "1"),)), Crash())).nodes == ()


def test_other_triggers_have_the_point_at_which_they_fire() -> None:
    assert StepView(Step(Then(At(WRITE), At(SEND, "after")), Crash()))["loc"] == SEND["loc"]
    unseen = StepView(Step(FirstUnseen(("loc",), point=SEND, place="after"), Crash()))
    assert (unseen.point, unseen["place"], unseen["nth"]) == (SEND, "after", 1)
    anywhere = StepView(Step(When((Compare("x", "==", "1"),)), Crash()))
    assert (anywhere["loc"], anywhere["place"]) == ("", "before")


# --- sequences


def test_a_sequence_is_the_tasks_of_its_plan_in_order_and_answers_for_the_plan() -> None:
    plan = Plan((step(WRITE), step(SEND, Reboot())), 7, "some", "why")
    fs = plan_view(plan)
    assert [found.step for found in fs] == list(plan.steps) == list(fs.steps)
    assert (fs.plan, fs.id, fs.seed, fs.strategy, fs.why, str(fs)) == (plan, plan.id, 7, "some", "why", str(plan))
    assert "reboot" in str(fs)
    with pytest.raises(AttributeError):
        _ = fs.nothing


def test_parts_of_a_sequence_are_sequences() -> None:
    fs = seq(step(WRITE), step(SEND), step(RECV))
    assert (fs.last, fs[-1], fs[0]) == (task(RECV), task(RECV), task(WRITE))
    assert fs.prefix == fs[:2] == fs[0:2] == seq(step(WRITE), step(SEND))
    assert fs.prefix.plan == Plan(fs.plan.steps[:2], 7, "some", "why")
    assert [found.prefix for found in fs] == [fs[:0], fs[:1], fs[:2]]
    assert seq().prefix == ()


def test_sequences_are_equal_and_hashed_by_their_tasks() -> None:
    assert len({seq(step(WRITE)), plan_view(Plan((step(WRITE),), 1))}) == 1
    assert seq(step(WRITE), step(SEND)) != seq(step(SEND), step(WRITE))


# --- abstraction


def test_keys_can_be_kept_or_removed_in_points_tasks_and_their_containers() -> None:
    other = point("file.write", "n2", "app:Log.write#2", "wal")
    assert abstract_in(WRITE, "loc") == abstract_in(other, "loc") == Point.of({"loc": "app:Log.write#2"})
    assert abstract_in(WRITE, "func", "node") == Point.of({"func": "app:Log.write", "node": "n1"})
    assert abstract_out(WRITE, "node") == abstract_out(other, "node") != WRITE
    assert abstract_in({WRITE, other}, "loc") == frozenset({abstract_in(WRITE, "loc")})
    assert abstract_in(frozenset({WRITE, other}), "node") == frozenset(Point.of({"node": n}) for n in ("n1", "n2"))
    assert abstract_in([WRITE, other], "loc") == (abstract_in(WRITE, "loc"),) * 2
    assert abstract_in(task(WRITE), "node", "failure") == (("failure", "crash"), ("node", "n1"))
    assert abstract_in(seq(step(WRITE), step(other)), "loc") == (abstract_in(task(WRITE), "loc"),) * 2


def test_without_its_node_a_task_still_has_its_fault_and_place() -> None:
    here, there = WRITE, point("file.write", "n2", "app:Log.write#2", "wal")
    assert abstract_out(task(here), "node") == abstract_out(task(there), "node")
    assert abstract_out(task(here), "node") != abstract_out(task(there, Reboot()), "node")
    assert abstract_out(task(here), "node") != abstract_out(task(there, place="after"), "node")
    assert abstract_out(task(here), "node", "failure") == abstract_out(task(there, Reboot()), "node", "failure")
    assert len({abstract_out(seq(step(p)), "node") for p in (here, there)}) == 1


def test_recovery_functions_are_those_that_no_fault_free_run_executed() -> None:
    frames = {SEND: ("app:send", "app:main"), RECV: ("app:repair", "app:main"), WRITE: ("app:send", "app:main")}
    runs = {CRASHED.steps_id: [Profile(frozenset({SEND, RECV, WRITE}))]}
    told = CampaignProfiles(Profile(frozenset({SEND})), runs, frames=lambda at: frames.get(at, ()))
    with using(told):
        assert recovery_functions(CRASHED) == {"app:repair"}
        assert recovery_functions(()) == frozenset()
    assert recovery_functions(CRASHED) == frozenset()


def test_an_argument_that_cannot_be_abstracted_is_reported() -> None:
    with pytest.raises(TypeError, match="not a point, step or plan"):
        abstract_in("loc", "loc")
    with pytest.raises(KeyError, match="cannot be left out"):
        abstract_out(task(WRITE), "func")
    with pytest.raises(KeyError, match="cannot be left out"):
        abstract_out(WRITE, "place")


# --- results of experiments

BASE = Profile(frozenset({WRITE, SEND}), frozenset({WRITE, SEND}), frozenset({WRITE, SEND}))
AFTER_CRASH = Profile(frozenset({WRITE, SEND, RECV}), frozenset({RECV}), frozenset({WRITE, SEND}))
CRASHED = seq(step(WRITE))
CRASHED_THEN_SEND = seq(step(WRITE), step(SEND))


@pytest.fixture
def profiles() -> CampaignProfiles:
    def frames(at: Point) -> tuple[str, ...]:
        return ("app:write", "app:setup") if at == WRITE else ()

    return CampaignProfiles(BASE, {CRASHED.steps_id: [AFTER_CRASH]}, [WRITE], frames)


def test_policies_can_ask_for_the_results_of_experiments(profiles: CampaignProfiles) -> None:
    with using(profiles):
        assert all_points() == all_points([]) == all_points(seq()) == BASE.points
        assert post_injection_points(()) == BASE.after
        assert all_points(CRASHED) == all_points(CRASHED.plan) == all_points([*CRASHED]) == AFTER_CRASH.points
        assert all_points(Plan(CRASHED.steps, seed=99)) == AFTER_CRASH.points
        assert post_injection_points(CRASHED) == {RECV}
        assert recovery_path(CRASHED) == {RECV}
        assert recovery_path(CRASHED, "loc") == abstract_in(recovery_path(CRASHED), "loc")
        assert recovery_path(()) == frozenset()
        assert (has_run(CRASHED), has_run(()), has_run(seq(step(SEND)))) == (True, True, False)
        assert all_points(seq(step(SEND))) == frozenset()


def test_without_bound_profiles_nothing_has_run(profiles: CampaignProfiles) -> None:
    with using(profiles):
        pass
    assert all_points() == recovery_path(CRASHED) == frozenset()
    assert not explored(WRITE)
    assert not has_run(CRASHED)
    assert first_read(task(RECV))


def test_a_point_is_explored_if_a_point_with_equal_keys_was_hit(profiles: CampaignProfiles) -> None:
    elsewhere = point("file.write", "n2", "app:Log.write#2", "wal")
    with using(profiles):
        assert explored(WRITE)
        assert explored(task(WRITE, Reboot()))
        assert not explored(elsewhere)
        assert explored(elsewhere, "loc")
        assert explored(elsewhere, "func")
        assert not explored(elsewhere, "loc", "node")
        assert not explored(SEND, "loc")


def test_first_reads_are_those_of_the_experiment_that_the_task_extends(profiles: CampaignProfiles) -> None:
    with using(profiles):
        assert not first_read(seq(step(WRITE), step(RECV)).last)
        assert first_read(seq(step(WRITE), step(SEND)).last)
        assert first_read(seq(step(RECV)).last), "the fault-free runs say nothing of it"
        assert first_read(seq(step(SEND), step(RECV)).last), "that was never run"


def test_frames_are_those_of_the_stack_or_else_the_function_itself(profiles: CampaignProfiles) -> None:
    with using(profiles):
        assert task(WRITE).frames == ("app:write", "app:setup")
        assert task(SEND).frames == ("app:send",)


def test_dead_nodes_were_crashed_and_not_started_again() -> None:
    fs = seq(step(WRITE), step(RECV, Reboot()), step(SEND, Crash(("n4", "n5"))))
    assert [node for node in ("n1", "n2", "n3", "n4", "n5", "") if crashed(fs, node)] == ["n1", "n4", "n5"]
    assert crashed(fs.plan, "n1")


def past(run: int, plan: Plan, status: str = "fired") -> PastRun:
    return PastRun(run, 1, run, plan, status, False)  # type: ignore[arg-type]


def test_only_what_all_runs_of_a_plan_showed_counts() -> None:
    other = point("net.recv", loc="app:other#1")
    paths = {RECV: ("app:repair", "app:one"), other: ("app:repair", "app:two"), WRITE: ("app:main",)}
    one = Profile(frozenset({WRITE, SEND, RECV}), frozenset({SEND, RECV}), frozenset({SEND}))
    two = Profile(frozenset({WRITE, SEND, other}), frozenset({WRITE, SEND}), frozenset())
    made = CampaignProfiles(Profile(frozenset({WRITE})), {CRASHED.steps_id: [one, two]}, (), lambda at: paths.get(at, ()))
    with using(made):
        assert all_points(CRASHED) == {WRITE, SEND}
        assert post_injection_points(CRASHED) == recovery_path(CRASHED) == {SEND}
        assert recovery_path(CRASHED, "op") == {Point.of({"op": "net.send"}), Point.of({"op": "net.recv"})}
        assert recovery_functions(CRASHED) == {"app:repair"}, "though the runs executed it at different points"
        assert first_read(CRASHED_THEN_SEND.last)


def test_runs_of_a_plan_that_fired_at_the_same_points_are_compared() -> None:
    def load(run: int) -> Profile:
        return Profile(frozenset({WRITE, point(loc=f"run:{run}"), point(loc=f"even:{run % 2 == 0}")}))

    runs = [past(run, CRASHED.plan, "not_fired" if run == 1 else "fired") for run in (1, 2, 3, 4)]
    where = {2: ("a", "b"), 3: ("a", "c"), 4: ("a", "b")}
    with using(profiles_of(runs, load, BASE, lambda _: (), where)):
        assert all_points(CRASHED) == {WRITE, point(loc="even:True")}


def test_a_plans_profile_is_from_its_first_fired_run_and_never_from_a_control() -> None:
    loaded: list[int] = []

    def load(run: int) -> Profile:
        loaded.append(run)
        return Profile(frozenset({point(loc=f"run:{run}")}))

    other = Plan((step(SEND),), 7)
    runs = [
        past(1, Plan()),
        past(2, CRASHED.plan, "broken"),
        past(3, CRASHED.plan, "not_fired"),
        past(4, CRASHED.plan),
        past(5, CRASHED.plan),
        past(6, other, "not_fired"),
        past(7, Plan((step(RECV),)).control),
    ]
    made = profiles_of(runs, load, BASE, lambda _: (), {4: ("a",), 5: ("b",)})
    assert not loaded
    with using(made):
        assert [at["loc"] for at in all_points(CRASHED)] == ["run:4"]
        assert [at["loc"] for at in all_points(other)] == ["run:6"]
        assert explored(WRITE)
        assert not explored(SEND), "it did not fire"
        assert not explored(RECV), "that was a control"
        assert all_points() == BASE.points
    assert loaded == [4, 6]


def stored(folder: Path) -> CampaignStore:
    """A campaign with a fault-free run and one with a crash, after which something new is seen."""
    store = CampaignStore(folder)
    shown = {"baseline": [WRITE], "some": [WRITE, SEND]}
    for strategy, plan in (("baseline", Plan()), ("some", CRASHED.plan)):
        (slot,) = written(store, strategy, [plan])
        record = RunRecord(store.begin_run(slot), plan, "fired")
        seen = [PointSeen(at, 1, 1, order, after=order, frames=("app:f",)) for order, at in enumerate(shown[strategy])]
        store.finish_run(slot, record, (), "", seen, ())
    return store


def test_a_stored_campaign_is_read_at_the_first_question(tmp_path: Path) -> None:
    stored(tmp_path).close()
    opened: list[CampaignStore] = []

    def memory() -> CampaignStore:
        opened.append(CampaignStore(tmp_path, read_only=True))
        return opened[-1]

    with using(StoredProfiles(memory)):
        assert not opened
        assert all_points() == {WRITE}
        assert all_points(CRASHED) == {WRITE, SEND}
        assert post_injection_points(CRASHED) == recovery_path(CRASHED) == {SEND}
        assert explored(WRITE)
        assert has_run(CRASHED)
        assert first_read(task(WRITE))
        assert task(SEND).frames == ("app:f",)
    assert len(opened) == 1
    opened[0].close()
