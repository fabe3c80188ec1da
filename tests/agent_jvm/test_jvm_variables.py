"""Variables of a program: their samples, and the moments at which they are read."""

from __future__ import annotations

from typing import Any

import pytest
from fake_tool import Outcome

from undermine.agent_protocol import WIRE

SAMPLE = "variable.sample"
MEMBERSHIP = ":VariableTarget.Membership."


def variable(name: str, path: str, **slots: int) -> dict[str, Any]:
    return {"node": "s1", "name": name, "path": path, "slots": slots}


def samples(outcome: Outcome) -> list[str]:
    """The samples in order: `name[key]=text`. The reasons why a path leads nowhere are left out."""
    found = []
    for event in outcome.of(SAMPLE):
        assert event.end_ns == event.t_ns
        assert event.size in (0, 1)
        if event.content and not event.size:
            continue
        key = f"[{event.resource}]" if event.resource else ""
        found.append(f"{event.target}{key}={event.content if event.size else '∅'}")
    return found


def test_changed_values_are_recorded_before_the_operation(variables_program: Any) -> None:
    program = variables_program(
        variable("status", MEMBERSHIP + "view[*]", s2=0, s3=1),
        variable("epoch", MEMBERSHIP + "epochs[*.text][1]"),
        variable("leader", MEMBERSHIP + "leader"),
        variable("term", MEMBERSHIP + "term"),
        variable("missing", MEMBERSHIP + "nothing"),
    )
    outcome = program.seen("changes")
    first = ["status[s2]=UP", "epoch[a]=6", "leader=null", "term=1", "missing=∅"]
    second = ["status[s3]=DOWN", "leader=<Id>", "term=2"]
    last = ["status[s2]=∅", "epoch[a]=∅"]
    assert samples(outcome) == first + second + last
    seen = [event.op for event in outcome.trace if event.op in ("net.send", SAMPLE)]
    assert seen == [SAMPLE] * 6 + ["net.send"] + [SAMPLE] * 3 + ["net.send"] * 2 + [SAMPLE] * 2 + ["net.send"]
    assert (program.tool.slot(0), program.tool.slot(1)) == (None, "DOWN")
    send = outcome.of("net.send")[0]
    sample = outcome.of(SAMPLE)[0]
    assert (sample.thread, sample.stack) == (send.thread, send.stack)


@pytest.mark.parametrize(
    ("scenario", "value", "op"),
    [
        ("receive", 20, "net.recv"),
        ("connect", 30, "net.connect"),
        ("thread", 40, "thread.end"),
        ("select", 50, "poll"),
        ("queue", 60, "queue.get"),
        ("task", 70, "handover.take"),
    ],
)
def test_values_are_read_where_messages_are_and_extents_end(variables_program: Any, scenario: str, value: int, op: str) -> None:
    program = variables_program(variable("term", MEMBERSHIP + "term"))
    outcome = program.seen(scenario)
    assert samples(outcome)[-1] == f"term={value}"
    at = outcome.of(SAMPLE)[-1]
    assert at.thread in {event.thread for event in outcome.of(op)}


def test_values_are_recorded_after_healing_too(variables_program: Any) -> None:
    program = variables_program(variable("term", MEMBERSHIP + "term"))
    program.tool.put(WIRE.state.healed_at, 1)
    assert samples(program.seen("changes")) == ["term=1", "term=2"]


def test_a_map_that_changes_while_it_is_read(variables_program: Any) -> None:
    program = variables_program(variable("status", ":VariableTarget.many[*]"))
    outcome = program.seen("busy")
    assert [text for text in samples(outcome) if "[s2]" in text] == ["status[s2]=UP"]
    assert len(samples(outcome)) > 100


def test_a_class_that_is_not_initialised_is_named(variables_program: Any) -> None:
    program = variables_program(variable("late", ":VariableTarget.Late.value"))
    outcome = program.seen("load", "changes")
    assert [event.content for event in outcome.of(SAMPLE) if event.content] == ["the class Late isn't initialised"]


def test_a_program_without_variables_has_no_samples(variables_program: Any) -> None:
    assert samples(variables_program().seen("changes")) == []
