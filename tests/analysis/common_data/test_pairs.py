"""Two operations of one node that store common data in different places."""

from __future__ import annotations

import pytest
from story import Story

from undermine.analysis.common_data.moved_data import moved_data
from undermine.analysis.common_data.pairs import related
from undermine.analysis.conflicts.origins import Origins


def pairs(story: Story, *messages: tuple[str, str]) -> list[tuple[str, str, str]]:
    analysis = story.analysed(*messages)
    found = related(Origins(analysis), moved_data(analysis))
    return sorted((pair.tier, story.name(pair.first.row), story.name(pair.second.row)) for pair in found)


def handling(story: Story) -> None:
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")


def write(story: Story, name: str, path: str, *tokens: str, **more: object) -> None:
    """A write, with the tokens of its bytes."""
    story.did(name, "file.write", f"/r/n1/{path}", target=path, **more)
    if tokens:
        story.did(f"{name}'s", "content.tokens", " ".join(tokens), size=story.events[name].seq, target="")


def labels(story: Story, name: str, *of: tuple[str, str]) -> None:
    """Labels of an operation: names of others, and the bytes."""
    text = " ".join(f"{story.events[source].seq}:{part}" for source, part in of)
    story.did(f"{name}'s labels", "content.labels", text, size=story.events[name].seq, target="", pid=story.events[name].pid)


def test_operations_with_common_bytes_are_related() -> None:
    story = Story()
    story.did("read", "file.read", "/r/n1/in", target="in")
    for name, part in (("a", "0-10"), ("b", "10-20"), ("c", "8-12"), ("d", "30-40")):
        story.did(f"before {name}", "sleep")
        write(story, name, name)
        labels(story, name, ("read", part))
    assert pairs(story) == [("label", "b", "c")], "of two operations before, the later one"


def test_labels_of_a_message_continue_at_its_sender() -> None:
    story = Story()
    story.did("source", "file.read", "/r/n2/in", target="in", pid=2)
    for name, part in (("one", "0-10"), ("two", "5-15"), ("three", "20-30")):
        story.did(name, "net.send", name, pid=2)
        labels(story, name, ("source", part))
        story.did(f"pause before {name}", "sleep", pid=2)
    for name in ("one", "two", "three"):
        story.did(f"{name} came", "net.recv", thread=name)
        write(story, name.upper(), name, thread=name)
        labels(story, name.upper(), (f"{name} came", "0-10"))
    messages = [(name, f"{name} came") for name in ("one", "two", "three")]
    assert [pair for pair in pairs(story, *messages) if pair[0] == "label"] == [("label", "ONE", "TWO"), ("label", "one", "two")]


def test_labels_that_cannot_be_read_are_left_out() -> None:
    story = Story()
    write(story, "a", "a")
    write(story, "b", "b")
    for name in ("a", "b"):
        story.did(f"{name}'s labels", "content.labels", "x:1-2 99:1-2 1:5-5 1 7_1:0-4", size=story.events[name].seq, target="")
    assert not [pair for pair in pairs(story) if pair[0] == "label"]


def test_the_handling_of_a_message_relates_its_operations_to_the_latest_one_before() -> None:
    story = Story()
    handling(story)
    for name in ("a", "b", "c"):
        write(story, name, name)
    assert pairs(story, ("send", "recv")) == [("activity", "a", "b"), ("activity", "b", "c")]


def test_one_destination_is_not_two() -> None:
    story = Story()
    handling(story)
    write(story, "first", "log")
    write(story, "second", "log")
    write(story, "state", "state")
    write(story, "state again", "state")
    assert pairs(story, ("send", "recv")) == [("activity", "second", "state")]


def test_a_common_value_relates_operations_of_different_activities() -> None:
    story = Story()
    write(story, "a", "a", "deadbeef08", "n10001")
    story.did("sleep", "sleep")
    write(story, "other", "other", "n10002")
    story.did("sleep2", "sleep")
    write(story, "b", "b", "deadbeef08")
    assert pairs(story) == [("value", "a", "b")]


def test_a_value_in_a_path_counts_like_one_in_the_content() -> None:
    story = Story()
    write(story, "a", "wordcount.log")
    story.did("sleep", "sleep")
    story.did("b", "db.write", '{"store":"r:1/0","kind":"redis","do":[["SADD",["started"],["wordcount"]]]}')
    assert pairs(story) == [("value", "a", "b")]


def test_a_value_that_most_operations_have_says_nothing() -> None:
    story = Story()
    for number in range(30):
        write(story, f"w{number}", f"f{number}", "deadbeef08")
        story.did(f"sleep{number}", "sleep")
    assert pairs(story) == []


def test_messages_of_one_remote_activity_relate_what_they_led_to() -> None:
    story = Story()
    story.did("one", "net.send", "c1", pid=2)
    story.did("two", "net.send", "c2", pid=2)
    for name in ("one", "two"):
        story.did(f"{name} came", "net.recv", thread=name)
        write(story, name.upper(), name, thread=name)
    messages = [(name, f"{name} came") for name in ("one", "two")]
    assert ("remote", "ONE", "TWO") in pairs(story, *messages)


def relayed(*relays: int) -> dict[tuple[str, str], int]:
    """An activity of n2 sends two messages. The first one reaches n1 directly, the second one through these further nodes.
    Returns the pairs of n1's operations that are remote, with their hops."""
    story = Story()
    messages = []
    for name, ways in (("one", ()), ("two", relays)):
        story.did(f"{name} from 2", "net.send", f"{name}2", pid=2)
        for sender, node in zip((2, *ways), ways, strict=False):
            story.did(f"{name} at {node}", "net.recv", pid=node)
            story.did(f"{name} from {node}", "net.send", f"{name}{node}", pid=node)
            messages.append((f"{name} from {sender}", f"{name} at {node}"))
        story.did(f"{name} came", "net.recv", thread=name)
        messages.append((f"{name} from {(2, *ways)[-1]}", f"{name} came"))
        write(story, name.upper(), name, thread=name)
    analysis = story.analysed(*messages)
    found = [pair for pair in related(Origins(analysis), moved_data(analysis)) if pair.tier == "remote"]
    return {(story.name(pair.first.row), story.name(pair.second.row)): pair.hops for pair in found}


@pytest.mark.parametrize(("relays", "hops"), [((), 1), ((3,), 2), ((3, 4), 3)])
def test_a_remote_activity_may_be_some_messages_away(relays: tuple[int, ...], hops: int) -> None:
    assert relayed(*relays)["ONE", "TWO"] == hops


def test_a_remote_activity_that_is_far_away_does_not_count() -> None:
    assert ("ONE", "TWO") not in relayed(3, 4, 5)


def test_operations_that_overlap_have_no_moment_between_them() -> None:
    story = Story()
    handling(story)
    write(story, "a", "a", end=9)
    write(story, "b", "b")
    assert pairs(story, ("send", "recv")) == []


def test_operations_of_two_nodes_are_not_related() -> None:
    story = Story()
    write(story, "a", "a", "deadbeef08")
    write(story, "b", "b", "deadbeef08", pid=2)
    assert pairs(story) == []


def test_an_earlier_operation_counts_if_the_latest_at_its_destination_has_not_ended() -> None:
    story = Story()
    handling(story)
    write(story, "a", "a", t=10, end=11)
    write(story, "a again", "a", t=12, end=13)
    write(story, "a for long", "a", t=14, end=90)
    write(story, "b", "b", t=20, end=21)
    assert pairs(story, ("send", "recv")) == [("activity", "a again", "b")]
