"""Plans from files: valid ones are read, and every mistake is reported with its position."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tables import for_each

from undermine.exchange import plan_file
from undermine.model.errors import UserError
from undermine.model.faults import Crash, Delay, Error, Partition, Pause, Reboot
from undermine.model.plan import At, Compare, FirstUnseen, Plan, Step, Then, When
from undermine.model.point import Point
from undermine.testing import point

BY_HAND: dict[str, Any] = {
    "steps": [{"trigger": {"trigger": "at", "point": {"op": "file.write", "node": "s1"}}, "fault": {"fault": "crash"}}]
}
MEANT = Plan((Step(At(Point.of({"op": "file.write", "node": "s1"})), Crash()),))


def parse(document: Any) -> tuple[Plan, ...]:
    return plan_file.parse(json.dumps(document).encode(), "plan.json")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda plan: plan,
        lambda plan: [plan],
        lambda plan: {"plan": plan},
        lambda plan: {"plans": [plan]},
        lambda plan: [{"plan": plan}],
        lambda plan: {"predicted": [{"strategy": "random", "summary": "", "plans": [plan]}], "points": 3},
    ],
)
def test_a_plan_is_found_at_every_allowed_place(wrap: Callable[[Any], Any]) -> None:
    assert parse(wrap(BY_HAND)) == (MEANT,)


def test_a_list_keeps_its_order() -> None:
    other = {**BY_HAND, "seed": 7}
    assert [plan.seed for plan in parse([BY_HAND, other, BY_HAND])] == [0, 7, 0]


def test_a_plan_of_the_tool_is_read_back_unchanged() -> None:
    at = At(point(), "after", 3)
    plan = Plan(
        (
            Step(Then(at, At(point(loc="app:read#2"))), Partition(("n1",), level="network"), at),
            Step(When((Compare("n1.term", ">", "3"),)), Reboot(1.5)),
            Step(FirstUnseen(("op", "loc"), (point(),)), Error("ENOSPC", "disk")),
            Step(at, Delay(2.0, "operation")),
            Step(Then(at, at, same="node"), Delay(), same="process"),
            Step(at, Pause(1.0, ("n1",))),
        ),
        9,
        "random",
        "why",
    )
    alike = Plan((Step(When((Compare("n1.term", ">", "3"),)), Reboot(1.5), alike=(("n1", "n2"),)),))
    kind = Point.of({"node": "n1", "target": "peer:n2", "state": "LEFT, ∅"})
    ends = FirstUnseen(("node", "target", "state"), (kind,), state=(("n1.x",),), involves=("n1",), wanted=kind)
    ending = Plan((Step(When((Compare("n1.term", ">", "3"),)), Partition(("n1",)), ends),))
    for one in (plan, alike, ending):
        (read,) = plan_file.parse(msgspec.json.encode(one), "plan.json")
        assert read == one
        assert read.id == one.id


def test_a_point_by_hand_may_have_a_content() -> None:
    document = copy.deepcopy(BY_HAND)
    document["steps"][0]["trigger"]["point"]["content"] = "k3"
    (plan,) = parse(document)
    assert plan.steps[0].trigger == At(Point.of({"op": "file.write", "node": "s1", "content": "k3"}))


def test_a_point_by_hand_has_the_same_identity_whatever_the_order_of_its_keys() -> None:
    turned = copy.deepcopy(BY_HAND)
    turned["steps"][0]["trigger"]["point"] = {"node": "s1", "op": "file.write"}
    listed = copy.deepcopy(BY_HAND)
    listed["steps"][0]["trigger"]["point"] = {"items": [["op", "file.write"], ["node", "s1"]]}
    assert parse(turned) == parse(listed) == (MEANT,)


def put(*path: Any, value: Any) -> Any:
    document = copy.deepcopy(BY_HAND)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


TRIGGER = ("steps", 0, "trigger")
AT = BY_HAND["steps"][0]["trigger"]


@for_each(
    ("document", "said"),
    [
        (5, "a plan must be an object with steps, not 5"),
        ([], "it has no plan"),
        ({}, "a plan needs steps"),
        ([BY_HAND, {"a": 1}], r"plan\.json: \[1\]: a plan needs steps"),
        ({"plan": {"x": 1}}, r"plan\.json: plan: a plan needs steps"),
        ({"steps": {}}, r"steps: expected `array`"),
        (put("seeed", value=1), "the plan: 'seeed' is not a known key; did you mean \"seed\""),
        (put(*TRIGGER, "nht", value=2), r"steps\[0\]\.trigger: 'nht' is not a known key; did you mean \"nth\""),
        (put(*TRIGGER, "nth", value="2"), r"steps\[0\]\.trigger\.nth: expected `int`, got `str`"),
        (put(*TRIGGER, "nth", value=0), r"steps\[0\]\.trigger\.nth: must be 1 or more, not 0"),
        (put(*TRIGGER, "place", value="at"), r"steps\[0\]\.trigger\.place: invalid enum value 'at'"),
        (put(*TRIGGER, "trigger", value="att"), r"steps\[0\]\.trigger\.trigger: invalid value 'att'"),
        (put(*TRIGGER, "point", value="x"), r"steps\[0\]\.trigger\.point: a point must be an object like"),
        (
            put(*TRIGGER, "point", "opp", value="x"),
            r"trigger\.point: 'opp' is not a key of a point; did you mean \"op\"",
        ),
        (put(*TRIGGER, "point", "op", value=1), r"trigger\.point\.op: must be text in quotes, not 1"),
        (put(*TRIGGER, "point", value={"items": [["op"]]}), r"trigger\.point\.items\[0\]: expected"),
        (put("steps", 0, "fault", value={"fault": "crsh"}), r"steps\[0\]\.fault\.fault: invalid value 'crsh'"),
        (put("steps", 0, "fault", value={"fault": "error", "error": "EVIL"}), r"fault\.error: 'EVIL' is not an error"),
        (
            {"steps": [{"trigger": {"trigger": "at", "point": {"op": "file.map_write"}}, "fault": {"fault": "error"}}]},
            r"steps\[0\]: file\.map_write cannot be answered with an error",
        ),
        (
            put("steps", 0, "fault", value={"fault": "delay", "delay_s": -1}),
            r"steps\[0\]\.fault\.delay_s: -1.0 is not a time",
        ),
        (
            put("steps", 0, "fault", value={"fault": "pause", "pause_s": float("nan")}),
            r"fault\.pause_s: nan is not a time",
        ),
        (put("steps", 0, "smae", value="node"), r"steps\[0\]: 'smae' is not a known key; did you mean \"same\""),
        (put("steps", 0, "same", value="host"), r"steps\[0\]\.same: invalid enum value 'host'"),
        (put("steps", 0, "same", value="node"), "steps: step 1 can never fire: .* no step is before it"),
        (put("steps", 0, "until", value={**AT, "nth": -1}), r"steps\[0\]\.until\.nth: must be 1 or more"),
        ({"steps": [{"trigger": AT}]}, r"steps\[0\]: object missing required field `fault`"),
        (
            put("steps", 0, "trigger", value={"trigger": "then", "first": AT, "second": {**AT, "nth": 0}}),
            r"trigger\.second\.nth: must be",
        ),
        (
            put("steps", 0, "trigger", value={"trigger": "first_unseen", "keys": ["lco"]}),
            r"trigger\.keys: 'lco' is not a key of a point",
        ),
        (
            put("steps", 0, "trigger", value={"trigger": "when", "state": [{"variable": "term", "op": "=="}]}),
            r"state\[0\]\.variable: 'term' must name its node",
        ),
    ],
)
def test_an_error_names_the_place_of_the_mistake(document: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse(document)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"steps": [\n  {"a" 1}]}', r"plan\.json:2: .* not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", r"plan\.json:1: .* not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"steps":' + b'{"a":' * 900 + b"1" + b"}" * 901, "plan"),
    ],
)
def test_text_that_is_not_json_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan_file.parse(data, "plan.json")


def test_a_file_that_is_too_large_or_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(UserError, match="cannot be read"):
        plan_file.read(path)
    path.write_text(json.dumps(BY_HAND))
    assert plan_file.read(path) == (MEANT,)
    monkeypatch.setattr(plan_file, "BYTES_MAX", 10)
    with pytest.raises(UserError, match="larger than"):
        plan_file.read(path)


def test_the_example_in_the_documentation_is_valid() -> None:
    text = Path(__file__).parents[2].joinpath("docs/replay.md").read_text()
    (block,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (plan,) = plan_file.parse(block.encode(), "docs")
    assert [type(step.fault) for step in plan.steps] == [Reboot, Partition]
