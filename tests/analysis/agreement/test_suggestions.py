"""Suggested variables: which attributes nodes agree about, of all that agents have found."""

from __future__ import annotations

import msgspec
import pytest
from cluster_story import Cluster

from undermine.analysis.agreement.attributes import Attribute, SurveyRun, judge
from undermine.analysis.agreement.suggestions import suggest

NODES = ("c1", "c2", "c3")
STATUS, CODE = "app.members:Members._view[*][0]", "app.members:Members._view[*][1]"
CODES = {"NORMAL": 1, "LEAVING": 2, "LEFT": 3}
ROLES = dict.fromkeys(NODES, "store")


def gossip(**local: object) -> Cluster:
    """C1 leaves and comes back, and the others learn it from gossip. `local` are attributes that don't travel: for each of nine
    steps and each node, a value."""
    story = Cluster()
    for node in NODES:
        for key in NODES:
            story.shows(node, STATUS, "NORMAL", key)
            story.shows(node, CODE, 1, key)
    story.did("rest", "net.connect", **story.by("c1"))
    for step, status in enumerate(["NORMAL", "NORMAL", "LEAVING", "LEAVING", "LEFT", "LEFT", "NORMAL", "NORMAL", "LEFT"]):
        for name, value in local.items():
            assert callable(value)
            for number, node in enumerate(NODES):
                story.shows(node, f"app:Local.{name}", value(step, number))
        for sender, receiver in ((None, "c1"), ("c1", "c2"), ("c2", "c3"), ("c3", "c2"), ("c2", "c1")):
            if sender is None:
                story.shows(receiver, STATUS, status, "c1")
                story.shows(receiver, CODE, CODES[status], "c1")
            elif receiver == "c1" or sender == "c3":
                story.sends(sender, receiver)
            else:
                story.sends(sender, receiver, **{STATUS: ("c1", status), CODE: ("c1", CODES[status])})
    story.did("over", "net.connect", t=story.now + 60, **story.by("c1"))
    return story


def survey(story: Cluster) -> SurveyRun:
    analysis = story.analysed(*story.sent)
    return SurveyRun(analysis, story.events["rest"].t_ns, story.events["over"].t_ns - 100)


def judged(*stories: Cluster, identifiers: tuple[str, ...] = NODES) -> dict[str, Attribute]:
    return {one.path: one for one in judge(map(survey, stories), identifiers)}


def test_a_status_that_travels_is_suggested_with_reasons() -> None:
    found = suggest([survey(gossip()), survey(gossip())], ROLES, NODES)
    (status,) = found.best
    assert (status.name, status.path, status.roles) == ("view_0", STATUS, ())
    assert status.why.startswith("LEAVING, LEFT, NORMAL; nodes agree after 100% of ")
    assert status.why.endswith(" kinds of disagreement")
    assert (found.paths, found.dropped) == (2, {"changes together with a better one": 1})


@pytest.mark.parametrize(
    ("local", "why"),
    [
        pytest.param(lambda step, number: "same", "never changes", id="constant"),
        pytest.param(lambda step, number: f"{number}-{step % 2}", "nodes don't agree at rest", id="own"),
        pytest.param(lambda step, number: 100 * number + step, "nodes don't agree at rest", id="counter"),
        pytest.param(lambda step, number: (step >> number) % 2 if step < 8 else 0, "nodes agree by chance", id="independent"),
        pytest.param(lambda step, number: step if number == 1 else None, "on one node", id="alone"),
    ],
)
def test_attributes_that_do_not_travel_are_dropped(local: object, why: str) -> None:
    found = judged(gossip(local=local), gossip(local=local))
    assert found["app:Local.local"].dropped == why
    assert not found[STATUS].dropped


def test_values_that_differ_from_run_to_run_are_dropped() -> None:
    runs = [gossip(token=lambda step, number, run=run: f"token-{run}-{step // 3}") for run in (1, 2)]
    assert judged(*runs)["app:Local.token"].dropped == "its values differ from run to run"


def test_numbers_that_grow_need_not_recur() -> None:
    runs = [gossip(index=lambda step, number, run=run: 100 * run + step - (number == 2 and step < 8)) for run in (1, 2)]
    found = judged(*runs)["app:Local.index"]
    assert (found.dropped, found.domain) == ("", "growing numbers")


def test_one_run_with_a_disagreement_is_not_enough() -> None:
    calm = gossip()
    calm.events = {name: event for name, event in calm.events.items() if event.content not in ("LEAVING", "LEFT")}
    assert judged(gossip())[STATUS].states > 0
    assert judged(gossip(), calm)[STATUS].dropped


def test_values_about_nodes_come_first() -> None:
    plain, about = judged(gossip(), identifiers=())[STATUS], judged(gossip())[STATUS]
    assert about.score > plain.score


def test_paths_of_different_nodes_for_the_same_thing_share_metadata() -> None:
    runs = []
    for _ in range(2):
        story = gossip()
        for name, event in story.events.items():
            if event.node == "c1" and event.target == STATUS:
                story.events[name] = msgspec.structs.replace(event, target="app.registry:Registry.nodes[*].state")
        runs.append(survey(story))
    found = suggest(runs, {"c1": "master", "c2": "store", "c3": "store"}, NODES)
    assert {one.path: (one.name, one.metadata, one.roles) for one in found.best} == {
        "app.registry:Registry.nodes[*].state": ("state", "view_0", ("master",)),
        STATUS: ("view_0", "view_0", ("store",)),
    }


def test_a_path_that_an_agent_finds_late_was_absent_only_if_an_object_was_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("undermine.analysis.agreement.attributes._AT_ONCE_NS", 10_000)
    runs = []
    for _ in range(2):
        story = Cluster()
        for node in NODES:
            story.shows(node, "app:Node.leader", "None")
        story.did("rest", "net.connect", **story.by("c1"))
        for step in range(12):
            for node in NODES:
                if step == 4 + NODES.index(node):
                    story.shows(node, "app:Node.leader", "<Peer>")
                    story.shows(node, "app:Node.leader.id", "c2")
                    story.shows(node, "app:Late.address", "c2")
                    story.shows(node, "app:Late.options[*]", "c2", "key")
            for sender, receiver in (("c1", "c2"), ("c2", "c3"), ("c3", "c1")):
                story.sends(sender, receiver)
        story.did("over", "net.connect", t=story.now + 60, **story.by("c1"))
        runs.append(story)
    found = judged(*runs)
    assert found["app:Node.leader.id"].dropped == ""
    assert found["app:Late.address"].dropped == "never changes"
    assert found["app:Late.options[*]"].dropped == "never changes"


def test_names_are_made_of_the_path_and_differ() -> None:
    def leader(step: int, number: int) -> str:
        return "c1" if step - (number == 2) < 4 else "c2"

    def state(step: int, number: int) -> str:
        return "idle" if step < 2 or (number, step) == (1, 2) else "busy" if step < 6 else "done"

    runs = [survey(gossip(_Local__raftLeader=leader, state=state)) for _ in range(2)]
    found = suggest(runs, {**ROLES, "m1": "master"}, NODES, taken=["state"])
    assert {one.name: one.path.removeprefix("app:") for one in found.best if one.path != STATUS} == {
        "raftLeader": "Local._Local__raftLeader",
        "state_2": "Local.state",
    }
    assert {one.roles for one in found.best} == {("store",)}
