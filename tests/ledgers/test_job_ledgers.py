"""Jobs: what was handed in, and how often it was done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_simulator import Story

from undermine.ledgers import Ledger, runs_of_jobs
from undermine.model.errors import UserError


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
