"""Replicas that agree in the end, and those that do not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from ledger_simulator import RANDOM, Story

from undermine.ledgers import replicas_agree

LEDGER = replicas_agree(read="members", unordered=True)
NODES = ("n1", "n2", "n3")


def looks(story: Story, **answers: object) -> Story:
    for node, value in answers.items():
        story.add("members", node=node, value=value, status="unknown" if value is None else "ok", final=True)
    return story


def test_the_last_answers_must_be_equal() -> None:
    assert LEDGER(looks(Story(), n1=[1, 2], n2=[2, 1]).view).answer == "pass"
    assert replicas_agree(read="members")(looks(Story(), n1=[1, 2], n2=[2, 1]).view).answer == "fail"
    verdict = LEDGER(looks(Story(), n1=[1, 2], n2=[1]).view)
    assert (verdict.answer, verdict.symptom) == ("fail", "replicas disagree on members")
    assert verdict.evidence == ("n1 returned [1, 2] at 0.000 s", "n2 returned [1] at 0.000 s")


def test_a_replica_may_catch_up() -> None:
    story = looks(Story(), n1=[1], n2=[1, 2])
    assert LEDGER.settled is not None
    assert LEDGER.settled(story.history) == "replicas do not agree on members yet"
    looks(story, n1=[1, 2], n2=[1, 2])
    assert LEDGER(story.view).answer == "pass"
    assert LEDGER.settled(story.history) == ""


def test_a_silent_replica_leaves_it_open_unless_others_disagree() -> None:
    story = looks(Story(), n1=[1], n2=[1], n3=None)
    assert LEDGER(story.view).text == "no answer to members at the end from n3"
    assert LEDGER.settled is not None
    assert "n3" in LEDGER.settled(story.history)
    assert LEDGER(looks(Story(), n1=[1], n2=[2], n3=None).view).answer == "fail"


def test_what_was_said_in_an_earlier_look_is_outdated() -> None:
    story = looks(Story(), n1=["old"], n2=["old"])
    looks(story, n1=["new"])
    assert LEDGER(story.view).answer == "unknown"
    failing = looks(looks(Story(), n1=None, n2=["old"]), n1=["new"])
    assert LEDGER(failing.view).answer == "unknown"


def test_one_that_is_asked_again_at_once_is_in_the_same_look() -> None:
    story = looks(Story(), n1=["x"]).add("members", node="n2", status="fail", final=True)
    assert LEDGER(looks(story, n2=["y"]).view).answer == "fail"
    assert LEDGER(looks(looks(Story(), n1=["x"], n2=None), n2=["x"]).view).answer == "pass"


def test_what_was_cut_off_does_not_count() -> None:
    story = looks(Story(), n1=["x"], n2=["y"]).add("members", node="n1", status="pending", final=True)
    assert LEDGER(story.view).answer == "fail"


def test_only_final_reads_count() -> None:
    story = Story().add("members", node="n1", value=[1]).add("members", node="n2", value=[2])
    assert LEDGER(story.view).text == "the history has no operation 'members'"


def test_one_replica_alone_cannot_agree() -> None:
    assert LEDGER(looks(Story(), n1=[1]).view).text == "only one replica was asked for members"


def test_several_things_are_compared_each_for_itself() -> None:
    ledger = replicas_agree(read="get", by="replica", key="key", view=lambda value: value["v"])
    story = Story()
    for key, replica, value in (("a", 1, 5), ("b", 1, 6), ("a", 2, 5), ("b", 2, 6)):
        story.get(key, {"v": value, "noise": replica}, replica=replica, final=True)
    assert ledger(story.view).answer == "pass"
    story.get("a", {"v": 5}, replica=1, final=True).get("a", {"v": 7}, replica=2, final=True)
    verdict = ledger(story.view)
    assert verdict.text == "replicas disagree on get on a"
    assert len(verdict.evidence) == 2


@pytest.mark.parametrize("raises_at_once", [True, False])
@given(rng=RANDOM)
def test_no_failure_if_all_agree_from_some_try_on(raises_at_once: bool, rng: random.Random) -> None:
    """Tries of a final function that reads in order, retries, gives up or is cut off; the last begins in agreement."""
    assert LEDGER(final_reads(rng, raises_at_once).view).answer != "fail"


@pytest.mark.parametrize("raises_at_once", [True, False])
def test_the_simulated_final_reads_are_interesting(raises_at_once: bool) -> None:
    answers = [LEDGER(final_reads(random.Random(seed), raises_at_once).view).answer for seed in range(200)]
    assert answers.count("pass") > 40


def final_reads(rng: random.Random, raises_at_once: bool) -> Story:
    story = Story()
    tries = rng.randrange(1, 5)
    for number in range(tries):
        settled = number == tries - 1
        cut = rng.randrange(1, 4) if settled and rng.random() < 0.3 else len(NODES)
        for node in NODES[:cut]:
            ok = one_read(story, rng, node, "new" if settled else rng.choice(("old", "new")))
            if not ok and raises_at_once:
                break
    return story


def one_read(story: Story, rng: random.Random, node: str, value: str) -> bool:
    for _ in range(rng.randrange(1, 3)):
        ok = rng.random() < 0.7
        story.add("members", node=node, value=value if ok else None, status="ok" if ok else "fail", final=True)
        if ok:
            return True
    return False
