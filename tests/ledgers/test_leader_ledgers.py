"""Terms and their leaders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from ledger_simulator import Story

from undermine.ledgers import one_leader_a_term

LEDGER = one_leader_a_term()


def said(story: Story, term: object, leader: object, **more: object) -> Story:
    return story.add("leader", value={"term": term, "leader": leader}, **more)  # type: ignore[arg-type]


def test_one_term_has_one_leader() -> None:
    story = said(said(Story(), 1, "a"), 2, "b", node="n2")
    assert LEDGER(story.view).answer == "pass"
    verdict = LEDGER(said(story, 2, "c", client="c9").view)
    assert (verdict.answer, verdict.symptom) == ("fail", "two leaders in one term")
    assert verdict.text == "more than one leader in term 2"
    assert verdict.evidence == (
        "term 2: b leads, according to leader by c1 at n2 at 0.000 s",
        "term 2: c leads, according to leader by c9 at 0.000 s",
    )


def test_nobody_is_no_leader() -> None:
    story = said(said(said(Story(), 1, None), 1, ""), 1, "a")
    assert LEDGER(story.view).answer == "pass"
    assert LEDGER(said(said(Story(), None, "a"), None, "b").view).answer == "unknown"


def test_only_answers_count() -> None:
    story = said(said(Story(), 1, "a"), 1, "b", status="unknown")
    assert LEDGER(story.view).answer == "pass"


def test_any_operations_and_any_form_of_answers_will_do() -> None:
    ledger = one_leader_a_term(
        read=("status", "vote"), term=lambda op: op.value[0], leader=lambda op: op.node if op.value[1] else None
    )
    story = Story().add("status", value=[1, True], node="n1").add("vote", value=[1, False], node="n2")
    assert ledger(story.view).answer == "pass"
    assert ledger(story.add("vote", value=[1, True], node="n3").view).answer == "fail"


def test_nothing_to_see_is_said() -> None:
    assert LEDGER(Story().view).text == "the history has no operation 'leader'"
    assert "no 'term'" in LEDGER(Story().add("leader", value="n1").view).text


TERMS = range(6)


@given(
    st.lists(st.sampled_from("abc"), min_size=len(TERMS), max_size=len(TERMS)),
    st.lists(st.tuples(st.sampled_from(TERMS), st.sampled_from(("c1", "c2"))), min_size=1, max_size=20),
)
def test_old_answers_are_no_failure_but_a_changed_one_is(leaders: list[str], asked: list[tuple[int, str]]) -> None:
    story = Story()
    for term, client in asked:
        said(story, term, leaders[term], client=client)
    assert LEDGER(story.view).answer == "pass"
    for term in {term for term, _ in asked}:
        assert LEDGER(said(Story(story.ops), term, "usurper").view).symptom == "two leaders in one term"
