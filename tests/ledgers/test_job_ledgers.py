"""Jobs: what was handed in, and how often it was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_simulator import Story
from tables import for_each

from undermine.ledgers import Ledger, at_most_lost, runs_of_jobs
from undermine.model.errors import UserError
from undermine.model.faults import Crash, Fault, Pause, PowerLoss, Reboot
from undermine.model.run import NodeInfo, Op, Verdict
from undermine.testing import event, run_view


def recorded(times: str) -> Ledger:
    return runs_of_jobs(times, submit="submit", run="run")  # type: ignore[arg-type]


def listed(times: str) -> Ledger:
    return runs_of_jobs(times, submit="submit", outputs="outputs")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "symptoms"),
    [
        ("at most once", ("", "job run twice")),
        ("at least once", ("job never done", "")),
        ("exactly once", ("job never done", "job run twice")),
    ],
)
def test_how_often_a_job_must_be_done(times: str, symptoms: tuple[str, str]) -> None:
    for count, symptom in ((0, symptoms[0]), (1, ""), (2, symptoms[1])):
        worker = Story().add("submit", job="j")
        for _ in range(count):
            worker.add("run", job="j", client="w")
        worker.add("look", final=True)
        assert recorded(times)(worker.view).symptom == symptom
        reader = Story().add("submit", job="j").add("outputs", value=["j"] * count, final=True)
        assert listed(times)(reader.view).symptom == symptom


def test_a_submission_of_unknown_outcome_may_be_done_or_not() -> None:
    for done in ([], ["j"]):
        story = Story().add("submit", job="j", status="unknown").add("outputs", value=done, final=True)
        assert listed("exactly once")(story.view).answer == "pass"
    story.add("outputs", value=["j", "j"], final=True)
    assert listed("exactly once")(story.view).symptom == "job run twice"


def test_submitting_again_is_no_leave_to_do_it_again() -> None:
    story = (
        Story()
        .add("submit", job="j", status="unknown")
        .add("submit", job="j")
        .add("outputs", value=["j", "j"], final=True)
    )
    assert listed("exactly once")(story.view).symptom == "job run twice"


def test_a_refused_job_is_not_done() -> None:
    story = Story().add("submit", job="j", status="fail").add("outputs", value=["j"], final=True)
    assert listed("at most once")(story.view).symptom == "refused job run"
    story = Story().add("submit", job="j", status="fail").add("submit", job="j").add("outputs", value=["j"], final=True)
    assert listed("exactly once")(story.view).answer == "pass"


def test_an_execution_of_unknown_outcome_counts_neither_way() -> None:
    story = Story().add("submit", job="j").add("run", job="j", status="unknown").add("look", final=True)
    verdict = recorded("exactly once")(story.view)
    assert verdict.text == "it is unknown whether these were done: j"
    story.add("run", job="j")
    assert recorded("exactly once")(story.view).answer == "pass"


def test_nothing_is_called_never_done_before_the_end() -> None:
    story = Story().add("submit", job="j")
    assert recorded("at least once")(story.view).answer == "unknown"
    assert listed("at least once")(story.view).text == "outputs was not read at the end"
    assert recorded("at most once")(story.view).answer == "pass"
    late = Story().add("submit", job="k").add("run", job="k").add("submit", job="j", final=True)
    assert recorded("at least once")(late.view).answer == "pass"
    late.add("outputs", value=["k"], final=True)
    assert listed("at least once")(late.view).answer == "pass"


def test_results_of_all_replicas_count_together() -> None:
    ledger = runs_of_jobs("exactly once", submit="submit", outputs="outputs", by="node")
    story = Story().add("submit", job="i").add("submit", job="j")
    story.add("outputs", value=["i"], node="n1", final=True)
    assert ledger.settled is not None
    assert ledger.settled(story.history) == "not done yet: j"
    story.add("outputs", status="fail", node="n2", final=True)
    assert ledger(story.view).text == "could not be read at the end: outputs of n2"
    story.add("outputs", value=["i"], node="n1", final=True).add("outputs", value=["j"], node="n2", final=True)
    assert ledger(story.view).answer == "pass"
    assert ledger.settled(story.history) == ""
    story.add("outputs", value=["i", "j"], node="n1", final=True).add("outputs", value=["j"], node="n2", final=True)
    assert ledger(story.view).symptom == "job run twice"


def test_what_must_be_done_can_be_listed_and_needs_a_submission_then() -> None:
    ledger = runs_of_jobs("exactly once", submit="submit", outputs="outputs", of=["t1", "t2"], what="task")
    story = Story().add("submit", job="all", status="unknown").add("outputs", value=["t1"], final=True)
    assert ledger(story.view).answer == "pass"
    story.add("submit", job="all", final=True).add("outputs", value=["t1"], final=True)
    verdict = ledger(story.view)
    assert (verdict.symptom, verdict.text) == ("task never done", "1 task never done: t2")
    assert runs_of_jobs("at least once", outputs="outputs", of=["t"])(story.view).symptom == "job never done"


def test_a_second_result_may_still_be_cleaned_up_but_a_second_execution_stays() -> None:
    ledger = listed("at most once")
    assert ledger.settled is not None
    story = Story().add("submit", job="j").add("outputs", value=["j", "j"], final=True)
    assert ledger.settled(story.history) == "present more than once: j"
    assert ledger.settled(story.add("outputs", value=["j"], final=True).history) == ""
    assert ledger.settled(story.add("outputs", value=[], final=True).history) == ""
    twice = Story().add("submit", job="j").add("run", job="j").add("run", job="j").add("look", final=True)
    waits = recorded("exactly once").settled
    assert waits is not None
    assert waits(twice.history) == ""


def test_executions_at_most_once_have_nothing_to_wait_for() -> None:
    assert runs_of_jobs("at most once", run="run").settled is None
    assert (
        runs_of_jobs("at most once", run="run")(Story().add("run", job="j").add("run", job="j").view).answer == "fail"
    )


@pytest.mark.parametrize(
    ("times", "options", "word"),
    [
        ("twice", {"run": "run", "submit": "submit"}, "at most once"),
        ("exactly once", {"submit": "submit"}, "either run= or outputs="),
        ("exactly once", {"submit": "submit", "run": "r", "outputs": "o"}, "either run= or outputs="),
        ("exactly once", {"run": "run"}, "submit= or of="),
    ],
)
def test_nonsense_is_refused(times: str, options: dict[str, str], word: str) -> None:
    with pytest.raises(UserError, match=word):
        runs_of_jobs(times, **options)  # type: ignore[arg-type]


SUBMITTED = st.lists(
    st.tuples(st.sampled_from(("ok", "unknown", "pending", "fail")), st.booleans()), min_size=1, max_size=8
)
"""For each job: how its submission ended, and whether it is done if that is not certain."""


@given(SUBMITTED, st.data())
def test_no_failure_on_queues_that_keep_their_promise_and_failure_once_they_do_not(
    submitted: list[tuple[str, bool]], data: st.DataObject
) -> None:
    story = Story()
    for job, (status, _) in enumerate(submitted):
        story.add("submit", job=job, status=status)
    done = [job for job, (status, late) in enumerate(submitted) if status == "ok" or (status != "fail" and late)]
    done = data.draw(st.permutations(done))
    early = done[: data.draw(st.integers(0, len(done)))]
    story.add("outputs", value=early, final=True).add("outputs", value=done, final=True)
    assert listed("exactly once")(story.view).answer == "pass"
    for job in done:
        doubled = Story(story.ops).add("outputs", value=[*done, job], final=True)
        assert listed("at most once")(doubled.view).symptom == "job run twice"
    for job in (job for job, (status, _) in enumerate(submitted) if status == "ok"):
        lost = Story(story.ops).add("outputs", value=[other for other in done if other != job], final=True)
        assert listed("at least once")(lost.view).symptom == "job never done"


# --- permitted losses

CRASH_NS = 5_000_000_000
BROKER = (NodeInfo("redis", "broker", "h", 1, {"main": 1}, "/d"), NodeInfo("w1", "worker", "h", 2, {"main": 2}, "/d"))


def submitted(end_s: Mapping[str, float], done: Sequence[str] = ()) -> list[Op]:
    """Submissions of half a second each that were acknowledged at these times, and the jobs that were done at the end."""
    ops = [
        Op(n, "c", "submit", "", {"job": job}, "ok", None, "", "workload", int((end - 0.5) * 1e9), int(end * 1e9))
        for n, (job, end) in enumerate(end_s.items())
    ]
    return [*ops, Op(99, "c", "outputs", "", {}, "ok", list(done), "", "final", 2 * CRASH_NS, 2 * CRASH_NS + 1)]


def judged(ops: Sequence[Op], fault: Fault, node: str = "redis", **options: Any) -> Verdict:
    ledger = runs_of_jobs("at least once", submit="submit", outputs="outputs", losses=at_most_lost(**options))
    at = event(node=node, t_ns=CRASH_NS)
    view = run_view(ops=ops, events=[at], faults=[(fault, at)])
    return ledger(view.with_record(msgspec.structs.replace(view.record, nodes=BROKER)))


@for_each(
    ("fault", "node", "options", "symptom"),
    [
        (Reboot(), "redis", {"jobs": 2}, ""),
        (Reboot(), "redis", {"jobs": 2, "role": "broker"}, ""),
        (Reboot(), "redis", {"jobs": 2, "after": "power"}, "job never done"),
        (PowerLoss(), "redis", {"jobs": 2, "after": "power"}, ""),
        (Reboot(), "w1", {"jobs": 2, "role": "broker"}, "job never done"),
        (Pause(), "redis", {"jobs": 2}, "job never done"),
        (Reboot(), "redis", {"jobs": 1}, "too many jobs lost"),
        (Reboot(), "redis", {"jobs": 2, "within_s": 1.5}, ""),
        (Reboot(), "redis", {"jobs": 2, "within_s": 0.8}, "job never done"),
    ],
)
def test_losses_after_a_fault(fault: Fault, node: str, options: dict[str, Any], symptom: str) -> None:
    verdict = judged(submitted({"a": 4.0, "b": 5.2, "c": 4.8}, done=["c"]), fault, node, **options)
    assert verdict.symptom == symptom
    assert verdict.notes == (() if symptom else ("a job was lost after a fault, as the ledger permits",))


def test_a_job_that_was_submitted_after_the_fault_must_be_done() -> None:
    assert judged(submitted({"a": 5.6}), Reboot(), jobs=1).symptom == "job never done"
    both = submitted({"a": 4.0})
    again = [*both[:1], msgspec.structs.replace(submitted({"a": 7.0})[0], index=1), both[1]]
    assert judged(again, Reboot(), jobs=1).symptom == "job never done", "it was acknowledged again later"


def test_without_a_fault_nothing_may_be_lost() -> None:
    ledger = runs_of_jobs("exactly once", submit="submit", outputs="outputs", losses=at_most_lost(3))
    assert ledger(run_view(ops=submitted({"a": 4.0}))).symptom == "job never done"
    assert ledger(run_view(ops=submitted({"a": 4.0}, ["a", "a"]))).symptom == "job run twice"


@given(st.lists(st.floats(0.5, 9.0), min_size=1, max_size=6), st.integers(1, 6), st.data())
def test_exactly_the_permitted_losses_pass(ends: list[float], most: int, data: st.DataObject) -> None:
    end_s = {f"j{n}": end for n, end in enumerate(ends)}
    lost = set(data.draw(st.lists(st.sampled_from(sorted(end_s)), unique=True)))
    ops = submitted(end_s, [job for job in end_s if job not in lost])
    late = {job for job in lost if int((end_s[job] - 0.5) * 1e9) > CRASH_NS}
    expected = "job never done" if late else "too many jobs lost" if len(lost) > most else ""
    assert judged(ops, Crash(), jobs=most).symptom == expected


@for_each(
    ("make", "word"),
    [
        (lambda: at_most_lost(0), "at least 1"),
        (lambda: at_most_lost(1, after=["bomb"]), "'bomb'.*crash"),
        (lambda: runs_of_jobs("at most once", submit="s", outputs="o", losses=at_most_lost(1)), "at least once"),
        (lambda: runs_of_jobs("at least once", submit="s", outputs="o", of=["t"], losses=at_most_lost(1)), "submit="),
    ],
)
def test_losses_that_make_no_sense_are_refused(make: Callable[[], Any], word: str) -> None:
    with pytest.raises(UserError, match=word):
        make()
