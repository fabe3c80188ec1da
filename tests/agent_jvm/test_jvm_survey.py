"""Surveys: the agent finds paths to plain values in the target's own objects, and samples them like variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fake_tool import FakeTool, Outcome
from jdks import compile_java, run_java

HERE = Path(__file__).resolve().parent
SAMPLE = "variable.sample"
Texts = dict[str, list[tuple[str, str | None]]]


def found(outcome: Outcome) -> Texts:
    """By path, the keys and texts of the samples, in order; None: absent."""
    paths: Texts = {}
    for event in outcome.of(SAMPLE):
        assert event.size or not event.content
        path = event.target.removeprefix(":SurveyTarget.")
        paths.setdefault(path, []).append((event.resource, event.content if event.size else None))
    return paths


def test_fields_elements_and_their_fields_are_found(survey_program: Any) -> None:
    paths = found(survey_program().seen("once"))
    assert paths["Server.epoch"] == [("", "1")]
    assert paths["Server.term"] == [("", "3")]
    assert paths["Server.leader"] == paths["Server.vote"] == [("", "null")]
    assert paths["Server.members"] == [("", "[s1]")]
    assert paths["Server.view[*][1]"] == [("s2", "6")]
    assert sorted(paths["Server.peers[*.id].state"]) == [("p0", "UP"), ("p1", "UP"), ("p2", "UP")]
    assert sorted(paths["Server.byPeer[*.id]"]) == [("p0", "10"), ("p1", "11"), ("p2", "12")]
    assert paths["round"] == [("", "0")]
    assert paths["STATES[*]"] == [("s2", "DOWN")]


def test_constants_fractions_and_objects_of_the_jdk_are_left_out(survey_program: Any) -> None:
    """Nor is a class initialised, or an object with a path of its own entered."""
    paths = found(survey_program().seen("once"))
    words = ("number", "thread", "later", "load", "LIMIT", "Late", "node", "Peer.", "Node.")
    assert not [path for path in paths if any(word in path for word in words)]


def test_an_instance_belongs_to_its_base_class_unless_that_has_many(survey_program: Any) -> None:
    paths = found(survey_program().seen("many"))
    assert paths["Node.epoch"] == [("", "1")]
    assert not [path for path in paths if path.startswith(("Server.", "Part."))]


def test_changes_are_sampled_and_new_objects_are_entered(survey_program: Any) -> None:
    paths = found(survey_program().seen("changes"))
    epochs = [int(text or 0) for _, text in paths["Server.epoch"]]
    assert epochs == sorted(set(epochs))
    assert len(epochs) > 3
    assert paths["Server.leader"] == [("", "null"), ("", "<Peer>")]
    assert paths["Server.leader.id"] == paths["Server.vote.id"]


def test_only_the_configuration_starts_a_survey(survey_program: Any) -> None:
    assert found(survey_program(survey=False).seen("once")) == {}


def test_fields_in_a_module_that_opens_nothing_are_read(tmp_path: Path, java: Path, jar: Path) -> None:
    classes = compile_java(tmp_path / "classes", *sorted((HERE / "closed").iterdir()), release=11)
    tool = FakeTool(tmp_path)
    tool.packages, tool.survey = ["closed"], True
    tool.variables = [{"node": "s1", "name": "term", "path": "closed:Node.term", "slots": {}}]
    options = ("--module-path", str(classes), "--add-modules", "closed")
    outcome = run_java(tool, java, tmp_path, "closed.Node", options=options).ok()
    tool.close()
    assert {event.target: event.content for event in outcome.of(SAMPLE)} == {"term": "4", "closed:Node.term": "4"}
