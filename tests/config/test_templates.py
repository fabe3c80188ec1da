"""Placeholders: each one, literal braces, lists of nodes, and what is said about unknown ones."""

from __future__ import annotations

import sys

import pytest
from tables import for_each

from undermine.config.templates import Entry, NodeFacts, TemplateError, Values, placeholders, render, render_command
from undermine.model.errors import UserError
from undermine.model.run import NodeInfo

S1 = NodeFacts("s1", "store", 1, "10.0.0.1", {"rpc": 7001, "gossip": 7101}, "/run/s1")
S2 = NodeFacts("s2", "store", 2, "10.0.0.2", {"rpc": 7002, "gossip": 7102}, "/run/s2")
M1 = NodeFacts("m1", "master", 1, "10.0.0.3", {"main": 8001}, "/run/m1")
PARAMS: dict[str, str | int | float | bool] = {"level": "info", "size": 3, "rate": 0.5, "sync": True}
VALUES = Values((M1, S1, S2), S1, "/run", "/home/project", params=PARAMS)


@for_each(
    ("template", "text"),
    [
        ("{id} {role} {index}", "s1 store 1"),
        ("{host}:{port}", "10.0.0.1:7001"),
        ("{port.rpc}/{port.gossip}", "7001/7101"),
        ("{dir} {run} {project}", "/run/s1 /run /home/project"),
        ("{python}", sys.executable),
        ("{peers}", "m1=10.0.0.3:8001,s2=10.0.0.2:7002"),
        ("{peers.store}", "s2=10.0.0.2:7002"),
        ("{peers.master}", "m1=10.0.0.3:8001"),
        ("{all.store}", "s1=10.0.0.1:7001,s2=10.0.0.2:7002"),
        ("{nodes.m1.host}:{nodes.m1.port}", "10.0.0.3:8001"),
        ("{nodes.s2.port.gossip}", "7102"),
        ("{params.level}{params.size}{params.rate}{params.sync}", "info30.5true"),
        ('{{"id": "{id}"}}', '{"id": "s1"}'),
        ("{{{id}}}", "{s1}"),
        ("{{id}}", "{id}"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_render(template: str, text: str) -> None:
    assert render(template, VALUES) == text


def test_values_are_not_rendered_again() -> None:
    assert render("{params.x}", Values((S1,), S1, params={"x": "{id}"})) == "{id}"


@for_each(
    ("template", "words"),
    [
        ("--port {prot}", "unknown placeholder {prot}; did you mean {port}?"),
        ("{port.gosip}", "did you mean {port.gossip}?"),
        ("{params.levle}", "did you mean {params.level}?"),
        ("{peers.stroe}", "did you mean {peers.store}?"),
        ("{nodes.s3.port}", "did you mean {nodes.s"),
        ("{ID}", "did you mean {id}?"),
        ("{}", "unknown placeholder {}"),
        ('{"a": 1}', 'write "{{" and "}}"'),
        ("{id", 'lone "{"'),
        ("id}", 'lone "}"'),
        ("{zzzz}", "known here: {id}, {role}, {index}, {host}, {port}, {port.rpc}, {port.gossip}, {dir}"),
        ("{zzzz}", "{nodes.ID.host}, {nodes.ID.port}, {nodes.ID.port.NAME}"),
    ],
)
def test_unknown(template: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        render(template, VALUES)
    assert words in str(caught.value)


def test_the_reader_decides_how_peers_are_written() -> None:
    entries = {"store": Entry("{host}:{port.gossip}", ";"), "master": Entry("{id}@{host}", " ")}
    values = Values((M1, S1, S2), S1, entries=entries)
    assert render("{peers.store}", values) == "10.0.0.2:7102"
    assert render("{all.store}", values) == "10.0.0.1:7101;10.0.0.2:7102"
    assert render("{all.store}", Values((M1, S1, S2), M1, entries=entries)) == "s1@10.0.0.1 s2@10.0.0.2"


def test_an_entry_that_does_not_fit_a_node_names_the_format_and_the_node() -> None:
    values = Values((M1, S1), S1, entries={"store": Entry("{host}:{port.gossip}")})
    with pytest.raises(TemplateError, match=r"\{port\.gossip\}.* node m1 of role master") as caught:
        render("{peers}", values)
    assert caught.value.entry_of == "store"
    assert render("{id}", values) == "s1"


def test_the_workload_has_no_node_of_its_own() -> None:
    values = Values((M1, S1, S2), entries={"store": Entry("{host}", "+")})
    assert render("{all.store}", values) == "10.0.0.1+10.0.0.2"
    assert render("{peers.store} {nodes.m1.port}", values) == "10.0.0.1+10.0.0.2 8001"
    with pytest.raises(UserError, match=r"unknown placeholder \{id\}"):
        render("{id}", values)


def test_a_node_without_ports_has_no_port() -> None:
    worker = NodeFacts("w1", "worker", 1, "h", {}, "/w")
    with pytest.raises(UserError, match=r"\{port\}"):
        render("{port}", Values((worker,), worker))


def test_joined_by_spaces_and_alone_gives_a_word_for_each_node() -> None:
    values = Values((S1, S2, M1), M1, entries={"master": Entry("{host}:{port}", " ")})
    words = render_command(("run", "{all.store}", "--x={all.store}", "{id}"), values)
    assert words == ("run", "10.0.0.1:7001", "10.0.0.2:7002", "--x=10.0.0.1:7001 10.0.0.2:7002", "m1")
    assert render_command(("run", "{peers.master}"), values) == ("run",)


def test_a_value_with_spaces_stays_one_word() -> None:
    values = Values((S1,), S1, project="/my project")
    assert render_command(("{project}/x", "{peers}"), values) == ("/my project/x", "")


def test_facts_of_a_node_info() -> None:
    info = NodeInfo("s1", "store", "h", 7, {"rpc": 7}, "/d")
    assert NodeFacts.of(info, 2) == NodeFacts("s1", "store", 2, "h", {"rpc": 7}, "/d")


def test_placeholders() -> None:
    assert placeholders("{{no}} {id} x {port.rpc}") == ("id", "port.rpc")
