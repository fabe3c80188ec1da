"""Relations between two values."""

from __future__ import annotations

import pytest

from undermine.analysis.agreement.relations import Relation, elements_of, number_of, relations_between
from undermine.analysis.agreement.samples import KnownValue


@pytest.mark.parametrize(
    ("one", "other", "holding", "failing"),
    [
        ("a", "a", {"=="}, set()),
        ("a", "b", set(), {"=="}),
        (None, "a", set(), {"=="}),
        (None, None, set(), set()),
        ("1", "2", {"<="}, {"==", ">="}),
        ("9", "10", {"<="}, {"==", ">="}),
        ("1", "1.0", {"==", "<=", ">="}, set()),
        ("9223372036854775807", "9223372036854775808", {"<="}, {"==", ">="}),
        ("{a}", "{a, b}", {"⊆"}, {"==", "set ==", "⊇"}),
        ("{a, b}", "[b, a]", {"set ==", "⊆", "⊇"}, {"=="}),
        ("a", "{a, b}", {"∈"}, {"=="}),
        ("[]", "a", set(), {"==", "∋"}),
    ],
)
def test_relations_between_two_values(one: KnownValue, other: KnownValue, holding: set[Relation], failing: set[Relation]) -> None:
    found = relations_between(one, other)
    assert {relation for relation, holds in found.items() if holds} == holding
    assert {relation for relation, holds in found.items() if not holds} == failing


def test_a_container_that_was_cut_has_no_elements() -> None:
    assert elements_of("{a, b, c~12ab34cd") is None


def test_nothing_is_said_about_elements_that_agents_did_not_list() -> None:
    assert elements_of("{a, b, …40}") is None
    assert elements_of("[…5000]") is None
    assert elements_of("{a…, b}") == {"a…", "b"}
    assert set(relations_between("{b}", "{a, …40}")) <= {"==", "∋"}
    assert set(relations_between("b", "{a, …40}")) == {"=="}


def test_texts_that_only_look_like_numbers_are_texts() -> None:
    assert [number_of(text) for text in ("1_000", "0x10", "nan", "", "1.2.3", None)] == [None] * 6
    assert number_of("-3") == -3
    assert number_of("1e3") == 1000.0
