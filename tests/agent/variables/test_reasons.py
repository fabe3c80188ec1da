"""A path that leads nowhere: the agent says at which part."""

from __future__ import annotations

import pytest
from fake_tool import FakeTool
from variable_samples import SEND, reasons, samples, variable

TARGET = """
    class Node:
        kind = "store"
        def __init__(self):
            self.peers = {"s2": (1, 2)}
            self.none = {}
            self.odd = {object(): 1}
        @property
        def computed(self):
            raise SystemExit("code of the target runs")
    class Unused:
        x = 1
    node = Node()
    number = 7
    send()
"""

PATHS = [
    ("missing.x", "__main__ has no missing"),
    ("Unused.y", "the class Unused has no instance"),
    ("Node.pears", "Node (Node) has no plain attribute pears (but peers)"),
    ("Node.unlike", "Node (Node) has no plain attribute unlike"),
    ("nod.x", "__main__ has no nod (but node, Node)"),
    ("Node.computed", "Node (Node) has no plain attribute computed"),
    ("node.peers[s9]", "node.peers (dict) has no key s9"),
    ("node.peers[*].x", "node.peers[s2] (tuple) has no plain attribute x"),
    ("node.peers[*][7]", "node.peers[s2] (tuple) has no key 7"),
    ("node.none[*]", "node.none (dict) has no element"),
    ("node.odd[*]", "node.odd (dict) has no element with a plain key"),
    ("node.peers[*.id]", "node.peers (dict) has no element with a plain key"),
    ("number[*]", "number (int) isn't a map, list or set"),
]


@pytest.mark.parametrize(("path", "why"), PATHS, ids=[path for path, _ in PATHS])
def test_the_part_that_leads_nowhere_is_named(tool: FakeTool, path: str, why: str) -> None:
    tool.variables = [variable(path)]
    assert reasons(tool.run(SEND + TARGET)) == [why]


def test_a_module_that_is_not_imported_is_named(tool: FakeTool) -> None:
    tool.variables = [{**variable("x"), "path": "no.such.module:Other.x"}]
    assert reasons(tool.run(SEND + TARGET)) == ["the module no.such.module isn't imported"]


def test_a_class_of_the_program_itself_is_found_under_another_name(tool: FakeTool) -> None:
    tool.variables = [{**variable("x"), "path": "script:Node.x"}]
    assert reasons(tool.run(SEND + TARGET)) == ["the module script isn't imported (but __main__ has Node)"]


def test_reasons_are_recorded_once_and_end_with_the_first_value(tool: FakeTool, any_python: str) -> None:
    tool.python = any_python
    tool.variables = [variable("state[*]")]
    outcome = tool.run(
        SEND
        + """
    send()
    send()
    state = {}
    send()
    send()
    state["a"] = 1
    send()
    state.clear()
    send()
    del state
    send()
    """
    )
    assert reasons(outcome) == ["__main__ has no state", "state (dict) has no element"]
    assert samples(outcome) == [("a", "1"), ("a", None)]
