"""The benchmark of predicted faults: how it counts reports, and that its tables show what was not reached or not measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import fcatch as bench
from bench import fcatch_learnt as learning
from bench import fcatch_reports as reports
from bench import fcatch_tables as tables
from bench.fcatch_reports import Ran
from bench.fcatch_tables import CrashTime, Heap, NamesShared, Report, Row, Rules, Times
from bench.sieve_tables import Cell
from bench.sieve_tables import Report as Found
from undermine.analysis.conflicts.awaited import LIMITED
from undermine.config.load import load
from undermine.model.columns import Columns
from undermine.model.event import Event
from undermine.model.faults import Crash, Drop, Fault, Reboot
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step
from undermine.model.point import client_point, point_of
from undermine.model.predictions.candidate import Candidate, Evidence, Reason
from undermine.protocols import Dropped, History, PastRun
from undermine.strategies.fcatch import Fcatch
from undermine.testing import event, history, point

OPTIONS = bench.Options(("granary",), bench.PARTS, 60.0, 0, 5)
WAITS = Reason("n1 waits for it", (Evidence("wait", "n1 waits"), Evidence("trace", "it ended")))
READS = Reason("recovery reads it", (Evidence("trace", "recovery reads it"),))


def candidate(name: str, fault: Fault = Crash(), why: Reason = READS, nth: int = 1) -> Candidate:  # noqa: B008 - frozen
    return Candidate(Plan((Step(At(point(loc=f"app:{name}#1"), nth=nth), fault),)), (why,))


def ran(run: int, predicted: Candidate, status: str = "fired", **more: Any) -> PastRun:
    return PastRun(run, 1, run, predicted.plan, status, more.pop("failed", False), **more)  # type: ignore[arg-type]


def finding(symptom: str, runs: tuple[int, ...], **more: Any) -> Finding:
    rates = {"tries": 2, "hits": 2, **more}
    return Finding("F1", symptom, symptom, Plan(), runs, ("fcatch",), (), **rates)


def lines_of(text: str) -> list[list[str]]:
    """The rows of a table."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.startswith("  ")]


# --- reports


def test_faults_at_one_moment_are_one_report() -> None:
    found = reports.reports_of(
        [candidate("a", why=WAITS), candidate("a", Drop(), WAITS), candidate("a", nth=2), candidate("b")]
    )
    assert [report.kind for report in found] == ["awaited", "left", "left"]
    assert found[0].spot == found[1].spot != found[2].spot, "the occurrence is not part of the place"


def test_a_moment_that_both_kinds_predict_is_an_awaited_message() -> None:
    (report,) = reports.reports_of([candidate("a", Reboot()), candidate("a", why=WAITS)])
    assert report.kind == "awaited"


def test_a_moment_is_doubtful_only_if_each_reason_is() -> None:
    doubtful = Reason("recovery reads it; doubtful: the value is only kept")
    (report,) = reports.reports_of([candidate("a", why=doubtful), candidate("a", Reboot(), doubtful)])
    assert report.kind == "doubtful"
    (report,) = reports.reports_of([candidate("a", why=doubtful), candidate("a", Reboot())])
    assert report.kind == "left"


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        ({}, "false"),
        ({"odd": True}, "benign"),
        ({"status": "not_fired"}, "not_fired"),
        ({"status": "broken"}, "not_reached"),
        ({"failed": True}, "unconfirmed"),
        ({"run": 9, "failed": True, "confirmed": True}, "confirmed"),
    ],
)
def test_the_outcome_of_a_report(run: dict[str, Any], outcome: str) -> None:
    one = candidate("a")
    past = [ran(**{"run": 1, "predicted": one, **run})]
    (report,) = reports.reports_of([one], Ran(past, findings=[finding("it hangs", (9,))]))
    assert (report.outcome, report.bugs) == (outcome, ("it hangs",) if outcome == "confirmed" else ())


def test_a_report_that_no_run_has_tried_is_not_reached() -> None:
    (report,) = reports.reports_of([candidate("a")], Ran([ran(1, candidate("b"))]))
    assert report.outcome == "not_reached"


def test_a_plan_that_will_be_tried_again_has_not_fired() -> None:
    one = candidate("a")
    (report,) = reports.reports_of([one], Ran(not_fired={one.plan.id}))
    assert report.outcome == "not_fired"


def test_the_best_fault_decides_the_outcome_of_a_report() -> None:
    crash, drop = candidate("a", why=WAITS), candidate("a", Drop(), WAITS)
    past = [ran(1, crash), ran(2, drop, failed=True, confirmed=True)]
    (report,) = reports.reports_of([crash, drop], Ran(past, findings=[finding("it hangs", (2, 5))]))
    assert report.outcome == "confirmed"


@pytest.mark.parametrize("more", [{"hits": 0}, {"control_tries": 2, "control_hits": 1}, {"suppressed": "known"}])
def test_only_confirmed_findings_count(more: dict[str, Any]) -> None:
    assert Ran(findings=[finding("it hangs", (1,), **more)]).bugs({1}) == ()


# --- strategies


def told(**more: Any) -> History:
    return msgspec.structs.replace(history([point(), client_point("put", "n1")]), **more)


def plans_of(found: Iterator[Candidate | Dropped]) -> list[Plan]:
    return [each.plan for each in found if isinstance(each, Candidate)]


def test_only_the_runs_to_learn_from_are_proposed_and_each_once() -> None:
    strategy = bench.Learning(Fcatch.Options(), ("middle", "late", "early"))
    plans = plans_of(strategy.propose(told()))
    by_time = {at: {plan.steps[0].trigger.nth for plan in plans if plan.id in ids} for at, ids in strategy.plans.items()}  # type: ignore[union-attr]
    assert by_time == {"middle": {2}, "late": {3}, "early": {1}}
    assert len({plan.id for plan in plans}) == len(plans) == 6, "a crash and a reboot each"
    assert plans_of(strategy.propose(told(round_index=1))) == []


def test_times_that_have_the_same_moment_share_its_runs() -> None:
    strategy = bench.Learning(Fcatch.Options(), ("middle", "late"))
    once = told(points=tuple(msgspec.structs.replace(seen, count=1) for seen in told().points))
    assert len(plans_of(strategy.propose(once))) == 2
    assert strategy.plans["middle"] == strategy.plans["late"]


def test_a_hunt_keeps_its_predictions_without_the_runs_to_learn_from() -> None:
    strategy = bench.Predicting(Fcatch.Options())
    assert plans_of(strategy.propose(told()))
    assert strategy.predicted == {}


# --- what a campaign has learnt


def test_each_time_of_the_crash_is_analysed_by_itself() -> None:
    early, late = candidate("early"), candidate("late")
    past = (ran(3, early), ran(4, early, failed=True), ran(5, late), ran(6, late, status="not_fired"))
    plans = {"middle": [early.plan.id], "late": [late.plan.id]}
    known = learning.Learnt(Fcatch.Options(crash="middle"), told(runs=past, faulty=(1,)), plans)
    assert (known.history("middle").faulty, known.history("late").faulty, known.crashed) == ((3,), (5,), {3: early.plan})
    assert known.history("late").runs == ()


def waiting(limit_ns: int = 0) -> list[Event]:
    """n1 handles a request of m3 and waits; a message of m2 ends the wait."""
    asked, answered = ("10.0.0.1:4001", "10.0.0.2:2001"), ("10.0.0.1:4002", "10.0.0.2:2002")
    rows: list[tuple[str, str, str, str, dict[str, Any]]] = [
        ("net.send", "m3", "ask", "T", {"resource": ">".join(asked) + "/1", "size": 5, "result": 5, "target": "peer:n1"}),
        ("net.recv", "n1", "receive", "T", {"resource": ">".join(asked[::-1]) + "/1", "size": 9, "result": 5}),
        ("event.wait", "n1", "wait", "T", {"resource": "e@1", "size": limit_ns, "end_ns": 60}),
        ("net.send", "m2", "report", "T", {"resource": ">".join(answered) + "/1", "size": 5, "result": 5, "target": "peer:n1"}),
        ("net.recv", "n1", "receive", "T2", {"resource": ">".join(answered[::-1]) + "/1", "size": 9, "result": 5}),
        ("event.set", "n1", "handle", "T2", {"resource": "e@1"}),
        ("heap.write", "n1", "handle", "T2", {"resource": "app.state", "target": "app.state"}),
        ("file.write", "n1", "after", "T", {}),
    ]
    return [
        event(
            op,
            node,
            f"app:{loc}#1",
            **{
                "pid": int(node[1:]),
                "role": node[0],
                "seq": seq,
                "t_ns": 10 * seq,
                "end_ns": 10 * seq + 1,
                "thread": thread,
                **fields,
            },
        )
        for seq, (op, node, loc, thread, fields) in enumerate(rows, 1)
    ]


def learnt(events: list[Event]) -> learning.Learnt:
    points = [point_of(one) for one in events if one.kind in ("net", "file")]
    given = msgspec.structs.replace(history(points), fault_free=(1,), columns=lambda _: Columns.of(events))
    return learning.Learnt(Fcatch.Options(), given, {Fcatch.Options().crash: []})


def test_predictions_and_rules_come_from_the_runs_that_were_learnt_from() -> None:
    free, limited = learnt(waiting()), learnt(waiting(limit_ns=10**12))
    assert [(report.kind, "app:report#1" in report.spot) for report in free.reports()] == [("awaited", True)]
    assert free.rules() == {"awaited": Rules(1, {}), "left": Rules(0, {}), "doubtful": Rules(0, {})}
    assert limited.reports() == ()
    assert limited.rules()["awaited"] == Rules(0, {LIMITED: 1})
    assert free.crash_times()[Fcatch.Options().crash] == CrashTime(0, 0, reports.spots_by_kind(free.reports()))
    assert [len(part) for part in free.analyses()] == [1, 1, 1], "one fault-free run: source, awaited, left"


def test_the_heap_is_compared_on_the_same_runs() -> None:
    found = learnt(waiting()).heap({"with": (3.0,), "without": (2.0,)})
    assert {name: (one.reports, one.run_s) for name, one in found.items()} == {
        "with": ({"awaited": 1, "left": 0, "doubtful": 0}, (3.0,)),
        "without": ({"awaited": 1, "left": 0, "doubtful": 0}, (2.0,)),
    }
    assert all(len(one.analysis_s) == learning.ROUNDS for one in found.values())


def test_pairs_are_counted_by_rule() -> None:
    assert learning.rules_of(["", "a", "b", "a", ""]) == Rules(2, {"a": 2, "b": 1})


def test_accesses_to_the_heap_can_be_left_out() -> None:
    events = [event(op, seq=seq, t_ns=seq) for seq, op in enumerate(("file.write", "heap.read", "lock.acquire", "heap.write"))]
    left = learning.without_heap(Columns.of(events))
    assert [one.op for one in left.events()] == ["file.write", "lock.acquire"]


# --- tables


def test_table_3_counts_what_was_not_reached_and_adds_up() -> None:
    reports = (
        Report("awaited", "a", "confirmed", ("it hangs",)),
        Report("awaited", "b", "confirmed", ("it hangs",)),
        Report("awaited", "c", "false"),
        Report("awaited", "d", "not_fired"),
        Report("awaited", "e"),
        Report("left", "f", "benign"),
        Report("doubtful", "g", "confirmed", ("it is lost",)),
    )
    head, first, second, third, total, *_ = lines_of(tables.table_3([Row("system", reports), Row("unmeasured")]))
    assert head[2:4] == ["reports", "tried"]
    assert first == ["system", "awaited message", "5", "4", "2", "0", "0", "1", "1", "1", "1", "50%"]
    assert second == ["system", "left-behind write", "1", "1", "0", "0", "1", "0", "0", "0", "0", "0%"]
    assert third == ["system", "doubtful write", "1", "1", "1", "0", "0", "0", "0", "0", "1", "100%"]
    assert total == ["total", *first[1:]]


def test_table_4_adds_one_traced_run_one_crash_and_their_analysis() -> None:
    times = Times((1.0, 2.0, 9.0), (2.8,), (2.0,), (3.0, 3.5, 4.0), (0.5,), (0.25,), (0.75,))
    assert (times.overall, times.slowdown, times.crash_slowdown) == (7.0, 3.5, 2.5)
    shown = ["2.00", "2.80", "2.00", "3.50", "0.50", "0.25", "0.75", "7.00", "3.50×", "2.50×"]
    assert lines_of(tables.table_4([Row("system", times=times)]))[1] == ["system", *shown]
    assert Times((), (), (), (), (), (), ()).slowdown is None


def test_table_5_has_a_row_for_each_rule_of_any_target() -> None:
    doubtful = Rules(0, {"only listed": 4})
    one = Row("one", rules={"awaited": Rules(3, {"limited": 2}), "left": Rules(0, {"seen": 7}), "doubtful": doubtful})
    other = Row("other", rules={"awaited": Rules(1, {"for work": 5}), "left": Rules(2, {})})
    assert lines_of(tables.table_5([one, other, Row("unmeasured")])) == [
        ["Kind", "Rule or doubt", "one", "other"],
        ["awaited message", "limited", "2", "0"],
        ["awaited message", "for work", "0", "5"],
        ["awaited message", "kept", "3", "1"],
        ["left-behind write", "seen", "7", "0"],
        ["left-behind write", "kept", "0", "2"],
        ["doubtful write", "only listed", "4", "0"],
    ]


def test_the_time_of_the_crash_is_compared_by_places_and_bugs() -> None:
    reports = (Report("left", "f", "confirmed", ("it is lost",)), Report("awaited", "a", "confirmed", ("it hangs",)))
    times = {
        "early": CrashTime(2, 1, {"awaited": ("a",), "left": ("f", "g"), "doubtful": ()}),
        "late": CrashTime(2, 2, {"awaited": ("a",), "left": ("g",), "doubtful": ("h",)}),
    }
    rows = lines_of(tables.sensitivity([Row("system", reports, crash_times=times)]))
    assert rows[1] == ["system", "early", "2", "1", "1", "2", "0", "1 + 1 + 0", "2 of 2"]
    assert rows[2] == ["system", "late", "2", "2", "1", "1", "1", "1 + 1 + 0", "1 of 2, without: it is lost"]
    without_hunt = lines_of(tables.sensitivity([Row("system", crash_times=times)]))
    assert without_hunt[1][-1] == "–"


def test_the_heap_is_compared_by_ratios() -> None:
    heap = {
        "with": Heap({"awaited": 2, "left": 5, "doubtful": 7}, (3.0,), (0.5,)),
        "without": Heap({"awaited": 1, "left": 4, "doubtful": 6}, (2.0,), (0.25,)),
    }
    rows = lines_of(tables.heap_effect([Row("system", heap=heap)]))
    assert rows[1] == ["system", "with", "2", "5", "7", "3.00", "0.50", "1.50×", "2.00×"]
    assert rows[2][-2:] == ["1.00×", "1.00×"]


def test_names_are_medians_over_pairs_of_runs() -> None:
    names = NamesShared((10, 30), (90.0, 100.0), (100.0, 100.0))
    assert lines_of(tables.names_shared([Row("system", names=names)]))[1] == ["system", "20", "95.0 %", "100.0 %"]


def test_bugs_of_both_hunts_are_compared() -> None:
    hunts = (
        Cell("fcatch", runs=9, seconds=30.0, reports=(Found("it hangs", "found", 4, 12.0),)),
        Cell("random", runs=400, seconds=900.0, reports=(Found("it is lost", "found", 7, 20.0),)),
    )
    _, *rows = lines_of(tables.found_by([Row("system", hunts=hunts)]))
    assert rows[:2] == [["system 1", "✓ 4 (12 s)", "✗ 400 (900 s)"], ["system 2", "✗ 9 (30 s)", "✓ 7 (20 s)"]]
    assert rows[2:] == [["system 1: it hangs"], ["system 2: it is lost"]]


def test_parts_that_were_not_measured_have_no_table() -> None:
    assert tables.report([Row("system")]) == ""
    assert tables.report([Row("system", trouble=("it cannot start",))]) == "system: it cannot start"


# --- targets and options


def test_the_command_line_has_defaults_for_everything() -> None:
    options = bench.parse([])
    assert (options.targets, options.parts, options.budget_s) == (tuple(bench.PACKS), bench.PARTS, 600)
    some = bench.parse(["--targets", "rq,dask", "--parts", "names", "--random-runs", "5", "--seed", "3"])
    assert (some.targets, some.parts, some.random_runs, some.seed) == (("rq", "dask"), ("names",), 5, 3)


@pytest.mark.parametrize("words", ["--targets nobody", "--parts best", "--budget long", "--random-runs 0"])
def test_invalid_arguments_are_refused(words: str) -> None:
    with pytest.raises(SystemExit):
        bench.parse(words.split())


@pytest.mark.parametrize("target", sorted(bench.PACKS.keys() - {"zookeeper"}))  # its release must be there to be loaded
def test_a_campaign_has_the_packs_configuration_and_its_own_folder(target: str, tmp_path: Path) -> None:
    config = bench.configuration(target, "hunt", 7, tmp_path)
    own = load(bench.EXAMPLES / target)
    assert (config.dir, config.hunt.seed) == (tmp_path / target / "hunt", 7)
    assert (config.checkers, config.workload, config.faults) == (own.checkers, own.workload, own.faults)
    assert {name: str(config.params[name]) for name in bench.PACKS[target]} == bench.PACKS[target]


def test_random_runs_have_one_crash_each(tmp_path: Path) -> None:
    config = bench.configuration("granary", "random", 0, tmp_path)
    faults = bench.only_crashes(config).faults
    assert (faults.kinds, faults.max_steps) == (("crash", "reboot"), 1)
    assert faults.roles == config.faults.roles


def test_a_target_that_cannot_run_keeps_the_reason_and_the_other_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: Any) -> None:
        raise bench.UserError("the cluster fails without any fault")

    monkeypatch.setattr(bench, "fault_free_runs", lambda *_: {})
    monkeypatch.setattr(bench, "learnt", refuse)
    monkeypatch.setattr(bench, "triggered", lambda *_: {"reports": (Report("left", "a"),)})
    monkeypatch.setattr(bench, "random_crashes", lambda *_: Cell("random", runs=5))
    row = bench.row_of("granary", bench.parse(["--parts", "predict,trigger,random"]), tmp_path)
    assert (len(row.reports), [cell.mode for cell in row.hunts]) == (1, ["random"])
    assert row.trouble == ("the cluster fails without any fault",)


def test_the_summary_can_be_read_again() -> None:
    rows = [Row("system", (Report("left", "a", "false"),), Times((1.0,), (), (2.0,), (3.0,), (0.0,), (0.5,), (0.5,)))]
    told = bench.summary(rows, OPTIONS)
    assert told["figures"]["system"]["slowdown"] == 6.0
    assert told["figures"]["system"]["reports"]["left"]["false"] == 1
    assert msgspec.convert(told["rows"], list[Row]) == rows
