"""The labels of judged findings, and the figures that they lead to."""

from __future__ import annotations

import re

from bench.triage import HERE, NOT_JUDGED, TARGETS, Judged, Label, figures, matches, read_labels
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point

HUNTS = {("now", "t"): 1, ("now", "silent"): 2, ("before", "t"): 1}


def finding(symptom: str, op: str = "db.write", when: str = "a worker stops") -> Finding:
    plan = Plan((Step(At(Point.of({"op": op})), Crash()),))
    return Finding("F1", symptom, symptom, plan, (1,), ("random",), (), when=when)


def judged(judgement: str, cause: str = "", checkout: str = "now", worst: bool = True, seed: int = 0) -> Judged:
    return Judged("t", checkout, seed, "F1", "name", "title", "2/2", judgement, cause, worst)  # type: ignore[arg-type]


def test_each_label_names_a_target_and_has_valid_patterns() -> None:
    for label in read_labels(HERE / "bench" / "triage.toml"):
        assert label.target in TARGETS, label
        assert re.compile(label.symptom), label
        assert re.compile(label.when), label
        assert re.compile(label.at), label
        assert label.because, label


def test_a_label_matches_the_whole_symptom_and_if_asked_for_the_circumstances_and_the_moment() -> None:
    label = Label("t", "job lost", "c", "bug", "source", when="worker stops")
    assert matches(label, finding("job lost"))
    assert matches(label, finding("job lost", when=""))
    assert not matches(label, finding("another job lost"))
    assert not matches(label, finding("job lost", when="redis stops"))
    assert matches(Label("t", "job lost", "c", "bug", "source", at="db.write"), finding("job lost"))
    assert not matches(Label("t", "job lost", "c", "bug", "source", at="db.write"), finding("job lost", "file.write"))


def test_a_second_finding_for_a_bug_lowers_precision_too() -> None:
    found = [judged("bug", "a"), judged("bug", "a"), judged("bug", "b", worst=False), judged("by design"), judged(NOT_JUDGED)]
    row = next(row for row in figures(found, HUNTS) if (row["checkout"], row["target"]) == ("now", "t"))
    assert (row["findings"], row["bugs"], row["precision"]) == (5, 2, 0.4)
    assert row["findings_for_a_cause"] == 1.5
    assert row["worst_in_title"] == 0.8
    assert row["judgements"] == {"bug": 3, "by design": 1, NOT_JUDGED: 1}


def test_checkouts_are_counted_apart() -> None:
    found = figures([judged("bug", "a"), judged("bug", "a", "before")], HUNTS)
    rows = {(row["checkout"], row["target"]): row["bugs"] for row in found}
    assert rows == {("before", "all"): 1, ("before", "t"): 1, ("now", "all"): 1, ("now", "t"): 1, ("now", "silent"): 0}


def test_the_same_bug_in_two_hunts_is_no_second_finding_for_a_cause() -> None:
    row, _ = figures([judged("bug", "a"), judged("bug", "a", seed=1)], {("now", "t"): 2})
    assert (row["hunts"], row["bugs"], row["precision"], row["findings_for_a_cause"]) == (2, 2, 1.0, 1.0)


def test_a_target_without_findings_has_a_row() -> None:
    row = next(row for row in figures([], HUNTS) if row["target"] == "silent")
    assert (row["hunts"], row["findings"], row["precision"]) == (2, 0, None)
