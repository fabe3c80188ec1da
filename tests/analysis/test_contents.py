"""Contents are part of points where they recur."""

from __future__ import annotations

from undermine.analysis.contents import CONTENTS_MAX, Contents, choose
from undermine.analysis.points import points_of
from undermine.model.columns import Columns
from undermine.model.event import Event, Trace
from undermine.testing import event


def sent(*contents: str, node: str = "n1", kind: str = "append") -> list[Event]:
    return [event("msg.send", node, target=f"{kind} peer:n2", content=content) for content in contents]


def chosen(*runs: list[Event]) -> Contents:
    return choose(Columns.of(events) for events in runs)


APPEND = ("msg.send", "append peer:n2")


def test_a_content_is_used_if_every_run_that_shows_the_operation_shows_the_same_contents() -> None:
    assert chosen(sent("1", "2"), sent("2", "1", "1"), [event()]) == Contents({"n1": [APPEND]})


def test_contents_that_differ_from_run_to_run_are_left_out() -> None:
    made = chosen(sent("1", "2"), sent("1", "3"))
    assert made == Contents({}, {"msg.send append peer:n2 on n1": "its contents differ from run to run"})


def test_each_node_and_operation_is_judged_by_itself() -> None:
    one = [*sent("1"), *sent("5", node="n2"), *sent("a", kind="vote")]
    two = [*sent("1"), *sent("6", node="n2"), *sent("a", kind="vote")]
    made = chosen(one, two)
    assert made.used == {"n1": [APPEND, ("msg.send", "vote peer:n2")]}
    assert list(made.left_out) == ["msg.send append peer:n2 on n2"]


def test_an_occurrence_without_a_content_counts() -> None:
    assert chosen(sent("1", ""), sent("1", "")).used == {"n1": [APPEND]}
    assert chosen(sent("1", ""), sent("1")).used == {}


def test_operations_without_contents_are_not_listed() -> None:
    assert chosen(sent("", ""), [event()]) == Contents()


def test_too_many_contents_would_make_too_many_points() -> None:
    many = sent(*map(str, range(CONTENTS_MAX + 1)))
    assert chosen(many, many).left_out == {"msg.send append peer:n2 on n1": f"it has more than {CONTENTS_MAX} contents"}
    assert chosen(many[1:], many[1:]).used == {"n1": [APPEND]}


def test_only_contents_that_are_used_make_points() -> None:
    contents = Contents({"n1": [APPEND]})
    kept = contents.kept([*sent("1", "2"), *sent("3", "4", kind="vote"), *sent("5", node="n2")])
    assert [each.content for each in kept] == ["1", "2", "", "", ""]
    assert sorted(seen.point.get("content") for seen in points_of(Trace(kept), (), 10**18)) == ["", "", "1", "2"]
