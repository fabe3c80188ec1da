"""The campaign store: committed rows stay, in order, whichever process is killed at any time."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rounds import written

from undermine.model.errors import UserError
from undermine.model.faults import Crash, Delay
from undermine.model.finding import Finding, LandedRun
from undermine.model.plan import At, FirstUnseen, Plan, Step
from undermine.model.point import Point
from undermine.model.predictions.landings import LandedStep
from undermine.model.rounds import RoundKind
from undermine.model.run import Moment, Receipt, RunRecord, RunStatus, Symptom, Timing, Verdict
from undermine.protocols import Dropped, Experiment, PointSeen
from undermine.store.database import CampaignStore, Slot
from undermine.store.fired import FiredStep
from undermine.store.schema import SCHEMA_VERSION
from undermine.testing import point


def plan(number: int, strategy: str = "random") -> Plan:
    return Plan((Step(At(point(), nth=number + 1), Crash()),), number, strategy)


def finish(
    store: CampaignStore,
    slot: Slot,
    run: int,
    status: RunStatus = "fired",
    *,
    symptom: str = "",
    verdicts: tuple[Verdict, ...] = (),
    points: tuple[PointSeen, ...] = (),
    fired: tuple[FiredStep, ...] = (),
    fill: bool | None = None,
) -> None:
    record = RunRecord(run, slot.plan, status, f"reason of {run}", timing=Timing(total_s=1.5))
    store.finish_run(slot, record, verdicts, symptom, points, fired, fill=fill)


def do(store: CampaignStore, slot: Slot, status: RunStatus = "fired", **more: Any) -> int:
    run = store.begin_run(slot)
    finish(store, slot, run, status, **more)
    return run


def again(store: CampaignStore) -> CampaignStore:
    """The store as the next session would find it."""
    store.close()
    return CampaignStore(store.folder)


# --- rounds and runs


def test_a_round_is_stored_before_any_of_its_plans_runs(store: CampaignStore) -> None:
    slots = store.write_round("random", [plan(0), plan(1)])
    assert [(s.index, s.plan) for s in slots] == [(0, plan(0)), (1, plan(1))]
    reopened = again(store)
    assert reopened.open_slots() == slots
    assert reopened.past_runs() == ()
    reopened.close()


def test_a_finished_run_closes_its_slot_and_an_unfinished_one_does_not(store: CampaignStore) -> None:
    first, second = store.write_round("random", [plan(0), plan(1)])
    do(store, first)
    store.begin_run(second)
    assert [slot.index for slot in store.open_slots()] == [1]
    assert [run.index for run in store.past_runs()] == [0]


def test_an_interrupted_run_is_broken_and_its_slot_is_open_for_the_next_session(store: CampaignStore) -> None:
    first, second = store.write_round("random", [plan(0), plan(1)])
    done, under_way = do(store, first), store.begin_run(second)
    reopened = again(store)
    assert len(reopened.interrupted()) == 1
    assert reopened.interrupted() == []
    assert [slot.index for slot in reopened.open_slots()] == [1]
    rows = {row["run"]: (row["status"], row["reason"]) for row in reopened.run_rows()}
    assert rows == {done: ("fired", f"reason of {done}"), under_way: ("broken", "interrupted")}
    new = do(reopened, second)
    assert new not in (done, under_way)
    assert [run.id for run in reopened.past_runs()] == [done, new]
    assert reopened.open_slots() == []
    reopened.close()


def test_runs_under_way_are_known_until_they_end(store: CampaignStore) -> None:
    first, second = store.write_round("random", [plan(0), plan(1)])
    before = time.time()
    run = store.begin_run(second)
    (found,) = store.under_way()
    assert found[:2] == (run, second)
    assert before <= found[2] <= time.time()
    assert store.finished() == 0
    finish(store, second, run)
    do(store, first)
    assert store.under_way() == []
    assert (store.finished(), store.finished(since=time.time() + 60)) == (2, 0)


def test_a_snapshot_belongs_to_one_moment(store: CampaignStore) -> None:
    writer = CampaignStore(store.folder)
    with store.snapshot():
        assert store.finished() == 0
        do(writer, writer.write_round("random", [plan(0)])[0])
        assert store.finished() == 0
    assert store.finished() == 1
    writer.close()


def test_a_broken_run_leaves_its_slot_open_unless_asked_to_fill_it(store: CampaignStore) -> None:
    (slot,) = store.write_round("random", [plan(0)])
    do(store, slot, "broken")
    assert len(store.open_slots()) == 1
    assert store.past_runs() == ()
    last = do(store, slot, "broken", fill=True)
    assert store.open_slots() == []
    assert [(run.id, run.status) for run in store.past_runs()] == [(last, "broken")]


@pytest.mark.parametrize("status", ["fired", "not_fired", "exhausted"])
def test_every_status_but_broken_counts(store: CampaignStore, status: RunStatus) -> None:
    (slot,) = store.write_round("random", [plan(0)])
    do(store, slot, status)
    assert [run.status for run in store.past_runs()] == [status]


def test_a_finished_round_has_no_open_slots_even_if_plans_did_not_run(store: CampaignStore) -> None:
    (slot,) = store.write_round("random", [plan(0)])
    store.finish_round(slot.round_index, 2.5)
    store.finish_round(slot.round_index, 1.0)
    assert store.open_slots() == []
    assert store.used_s() == {"random": 3.5}


def test_past_runs_are_in_order_of_round_and_index_whatever_order_they_ended_in(store: CampaignStore) -> None:
    first = store.write_round("random", [plan(0), plan(1), plan(2)])
    second = store.write_round("exhaustive", [plan(3), plan(4)])
    runs = {slot: store.begin_run(slot) for slot in (second[1], first[2], first[0], second[0], first[1])}
    for slot in (first[1], second[0], first[2], second[1], first[0]):
        finish(store, slot, runs[slot], symptom="bad" if slot is first[2] else "")
    expected = [(slot.round_index, slot.index) for slot in (*first, *second)]
    assert [(run.round_index, run.index) for run in store.past_runs()] == expected
    assert [run.plan for run in store.past_runs("random")] == [plan(0), plan(1), plan(2)]
    assert [run.failed for run in store.past_runs("random")] == [False, False, True]
    assert [run.plan for run in store.past_runs("exhaustive")] == [plan(3), plan(4)]


def test_rounds_and_runs_are_counted_by_strategy(store: CampaignStore) -> None:
    for strategy in ("baseline", "benign", "random", "random", "confirm", "control", "control"):
        (slot,) = written(store, strategy, [plan(0)])
        do(store, slot, "not_fired" if strategy == "confirm" else "fired")
    (slot,) = written(store, "control", [plan(0)])
    do(store, slot, "not_fired")  # a later trigger was not reached
    (slot,) = written(store, "control", [plan(0)])
    do(store, slot, "broken")
    assert (store.rounds_of("random"), store.rounds_of("exhaustive")) == (2, 0)
    counts = {"fault-free": 1, "benign": 1, "fired": 2, "control": 3, "not_fired": 1, "broken": 1}
    assert store.status_counts() == counts


def test_run_rows_hold_everything_about_finished_runs_only(store: CampaignStore) -> None:
    first, second = store.write_round("random", [plan(0), plan(1)])
    run = do(store, first, symptom="bad")
    store.begin_run(second)
    (row,) = store.run_rows()
    assert (row["run"], row["strategy"], row["index"], row["symptom"], row["plan"]) == (
        run,
        "random",
        0,
        "bad",
        plan(0),
    )
    assert row["timing"]["total_s"] == 1.5
    assert row["ended"] >= row["started"]


# --- plans that need not be proposed again


def test_stored_and_dropped_plans_of_strategies_are_settled_and_others_are_not(store: CampaignStore) -> None:
    store.write_round("random", [plan(0)])
    written(store, "baseline", [plan(1)])
    for strategy in ("benign", "confirm", "control", "replay"):
        written(store, strategy, [plan(2)])
    store.write_dropped([Dropped(plan(3), "policy mine")])
    assert store.plans_taken("random") == {plan(0).id}
    assert store.settled("random") == {plan(0).id, plan(3).id}
    assert store.settled("other") == frozenset(), "the plans of one strategy are not those of another"


def test_dropping_a_plan_twice_keeps_the_first_rule(store: CampaignStore) -> None:
    store.write_dropped([Dropped(plan(0), "first"), Dropped(plan(0), "second")])
    store.write_dropped([Dropped(plan(0), "third")])
    with sqlite3.connect(store.folder / "campaign.db") as db:
        assert db.execute("SELECT rule FROM dropped").fetchall() == [("first",)]


# --- verdicts and findings


def verdict(checker: str, answer: str = "pass") -> Verdict:
    return Verdict(answer, f"text of {checker}", "s" if answer == "fail" else "", ("e1", "é\n"), checker)  # type: ignore[arg-type]


def test_verdicts_come_back_as_they_were_and_in_order(store: CampaignStore) -> None:
    (slot,) = store.write_round("random", [plan(0)])
    said = (verdict("zeta"), verdict("alpha", "fail"), verdict("mid", "unknown"))
    run = do(store, slot, verdicts=said, symptom="s")
    assert store.verdicts(run) == said
    assert store.verdicts(run + 1) == ()


def test_replaced_verdicts_leave_nothing_of_the_old_ones(store: CampaignStore) -> None:
    (slot,) = store.write_round("random", [plan(0)])
    run = do(store, slot, verdicts=(verdict("a", "fail"), verdict("gone")), symptom="old")
    assert [outcome.symptoms for outcome in store.landed_runs()] == [(Symptom("s"),)]
    store.replace_verdicts(run, (verdict("a"), verdict("new")), "")
    assert store.verdicts(run) == (verdict("a"), verdict("new"))
    assert store.landed_runs() == ()
    assert not store.past_runs()[0].failed


def test_notes_of_passing_runs_are_listed_once_with_their_runs(store: CampaignStore) -> None:
    slots = store.write_round("random", [plan(number) for number in range(4)])
    noted = Verdict("pass", notes=("w ends",), checker="exits")
    first, _, second, _ = (
        do(store, slot, verdicts=said)
        for slot, said in zip(slots, [(noted,), (noted, verdict("b", "fail")), (noted,), (verdict("a"),)], strict=True)
    )
    assert store.notes() == [("w ends", [first, second])]


def test_findings_are_made_of_failing_runs_with_a_fault_oldest_first(store: CampaignStore) -> None:
    (base,) = written(store, "baseline", [plan(0)])
    one, two = store.write_round("random", [plan(1), plan(2)])
    (rest,) = written(store, "benign", [plan(3)])
    (replay,) = written(store, "replay", [plan(2)])
    do(store, base, symptom="x")
    late, passed, at_rest = do(store, two, symptom="y"), do(store, one), do(store, rest, symptom="z")
    do(store, replay, symptom="y")
    assert passed not in [outcome.run for outcome in store.landed_runs()]
    assert store.landed_runs() == (
        LandedRun(late, "random", plan(2), plan(2).id, "fired", (Symptom("y"),)),
        LandedRun(at_rest, "", plan(3), plan(3).id, "fired", (Symptom("z"),), kind=RoundKind.BENIGN),
    )


@pytest.mark.parametrize("kind", ["confirm", "control", "realism"])
def test_findings_are_made_of_all_re_runs_that_fill_their_slot(store: CampaignStore, kind: str) -> None:
    one, two, three, four = written(store, kind, [plan(1)] * 4)
    do(store, one, symptom="s")
    do(store, two, "not_fired")
    do(store, three, "broken")
    do(store, four, "broken")
    do(store, four, "broken", fill=True)
    told = [(outcome.plan_id, outcome.status, outcome.symptoms) for outcome in store.landed_runs()]
    assert told == [(plan(1).id, "fired", (Symptom("s"),)), (plan(1).id, "not_fired", ()), (plan(1).id, "broken", ())]


def test_a_landed_run_has_the_symptoms_of_all_its_failing_verdicts(store: CampaignStore) -> None:
    def failing(checker: str, rank: str = "") -> Verdict:
        return Verdict("fail", "text", f"symptom of {checker}", ("evidence",), checker, rank=rank)

    one, two = store.write_round("random", [plan(1), plan(2)])
    said = (failing("gray"), failing("liveness"), failing("exits"), verdict("hang"), failing("mine"), failing("other", "hang"))
    do(store, one, verdicts=said, symptom="as an older version named it")
    do(store, two, verdicts=said, symptom="")
    (outcome,) = store.landed_runs()
    told = [(symptom.text.removeprefix("symptom of "), symptom.rank.value) for symptom in outcome.symptoms]
    assert told == [
        ("mine", "promise"),
        ("exits", "exit"),
        ("liveness", "recovery"),
        ("other", "hang"),
        ("gray", "gray"),
    ]


def test_a_run_keeps_where_its_steps_fired(store: CampaignStore) -> None:
    """A step fired at its recorded moment, or else at its trigger's point. Without a receipt it did not fire."""
    at, unseen = At(point()), FirstUnseen(("op",))
    made = Plan((Step(at, Crash()), Step(unseen, Crash()), Step(unseen, Crash()), Step(at, Crash())))
    elsewhere = point(node="n2", target='ü"\n')
    record = RunRecord(
        1,
        made,
        "not_fired",
        receipts=tuple(Receipt(step, "n1", "crash", 5) for step in (0, 1, 2)),
        moments=(Moment(1, "n2", 5, elsewhere), Moment(1, "n1", 6, point()), Moment(3, "n1", 7, point())),
    )
    (slot,) = store.write_round("random", [made])
    assert store.begin_run(slot) == record.id
    store.finish_run(slot, record, (), "s", (), ())
    (outcome,) = store.landed_runs()
    assert outcome.landed == ((0, point()), (1, elsewhere), (2, Point(())))


def test_a_hold_has_fired_if_its_moment_is_known(store: CampaignStore) -> None:
    made = plan(1).control
    (slot,) = written(store, "control", [made])
    record = RunRecord(store.begin_run(slot), made, "fired", moments=(Moment(0, "n1", 5, point()),))
    store.finish_run(slot, record, (), "", (), ())
    assert store.landed_runs()[0].landed == ((0, point()),)


def test_findings_are_replaced_as_a_whole_and_come_back_as_they_were(store: CampaignStore) -> None:
    def finding(number: int) -> Finding:
        return Finding(
            f"F{number}", f"s{number}", "t", plan(number), (number,), ("random",), (verdict("a", "fail"),), 3, 2
        )

    store.write_findings([finding(n) for n in range(1, 13)])
    assert store.findings() == tuple(finding(n) for n in range(1, 13))
    store.write_findings([finding(2)])
    reopened = again(store)
    assert reopened.findings() == (finding(2),)
    assert reopened.finding_numbers() == {f"s{n}": n for n in range(1, 13)}, "a number was forgotten"
    reopened.close()


# --- points and coverage


def seen(at: Point, order: int, count: int = 1) -> PointSeen:
    return PointSeen(at, count, 1, order, 10 + order)


A, B, C = (point(loc=f"app:{name}#1") for name in "abc")


def baselines(store: CampaignStore, *runs: tuple[PointSeen, ...]) -> None:
    for points in runs:
        (slot,) = written(store, "baseline", [Plan()])
        do(store, slot, points=points)


def test_baseline_points_are_those_of_all_fault_free_runs_by_first_appearance(store: CampaignStore) -> None:
    baselines(store, (seen(B, 0), seen(A, 1, count=2)), (seen(A, 0, count=5), seen(C, 1)))
    points, runs = store.baseline_points()
    assert runs == 2
    assert points == (PointSeen(B, 1, 1, 0, 10), PointSeen(A, 2, 2, 1, 11), PointSeen(C, 1, 1, 2, 11))


def test_broken_baselines_and_faulty_runs_show_no_baseline_points(store: CampaignStore) -> None:
    baselines(store, (seen(A, 0),))
    (slot,) = written(store, "baseline", [Plan()])
    do(store, slot, "broken", points=(seen(B, 0),))
    (slot,) = store.write_round("random", [plan(0)])
    do(store, slot, points=(seen(C, 0),))
    points, runs = store.baseline_points()
    assert ([item.point for item in points], runs) == ([A], 1)


def test_the_count_of_a_baseline_point_is_not_raised_by_runs_with_faults(store: CampaignStore) -> None:
    baselines(store, (seen(A, 0, count=2),))
    (slot,) = store.write_round("random", [plan(0)])
    do(store, slot, points=(seen(A, 0, count=900),))
    assert store.baseline_points()[0][0].count == 2


def test_reachable_points_are_those_of_fault_free_runs_that_were_marked_so(store: CampaignStore) -> None:
    baselines(store, (seen(A, 0), seen(B, 1)))
    assert store.reachable() == (A, B)
    store.set_meta("reachable", [B.id, C.id])
    assert store.reachable() == (B,)


def test_points_at_which_a_fault_is_impossible_are_kept_by_reason(store: CampaignStore) -> None:
    assert store.impossible() == {}
    store.set_meta("impossible", {"s1 has no agent": [A.id, B.id]})
    assert store.impossible() == {"s1 has no agent": {A.id, B.id}}


def test_all_points_are_located_in_the_order_of_their_first_appearance(store: CampaignStore) -> None:
    baselines(store, (seen(A, 0), seen(B, 1)))
    (slot,) = store.write_round("random", [plan(0)])
    do(store, slot, points=(PointSeen(C, 1, 0, 0, 42), seen(A, 1)))
    assert [(name, point) for name, point, _ in store.located()] == [(each.id, each) for each in (A, B, C)]
    assert [line for *_, line in store.located()][2] == 42


def test_experiments_are_the_runs_of_strategies_with_their_landings_and_unusual_points(store: CampaignStore) -> None:
    baselines(store, (seen(A, 0), seen(B, 1)))
    one, two, three = store.write_round("random", [plan(0), plan(1), plan(2)])
    fired = (FiredStep(0, A.id, "crash", "{}"), FiredStep(1, B.id, "delay", "5"))
    first = do(store, one, points=(seen(A, 0), seen(C, 1)), fired=fired)
    do(store, two, "broken", fired=fired)
    other = do(store, three, "not_fired", points=(seen(B, 0),))
    (control,) = written(store, "control", [plan(0).control])
    held = do(store, control, fired=(FiredStep(0, B.id, "hold", "{}"),), points=(seen(C, 0),))
    (again,) = written(store, "confirm", [plan(0)])
    confirmed = do(store, again, fired=fired, points=(seen(A, 0),))
    landed = ((A.id, "{}"), (B.id, "5"))
    assert list(store.experiments()) == [
        Experiment(first, "random", landed, frozenset({C}), plan(0).id),
        Experiment(other, "random", plan=plan(2).id),
        Experiment(confirmed, "", landed, plan=plan(0).id, is_rerun=True),
    ]
    assert store.fired_points()[confirmed] == (A.id, B.id)
    assert [experiment.run for experiment in store.experiments(other)] == [other]
    assert list(store.experiments(held)) == []


# --- meta


def test_meta_keeps_any_json_and_the_newest_value(store: CampaignStore) -> None:
    store.set_meta("k", {"a": [1, None]})
    store.set_meta("k", {"a": [2]})
    reopened = again(store)
    assert reopened.meta("k") == {"a": [2]}
    assert reopened.meta("none", 7) == 7
    reopened.close()


def test_the_folders_are_for_their_owner_only(store: CampaignStore) -> None:
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(store.runs_dir.stat().st_mode) == 0o700


# --- many threads, killed writers, bad files, full disks


def test_eight_threads_write_at_once_and_nothing_is_lost(store: CampaignStore) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(10):
                (slot,) = store.write_round(f"s{number}", [plan(100 * number + n)])
                do(store, slot, points=(seen(A, 0),), verdicts=(verdict("a"),), symptom="x" if n == 9 else "")
                store.set_meta(f"{number}", n)
                assert len(store.past_runs(f"s{number}")) == n + 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len({run.id for run in store.past_runs()}) == 80
    assert len(store.landed_runs()) == 8
    assert [store.meta(f"{number}") for number in range(8)] == [9] * 8
    assert store.open_slots() == []


WRITER = """
    import sys
    from pathlib import Path
    from undermine.model.plan import Plan
    from undermine.model.run import RunRecord
    from undermine.store.database import CampaignStore

    store = CampaignStore(Path(sys.argv[1]))
    number = 0
    while True:
        (slot,) = store.write_round("random", [Plan(seed=number)])
        run = store.begin_run(slot)
        store.finish_run(slot, RunRecord(run, slot.plan, "fired"), (), "", (), ())
        print(run, flush=True)  # printed only after the commit
        number += 1
"""


def test_a_writer_that_is_killed_loses_nothing_that_it_had_committed(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    writer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(folder)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    said = [int(writer.stdout.readline()) for _ in range(40)]
    writer.send_signal(signal.SIGKILL)
    said += [int(line) for line in writer.stdout if line.endswith(b"\n")]
    writer.wait()
    writer.stdout.close()
    store = CampaignStore(folder)
    committed = [run.id for run in store.past_runs()]
    assert committed[: len(said)] == said
    assert len(committed) <= len(said) + 1
    assert len(store.interrupted()) + len(store.open_slots()) <= 2
    (slot,) = store.write_round("random", [Plan(seed=-1)])
    do(store, slot)
    assert len(store.past_runs()) == len(committed) + 1
    store.close()


def test_another_schema_version_is_refused_with_advice(store: CampaignStore) -> None:
    store.close()
    with sqlite3.connect(store.folder / "campaign.db") as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    with pytest.raises(UserError, match="another version"):
        CampaignStore(store.folder)


def test_a_campaign_without_columns_for_slow_devices_is_readable(store: CampaignStore) -> None:
    (slot,) = store.write_round("random", [plan(1)])
    do(store, slot, symptom="x")
    store.close()
    as_version(store.folder, 3)
    for _ in range(2):
        again = CampaignStore(store.folder)
        assert [outcome.slow_ops for outcome in again.landed_runs()] == [()]
        again.close()


@pytest.mark.parametrize("options", [{"upgrade": False}, {"read_only": True}])
def test_a_reader_leaves_the_database_of_an_older_version_as_it_is(store: CampaignStore, options: dict[str, bool]) -> None:
    """The older version may still be hunting."""
    (slot,) = store.write_round("random", [plan(1)])
    do(store, slot, symptom="x")
    store.close()
    as_version(store.folder, 3)
    reader = CampaignStore(store.folder, **options)
    assert [outcome.slow_ops for outcome in reader.landed_runs()] == [()]
    reader.close()
    with sqlite3.connect(store.folder / "campaign.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
        assert "slow_ops" not in {row[1] for row in db.execute("PRAGMA table_info(runs)")}


@pytest.mark.parametrize("content", [b"this is not a database at all, not even nearly one" * 50, os.urandom(8192)])
def test_a_file_that_is_not_a_database_is_refused_and_left_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "campaign.db"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"campaign\.db cannot be opened"):
        CampaignStore(tmp_path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "campaign.db").touch()
    store = CampaignStore(tmp_path)
    assert store.open_slots() == []
    store.close()


def fill_up(store: CampaignStore) -> None:
    """Keep the database from growing, so that SQLite fails as on a full disk."""
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count={pages}")


def test_a_full_disk_is_reported_and_old_rows_stay(store: CampaignStore) -> None:
    (slot,) = store.write_round("random", [plan(0)])
    do(store, slot)
    fill_up(store)
    with pytest.raises(UserError, match="free some space"):
        store.write_round("random", [plan(n) for n in range(1, 500)])
    assert [run.plan for run in store.past_runs()] == [plan(0)]
    assert store.rounds_of("random") == 1
    reopened = again(store)
    assert len(reopened.write_round("random", [plan(n) for n in range(1, 500)])) == 499
    assert len(reopened.past_runs()) == 1
    reopened.close()


def test_a_run_that_cannot_be_stored_whole_is_not_stored_at_all(store: CampaignStore) -> None:
    (slot,) = store.write_round("random", [plan(0)])
    run = store.begin_run(slot)
    fill_up(store)
    many = tuple(seen(point(loc=f"app:f{n}#1"), n) for n in range(2000))
    with pytest.raises(UserError, match="nothing stored so far is lost"):
        finish(store, slot, run, points=many, verdicts=(verdict("a"),))
    assert store.verdicts(run) == ()
    assert store.past_runs() == ()
    assert len(store.interrupted()) == 1
    assert [s.index for s in store.open_slots()] == [0]


class _Failing:
    """A connection whose commit fails as on a full or dying disk."""

    def __init__(self, db: sqlite3.Connection, error: Exception) -> None:
        self._db = db
        self._error = error

    def execute(self, sql: str, *values: Any) -> Any:
        if sql == "COMMIT":
            raise self._error
        return self._db.execute(sql, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


@pytest.mark.parametrize("text", ["database or disk is full", "disk I/O error"])
def test_a_commit_that_the_disk_refuses_is_rolled_back(
    store: CampaignStore, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    store.set_meta("k", "old")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_db", _Failing(store._db, sqlite3.OperationalError(text)))
        with pytest.raises(UserError, match=text):
            store.set_meta("k", "new")
    assert store.meta("k") == "old"
    store.set_meta("k", "newer")
    assert store.meta("k") == "newer"


def test_a_bug_in_undermine_is_not_reported_as_a_full_disk(store: CampaignStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store, "_db", _Failing(store._db, sqlite3.OperationalError("no such table: x")))
        with pytest.raises(sqlite3.OperationalError):
            store.set_meta("k", 1)
    assert store.meta("k") is None


def test_plans_of_every_kind_come_back_as_they_were(store: CampaignStore) -> None:
    made = Plan(
        (Step(At(point(target='ü"\n')), Delay(0.25)), Step(At(point()), Crash(("n2",)))), 2**53, "random", "because"
    )
    store.write_round("random", [made])
    (slot,) = store.open_slots()
    assert slot.plan == made
    assert msgspec.json.encode(slot.plan) == msgspec.json.encode(made)


# --- campaigns of earlier versions

_ROUNDS_4 = """
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY, strategy TEXT NOT NULL, created REAL NOT NULL, finished REAL, used_s REAL NOT NULL DEFAULT 0);
"""


def without_columns_of_7(db: sqlite3.Connection) -> None:
    db.execute("DROP TABLE occurrences")


def without_columns_of_6(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE slots DROP COLUMN covered")
    db.execute("ALTER TABLE fired DROP COLUMN serving")
    db.execute("DROP TABLE reasons")
    db.execute("DROP INDEX runs_of_slots")


def without_columns_of_8(db: sqlite3.Connection) -> None:
    db.execute("ALTER TABLE runs DROP COLUMN worker")


def as_version(folder: Path, version: int) -> None:
    """Give a campaign the tables that an earlier version of the schema had."""
    with contextlib.closing(sqlite3.connect(folder / "campaign.db", isolation_level=None)) as db:
        rows = db.execute("SELECT round, kind, strategy, created, finished, used_s FROM rounds").fetchall()
        db.execute("PRAGMA foreign_keys=OFF")
        db.execute("DROP TABLE rounds")
        db.execute(_ROUNDS_4)
        for number, kind, strategy, *rest in rows:
            db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?)", (number, strategy or kind, *rest))
        if version < 4:
            db.execute("ALTER TABLE runs DROP COLUMN slow_ops")
        without_columns_of_6(db)
        without_columns_of_7(db)
        without_columns_of_8(db)
        db.execute(f"PRAGMA user_version={version}")


@pytest.mark.parametrize("version", [3, 4])
def test_a_campaign_of_an_earlier_version_is_readable(store: CampaignStore, version: int) -> None:
    for number, name in enumerate(("baseline", "benign", "random", "confirm", "control", "realism", "replay")):
        (slot,) = written(store, name, [plan(number)])
        do(store, slot, symptom="s" if name in ("benign", "random", "confirm") else "")
    written(store, "random", [plan(8)])
    written(store, "benign", [plan(9)])

    def everything(store: CampaignStore) -> tuple[object, ...]:
        parts = store.run_rows(), store.landed_runs(), store.open_slots(), store.planned(), store.used_s()
        return *parts, store.status_counts(), store.plans_taken("random"), store.fault_free(), list(store.experiments())

    before = everything(store)
    store.close()
    as_version(store.folder, version)
    reopened = CampaignStore(store.folder)
    assert everything(reopened) == before
    assert [slot.label for slot in reopened.open_slots()] == ["random", "benign"]
    assert everything(again(reopened)) == before


def test_the_landings_of_a_campaign_that_did_not_count_occurrences_are_readable(store: CampaignStore) -> None:
    crash = Plan((Step(At(A), Crash()),))
    (slot,) = store.write_round("random", [crash])
    record = RunRecord(store.begin_run(slot), crash, "fired", receipts=(Receipt(0, "n1", "crash", 5),))
    store.finish_run(slot, record, (), "", (), (FiredStep(0, A.id, "crash", "{}", serving=True, numbers="[3, 1]"),))
    (tried,) = store.tried(())
    assert tried.landed == (LandedStep(crash.steps[0], A, serving=True, numbers=(3, 1)),)
    store.close()
    with contextlib.closing(sqlite3.connect(store.folder / "campaign.db", isolation_level=None)) as db:
        without_columns_of_7(db)
        without_columns_of_8(db)
        db.execute("PRAGMA user_version=6")
    (tried,) = CampaignStore(store.folder).tried(())
    assert tried.landed == (LandedStep(crash.steps[0], A, serving=True, numbers=()),)


def test_a_strategy_may_have_the_name_of_a_kind_of_round(store: CampaignStore) -> None:
    (fault_free,) = store.write_round_of(RoundKind.BASELINE, [plan(0)])
    (proposed,) = store.write_round("baseline", [plan(1)])
    (still_open,) = store.write_round("baseline", [plan(2)])
    first, second = do(store, fault_free), do(store, proposed, symptom="bad")
    assert store.fault_free() == (first,)
    assert [run.id for run in store.past_runs(kind=RoundKind.BASELINE)] == [first]
    assert [run.id for run in store.past_runs("baseline")] == [second]
    assert [(outcome.run, outcome.strategy) for outcome in store.landed_runs()] == [(second, "baseline")]
    assert [(one.run, one.strategy) for one in store.experiments()] == [(second, "baseline")]
    assert (store.open_slots("baseline"), store.open_slots(kind=RoundKind.BASELINE)) == ([still_open], [])
    assert store.planned() == [(RoundKind.BASELINE, "", 1, 0, 0), (RoundKind.STRATEGY, "baseline", 1, 1, 0)]
    assert store.plans_taken("baseline") == {plan(1).id, plan(2).id}
    assert (store.rounds_of("baseline"), set(store.used_s())) == (2, {"baseline"})
    assert store.status_counts() == {"fault-free": 1, "fired": 1}
