"""Which operations belong to the handling of one message."""

from __future__ import annotations

from story import Story

from undermine.analysis.common_data.activities import Activities
from undermine.analysis.conflicts.origins import Origins


def together(story: Story, *pairs: tuple[str, str]) -> list[set[str]]:
    """The operations on files, by activity, in the order of the activities' first operations."""
    activities = Activities(Origins(story.analysed(*pairs)))
    found: dict[object, set[str]] = {}
    for name, event in story.events.items():
        if event.kind == "file":
            found.setdefault(activities.of(story.row(name)), set()).add(name)
    return list(found.values())


def test_each_message_begins_an_activity() -> None:
    story = Story()
    for number in (1, 2):
        story.did(f"send{number}", "net.send", pid=2)
        story.did(f"recv{number}", "net.recv")
        story.did(f"a{number}", "file.write")
        story.did(f"b{number}", "file.write")
    assert together(story, ("send1", "recv1"), ("send2", "recv2")) == [{"a1", "b1"}, {"a2", "b2"}]


def test_an_activity_goes_on_after_the_answer_to_its_own_request() -> None:
    story = Story()
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    story.did("before", "file.write")
    story.did("ask", "net.send")
    story.did("asked", "net.recv", pid=3)
    story.did("answer", "net.send", pid=3)
    story.did("answered", "net.recv")
    story.did("after", "file.write")
    pairs = ("send", "recv"), ("ask", "asked"), ("answer", "answered")
    assert together(story, *pairs) == [{"before", "after"}]


def test_the_next_request_after_a_reply_begins_another_activity() -> None:
    story = Story()
    for number in (1, 2, 3):
        story.did(f"ask{number}", "net.send", "c1", pid=2)
        story.did(f"asked{number}", "net.recv", "s1")
        story.did(f"write{number}", "file.write")
        story.did(f"reply{number}", "net.send", "s1")
        story.did(f"replied{number}", "net.recv", "c1", pid=2)
        story.did(f"note{number}", "file.write", pid=2)
    pairs = [pair for n in (1, 2, 3) for pair in ((f"ask{n}", f"asked{n}"), (f"reply{n}", f"replied{n}"))]
    found = together(story, *pairs)
    assert [each for each in found if "write1" in each or "write2" in each] == [{"write1"}, {"write2"}]
    assert {"note1", "note2", "note3"} in found, "the asking thread goes on"


def test_an_activity_goes_on_in_a_thread_that_it_starts() -> None:
    story = Story()
    story.did("send", "net.send", pid=2)
    story.did("recv", "net.recv")
    story.did("before", "file.write")
    story.did("start", "thread.start", "T2@1")
    story.did("began", "handover.take", "T2@1", thread="T2", end=6)
    story.did("inside", "file.write", thread="T2")
    assert together(story, ("send", "recv")) == [{"before", "inside"}]


def test_a_thread_of_its_own_has_an_activity_from_pause_to_pause() -> None:
    story = Story()
    story.did("boot1", "file.write")
    story.did("boot2", "file.write")
    story.did("sleep", "sleep")
    story.did("tick", "file.write")
    assert together(story) == [{"boot1", "boot2"}, {"tick"}]
