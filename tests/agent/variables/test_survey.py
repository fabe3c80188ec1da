"""Surveys: the agent finds paths to plain values in the target's own objects, and samples them like variables."""

from __future__ import annotations

import pytest
from fake_tool import FakeTool, Outcome
from variable_samples import SEND

LOOK = (
    SEND
    + """
    import gc, sys
    survey = next(each for each in gc.get_objects() if type(each).__name__ == "Survey")
    def look():
        survey.next_look_ns = survey.next_search_ns = 0
        send()
"""
)


def found(outcome: Outcome) -> dict[str, list[tuple[str, str | None]]]:
    """By path, the keys and texts of the samples, in order; None: absent."""
    paths: dict[str, list[tuple[str, str | None]]] = {}
    for event in outcome.ok().of("variable.sample"):
        paths.setdefault(event.target, []).append((event.resource, event.content if event.size else None))
    return {path.removeprefix("__main__:"): texts for path, texts in paths.items() if path.startswith("__main__:")}


def surveyed(tool: FakeTool, source: str) -> dict[str, list[tuple[str, str | None]]]:
    tool.survey = True
    return found(tool.run(LOOK + source))


def test_attributes_elements_and_their_attributes_are_found(tool: FakeTool, any_python: str) -> None:
    tool.python = any_python
    paths = surveyed(
        tool,
        """
    class Peer:
        def __init__(self, id):
            self.id, self.state, self.seen_at = id, "up", 3.5
    class Node:
        def __init__(self):
            self.term, self.leader, self.lock = 1, None, object()
            self.view = {"s2": ("NORMAL", 1)}
            self.peers = {Peer("a"), Peer("b"), Peer("c")}
            self.members = {"s1", "s2"}
            self.by_peer = {peer: 7 for peer in self.peers}
    node, epoch, LIMIT = Node(), 4, 10
    look()
    """,
    )
    assert paths["Node.term"] == [("", "1")]
    assert paths["Node.leader"] == [("", "None")]
    assert paths["Node.view[*][0]"] == [("s2", "NORMAL")]
    assert paths["Node.members"] == [("", "{s1, s2}")]
    assert sorted(paths["Node.peers[*.id].state"]) == [("a", "up"), ("b", "up"), ("c", "up")]
    assert sorted(paths["Node.by_peer[*.id]"]) == [("a", "7"), ("b", "7"), ("c", "7")]
    assert paths["epoch"] == [("", "4")]
    assert not [path for path in paths if "lock" in path or "seen_at" in path or "LIMIT" in path or path.startswith("Peer")]


def test_changes_are_sampled_and_new_objects_are_entered_at_once(tool: FakeTool) -> None:
    paths = surveyed(
        tool,
        """
    class Peer:
        def __init__(self, id):
            self.id = id
    class Node:
        def __init__(self):
            self.term, self.leader = 1, None
    node, peers = Node(), [Peer("a"), Peer("b"), Peer("c")]
    look()
    node.term, node.leader = 2, peers[1]
    look()
    survey.next_look_ns = 0
    send()
    """,
    )
    assert paths["Node.term"] == [("", "1"), ("", "2")]
    assert paths["Node.leader"] == [("", "None"), ("", "<Peer>")]
    assert paths["Node.leader.id"] == [("", "b")]


def test_an_instance_belongs_to_its_base_class_unless_that_has_many(tool: FakeTool) -> None:
    paths = surveyed(
        tool,
        """
    class Server:
        pass
    class Master(Server):
        def __init__(self):
            self.epoch = 1
    class Part:
        pass
    class Special(Part):
        def __init__(self):
            self.number = 2
    master, parts, special = Master(), [Part() for _ in range(5)], Special()
    look()
    """,
    )
    assert paths["Server.epoch"] == [("", "1")]
    assert paths["Special.number"] == [("", "2")]
    assert not any(path.startswith(("Master", "Part.")) for path in paths)


def test_the_newest_instance_counts(tool: FakeTool) -> None:
    paths = surveyed(
        tool,
        """
    class Node:
        def __init__(self, term):
            self.term = term
    old = Node(1)
    gc.collect()
    gc.disable()
    new = Node(2)
    look()
    """,
    )
    assert paths["Node.term"] == [("", "2")]


def test_a_path_that_changes_too_often_is_given_up(tool: FakeTool) -> None:
    paths = surveyed(
        tool,
        """
    class Node:
        def __init__(self):
            self.count = 0
    node = Node()
    for node.count in range(1100):
        survey.next_look_ns = 0
        send()
    """,
    )
    assert paths["Node.count"][-1] == ("", None)
    assert 900 < len(paths["Node.count"]) <= 1001


def test_no_code_of_the_target_runs(tool: FakeTool) -> None:
    paths = surveyed(
        tool,
        """
    def refuse(*args, **options):
        raise SystemExit("code of the target ran")
    class Meta(type):
        __hash__ = __eq__ = __instancecheck__ = __subclasscheck__ = refuse
    class Odd(metaclass=Meta):
        __slots__ = ("state", "__weakref__")
        __getattr__ = __eq__ = __hash__ = __str__ = __repr__ = __bool__ = __len__ = refuse
        status = property(refuse)
    class Keys(dict):
        __iter__ = __getitem__ = __len__ = items = keys = refuse
    odd = Odd()
    odd.state = Keys(a=1)
    look()
    """,
    )
    assert paths["Odd.state[*]"] == [("a", "1")]
    assert not any("status" in path for path in paths)


def test_between_two_surveys_is_a_pause(tool: FakeTool) -> None:
    paths = surveyed(
        tool,
        """
    counted = 0
    look()
    survey.next_look_ns = 1 << 62
    counted = 1
    send()
    """,
    )
    assert paths["counted"] == [("", "0")]


@pytest.mark.parametrize("survey", [False, True])
def test_only_the_configuration_starts_a_survey(tool: FakeTool, survey: bool) -> None:
    tool.survey = survey
    outcome = tool.run(SEND + "\n    term = 1\n    send()\n")
    assert bool(outcome.ok().of("variable.sample")) is survey
