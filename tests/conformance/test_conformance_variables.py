"""Both agents sample variables of the target alike, and use them in triggers."""

from __future__ import annotations

import re

import pytest
from conformance_bench import Bench, Outcome, at, step

from undermine.model.faults import Delay, Error
from undermine.model.plan import Compare, FirstUnseen, When
from undermine.model.point import Point

RESET = Error("ECONNRESET")
SENDS = Point((("op", "net.send"),))


def connected(bench: Bench, *lines: str) -> tuple[list[str], Outcome]:
    """The answers to these lines after a connection `c` to the peer, and the outcome."""
    answers, outcome = bench.run(f"connect c {bench.peer_port}", *lines)
    return answers[1:], outcome.ok()


def samples(outcome: Outcome, name: str) -> list[tuple[str, str | None]]:
    """Key and text of a variable's samples, in order; None: absent. The reasons why a path leads nowhere are left out."""
    every = [event for event in outcome.of("variable.sample") if event.target == name]
    found = [event for event in every if event.size or not event.content]
    assert not [event for event in found if event.size not in (0, 1) or event.end_ns != event.t_ns]
    return [(event.resource, event.content if event.size else None) for event in found]


# --- samples


def test_each_changed_value_is_one_sample(bench: Bench) -> None:
    bench.plan(mood="mood", nothing="humour")
    _, outcome = connected(bench, "send c one", "feel angry", "send c two", "send c three", "feel calm", "send c four")
    assert samples(outcome, "mood") == [("", "calm"), ("", "angry"), ("", "calm")]
    assert samples(outcome, "nothing") == [("", None)]


def test_each_key_is_a_variable_until_it_is_absent(bench: Bench) -> None:
    bench.plan(values="values[*]", keys="values", one="values[x]")
    lines = ("keep x 1", "keep y z", "send c one", "keep x 2", "forget y", "send c two", "forget x", "send c three")
    _, outcome = connected(bench, *lines)
    found = samples(outcome, "values")
    assert sorted(found[:2]) == [("x", "1"), ("y", "z")]
    assert found[2:] == [("x", "2"), ("y", None), ("x", None)]
    assert [text for _, text in samples(outcome, "keys")] == ["{}", "{x, y}", "{x}", "{}"]
    assert [text for _, text in samples(outcome, "one")] == [None, "1", "2", None]


def test_an_address_of_a_node_is_its_name(bench: Bench) -> None:
    """Addresses may differ from run to run. An address with another digit is that of something else."""
    bench.plan(mood="mood")
    there = f"127.0.0.1:{bench.peer_port}"
    _, outcome = connected(bench, f"feel tcp://{there}", "send c one", f"feel {there}0", "send c two")
    assert samples(outcome, "mood") == [("", "calm"), ("", "tcp://s2"), ("", f"{there}0")]


def test_a_sample_has_the_time_of_the_operation_that_it_was_read_before(bench: Bench) -> None:
    bench.plan(mood="mood")
    _, outcome = connected(bench, "feel angry", "send c one")
    (connect,), (send,) = outcome.of("net.connect"), outcome.of("net.send")
    assert [event.t_ns for event in outcome.of("variable.sample")] == [connect.t_ns, send.t_ns]


# --- paths that lead nowhere


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("mod", r"Driver \(Driver\) has no (plain attribute|field) mod \(but mood\)"),
        ("mood[*]", r"Driver\.mood \((str|String)\) isn't a map, list or set"),
        ("values[x]", r"Driver\.values \((dict|ConcurrentHashMap)\) has no key x"),
        ("values[*]", r"Driver\.values \((dict|ConcurrentHashMap)\) has no element"),
    ],
)
def test_the_part_of_a_path_that_leads_nowhere_is_named_once(bench: Bench, path: str, why: str) -> None:
    bench.plan(it=path)
    _, outcome = connected(bench, "send c one", "send c two")
    (found,) = (event for event in outcome.of("variable.sample") if event.content)
    assert (found.target, found.resource, found.size) == ("it", "", 0)
    assert re.fullmatch(why, found.content)


def test_a_class_or_module_that_is_not_loaded_is_named(bench: Bench) -> None:
    bench.more["variables"] = [{"slots": {}, "node": "s1", "name": "it", "path": "no.such:Thing.x"}]
    _, outcome = connected(bench, "send c one")
    (found,) = outcome.of("variable.sample")
    assert re.fullmatch(r"the (module no\.such isn't imported|class no\.such\.Thing isn't loaded)", found.content)


# --- surveys


def test_a_survey_samples_attributes_under_their_paths(bench: Bench) -> None:
    bench.more["survey"] = True
    _, outcome = bench.run("feel angry", "keep x 1", "keep y z", f"connect c {bench.peer_port}")
    paths = {event.target for event in outcome.ok().of("variable.sample")}
    assert {f"{bench.kind.driver}.{rest}" for rest in ("mood", "values", "values[*]")} <= paths
    assert samples(outcome, f"{bench.kind.driver}.mood") == [("", "angry")]
    assert sorted(samples(outcome, f"{bench.kind.driver}.values[*]")) == [("x", "1"), ("y", "z")]


# --- triggers


def test_a_step_waits_for_a_variable(bench: Bench) -> None:
    bench.plan(step(RESET, When((Compare("s1.mood", "==", "angry"),))), mood="mood")
    answers, outcome = connected(bench, "send c one", "feel angry", "send c two", "send c three")
    assert answers == ["ok", "ok", "error ECONNRESET", "ok"]
    assert [event.error for event in outcome.of("net.send")] == ["", "ECONNRESET", ""]


def test_a_missing_variable_equals_no_value(bench: Bench) -> None:
    bench.plan(step(RESET, When((Compare("s1.mood", "==", "calm"),))), mood="humour")
    assert connected(bench, "send c one")[0] == ["ok"]


def test_a_step_waits_until_a_key_is_there(bench: Bench) -> None:
    bench.plan(step(RESET, When((Compare("s1.values[x]", "!=", None),))), values="values[*]")
    assert connected(bench, "keep y 1", "send c one", "keep x 1", "send c two")[0][1::2] == ["ok", "error ECONNRESET"]


def test_a_step_waits_until_a_key_is_gone(bench: Bench) -> None:
    gone = Compare("s1.values[x]", "==", None), Compare("s1.mood", "==", "angry")
    bench.plan(step(RESET, When(gone)), values="values[*]", mood="mood")
    lines = ("keep x 1", "feel angry", "send c one", "forget x", "send c two")
    assert connected(bench, *lines)[0][2::2] == ["ok", "error ECONNRESET"]


def test_the_state_of_variables_is_a_part_of_the_point(bench: Bench) -> None:
    """The first send in a state that is new: `x` is less than `y`."""
    state = (("s1.mood",), ("s1.values[x]", "s1.values[y]"))
    seen = tuple(Point((("state", text),)) for text in ("calm, =", "calm, ∅", "calm, >", "calm, ≠"))
    trigger = FirstUnseen(("state",), seen, SENDS, state=state)
    bench.plan(step(RESET, trigger), mood="mood", values="values[*]")
    changes = ("keep x 10", "keep y 9", "keep y z", "keep y 11")
    answers, _ = connected(bench, "send c x", *(line for change in changes for line in (change, "send c x")))
    assert answers[::2] == ["ok", "ok", "ok", "ok", "error ECONNRESET"]
    (moment,) = bench.controller.moments()
    assert moment.point.get("state") == "calm, <"


def test_the_point_at_which_a_fault_ends_has_the_state(bench: Bench) -> None:
    until = FirstUnseen(("state",), (Point((("state", "calm"),)),), SENDS, state=(("s1.mood",),))
    bench.plan(step(Delay(0.001), at("net.send"), until), mood="mood")
    connected(bench, "send c one", "send c two", "feel angry", "send c three")
    (moment,) = bench.controller.ended()
    assert moment.point.get("state") == "angry"


@pytest.mark.parametrize(("group", "hit"), [(("s1",), True), (("s2", "s3"), True), (("s3",), False), (("s1", "s2"), False)])
def test_only_messages_across_the_border_of_a_group_count(bench: Bench, group: tuple[str, ...], hit: bool) -> None:
    bench.plan(step(RESET, FirstUnseen((), (), SENDS, involves=group)))
    assert connected(bench, "send c one")[0] == ["error ECONNRESET" if hit else "ok"]
