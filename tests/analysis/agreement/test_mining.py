"""Invariants from messages: the sender's values when it sends, the receiver's after the message was handled."""

from __future__ import annotations

import pytest
from cluster_story import Cluster

from undermine.analysis.agreement.invariants import Invariant, Kept, kept
from undermine.analysis.agreement.mining import mine
from undermine.analysis.agreement.relations import Relation, relations_between
from undermine.analysis.agreement.samples import Variable, samples_of
from undermine.analysis.agreement.states import inconsistent_states
from undermine.analysis.pipeline import analyse


def mined(*stories: Cluster, metadata: dict[str, str] | None = None) -> list[Invariant]:
    runs = []
    for story in stories:
        analysis = story.analysed(*story.sent)
        runs.append((analysis, samples_of(analysis.columns, metadata)))
    return mine(runs)


def shown(story: Cluster, one: str, other: str, name: str, relation: Relation = "==", key: str = "") -> tuple[int, float]:
    """The support and confidence of one invariant."""
    wanted = Variable(one, name, key), Variable(other, name, key), relation
    (found,) = (each for each in mined(story) if each.identity == wanted)
    return found.support, found.confidence


def words(found: Kept) -> list[str]:
    return sorted(each.words for each in found.invariants)


def gossip() -> Cluster:
    """The example of the paper without a partition: C1 leaves, and the others learn it from gossip, and forget C1."""
    story = Cluster()
    for node in ("c1", "c2", "c3"):
        for key in ("c1", "c2", "c3"):
            story.shows(node, "status", "NORMAL", key)
    for status in ("NORMAL", "NORMAL", "LEFT", None):
        story.shows("c1", "status", status, "c1")
        story.sends("c1", "c2", status=("c1", status))
        story.sends("c2", "c3", status=("c1", status))
        story.sends("c3", "c2")
        story.sends("c2", "c1")
    return story


def test_nodes_that_gossip_agree_on_the_status_of_all() -> None:
    found = kept(mined(gossip()))
    assert words(found) == ["status[*] is equal on c1 and c2", "status[*] is equal on c2 and c3"]
    assert all(each.confidence == 1.0 for each in found.invariants)
    assert found.mined == len(found.invariants) + sum(found.dropped.values())


def test_the_kept_invariant_finds_the_states_of_the_paper() -> None:
    story = gossip()
    samples = samples_of(story.tell())
    states = inconsistent_states(samples, kept(mined(story)).invariants)
    assert [str(each.state) for each in states if each.state.nodes == ("c2", "c3")] == [
        "status[c1]: c2 has LEFT, c3 has NORMAL",
        "status[c1]: c2 has ∅, c3 has LEFT",
    ]


def test_the_sender_counts_when_it_sends_and_the_receiver_when_it_has_handled() -> None:
    story = Cluster()
    story.shows("s1", "term", 1)
    story.shows("s2", "term", 0)
    story.did("send", "net.send", **story.by("s1"), t=10)
    story.shows("s1", "term", 7, t=12)  # later than the message
    story.did("recv", "net.recv", **story.by("s2"), t=11)
    story.shows("s2", "term", 1, t=14)
    story.did("poll", "poll", **story.by("s2"), t=15)
    story.shows("s2", "term", 9, t=16)  # no part of the handling
    story.sent.append(("send", "recv"))
    assert shown(story, "s1", "s2", "term") == (1, 1.0)


def test_samples_that_are_recorded_within_the_send_belong_to_it() -> None:
    story = Cluster()
    story.shows("s1", "term", 1, t=1)
    story.did("send", "net.send", **story.by("s1"), t=10, end=14)
    story.shows("s1", "term", 2, t=11)
    story.did("recv", "net.recv", **story.by("s2"), t=15)
    story.shows("s2", "term", 2, t=16)
    story.sent.append(("send", "recv"))
    assert shown(story, "s1", "s2", "term") == (1, 1.0)


def test_samples_at_the_beginning_of_the_next_receive_belong_to_the_handling() -> None:
    story = Cluster()
    story.shows("s1", "term", 2, t=1)
    story.shows("s2", "term", 1, t=2)
    story.did("send", "net.send", **story.by("s1"), t=10)
    story.did("recv", "net.recv", **story.by("s2"), t=5, end=12)
    story.did("next", "net.recv", **story.by("s2"), t=14, end=0)
    story.shows("s2", "term", 2, t=15)
    story.sent.append(("send", "recv"))
    assert shown(story, "s1", "s2", "term") == (1, 1.0)


def test_samples_at_the_end_of_the_next_receive_do_not() -> None:
    story = Cluster()
    story.shows("s1", "term", 2, t=1)
    story.shows("s2", "term", 1, t=2)
    story.did("send", "net.send", **story.by("s1"), t=10)
    story.did("recv", "net.recv", **story.by("s2"), t=5, end=12)
    later = 1_000_000  # a second
    story.did("next", "net.recv", **story.by("s2"), t=14, end=later + 2)
    story.shows("s2", "term", 2, t=15)
    story.shows("s2", "term", 3, t=later + 1)
    story.sent.append(("send", "recv"))
    assert shown(story, "s1", "s2", "term") == (1, 1.0)


def test_handling_goes_on_in_a_thread_that_the_message_was_handed_to() -> None:
    story = Cluster()
    story.shows("s1", "term", 2, t=1)
    story.shows("s2", "term", 1, t=2)
    story.did("send", "net.send", **story.by("s1"), t=10)
    story.did("recv", "net.recv", **story.by("s2"), t=11)
    story.did("give", "handover.give", "Q@1", **story.by("s2"), t=12)
    story.did("next", "net.recv", **story.by("s2"), t=13, end=0)
    story.did("take", "handover.take", "Q@1", thread="T2", **story.by("s2"), t=14, end=20)
    story.did("store", "file.write", thread="T2", **story.by("s2"), t=15)
    story.shows("s2", "term", 2, t=16, thread="T2")
    story.sent.append(("send", "recv"))
    assert shown(story, "s1", "s2", "term") == (1, 1.0)


def test_a_timer_that_a_message_sets_is_no_part_of_its_handling() -> None:
    story = Cluster()
    story.shows("s1", "term", 1, t=1)
    story.shows("s2", "term", 1, t=2)
    story.did("send", "net.send", **story.by("s1"), t=10)
    story.did("recv", "net.recv", **story.by("s2"), t=11)
    story.did("give", "handover.give", "Q@1", **story.by("s2"), t=12)
    story.did("poll", "poll", **story.by("s2"), t=13, end=0)
    later = 3_000_000  # three seconds
    story.did("take", "handover.take", "Q@1", thread="T2", **story.by("s2"), t=later, end=later + 9)
    story.shows("s2", "term", 2, t=later + 1, thread="T2")
    story.sent.append(("send", "recv"))
    assert shown(story, "s1", "s2", "term") == (1, 1.0)


def logical_message(*, handled_at: int) -> Cluster:
    """A message that a function fetches from the network. The receiver takes the sender's value at a given time."""
    story = Cluster()
    story.shows("s1", "term", 2, t=1)
    story.shows("s2", "term", 1, t=2)
    story.did("say", "msg.send", target="vote peer:s2", **story.by("s1"), t=9, end=11)
    story.did("send", "net.send", "1.1.1.1:1>2.2.2.2:2/1", target="peer:s2", size=5, result=5, **story.by("s1"), t=10)
    story.did("fetch", "msg.recv", target="vote peer:s1", **story.by("s2"), t=11, end=14)
    story.did("recv", "net.recv", "2.2.2.2:2>1.1.1.1:1/1", target="peer:s1", size=9, result=5, **story.by("s2"), t=12)
    story.shows("s2", "term", 2, t=handled_at)
    if handled_at > 20:
        story.did("store", "file.write", **story.by("s2"), t=20)
    story.did("poll", "poll", **story.by("s2"), t=30)
    story.shows("s2", "term", 9, t=32)
    return story


@pytest.mark.parametrize("handled_at", [13, 15, 25])
def test_a_function_that_fetches_a_message_may_return_before_the_handling(handled_at: int) -> None:
    analysis = analyse(logical_message(handled_at=handled_at).tell())
    (found,) = (one for one in mine([(analysis, samples_of(analysis.columns))]) if one.relation == "==")
    assert (found.kinds, found.support, found.confidence) == (("vote",), 1, 1.0)


def test_the_sample_right_after_a_handler_shows_its_result() -> None:
    story = Cluster()
    story.shows("s1", "term", 2, t=1)
    story.shows("s2", "term", 1, t=2)
    story.did("send", "net.send", "1.1.1.1:1>2.2.2.2:2/1", target="peer:s2", size=5, result=5, **story.by("s1"), t=10)
    story.did("recv", "net.recv", "2.2.2.2:2>1.1.1.1:1/1", target="peer:s1", size=9, result=5, **story.by("s2"), t=11)
    story.did("handle", "msg.recv", target="vote peer:s1", **story.by("s2"), t=12, end=14)
    story.shows("s2", "term", 2, t=15)
    story.did("store", "file.write", **story.by("s2"), t=16)
    story.shows("s2", "term", 9, t=17)
    analysis = analyse(story.tell())
    (found,) = (one for one in mine([(analysis, samples_of(analysis.columns))]) if one.relation == "==")
    assert (found.kinds, found.support, found.confidence) == (("vote",), 1, 1.0)


def test_messages_of_another_kind_are_another_group() -> None:
    story = Cluster()
    for term in (1, 2, 3, 4):
        story.shows("s1", "term", term)
        story.sends("s1", "s2", term=term)
        story.sends("s1", "s2", term=0)
    analysis = story.analysed(*story.sent, texts=("append", "vote"))
    found = [each for each in mine([(analysis, samples_of(analysis.columns))]) if each.relation == "=="]
    assert [(each.kinds, each.support, each.confidence) for each in found] == [(("append",), 4, 1.0), (("vote",), 4, 0.0)]


def test_two_absent_values_show_nothing() -> None:
    story = Cluster()
    for node in ("s1", "s2"):
        story.shows(node, "jobs", "DONE", "a")
    story.sends("s1", "s2")
    story.shows("s1", "jobs", "RUNNING", "b")
    story.sends("s1", "s2")
    story.sends("s1", "s2", jobs=("b", "RUNNING"))
    assert shown(story, "s1", "s2", "jobs", key="b") == (2, 0.5)


def test_an_absent_value_and_none_show_nothing() -> None:
    assert relations_between(None, "None") == relations_between("null", None) == relations_between(None, None) == {}
    assert relations_between(None, "LEFT") == {"==": False}
    assert relations_between("None", "LEFT")["=="] is False


def test_only_variables_with_the_same_metadata_are_compared() -> None:
    story = Cluster()
    for leader in ("s1", "s2", "s1"):
        story.shows("s1", "leader", leader)
        story.shows("s1", "voted", leader)
        story.sends("s1", "s2", master=leader)
    assert {each.one.name for each in mined(story, metadata={"master": "leader"}) if each.relation == "=="} == {"leader"}


def test_sets_membership_and_order() -> None:
    story = Cluster()
    for number in range(4):
        story.shows("s1", "jobs", f"{{j{number}, k}}")
        story.shows("s1", "index", number)
        story.shows("s1", "first", f"j{number}")
        story.sends("s1", "s2", jobs=f"[k, j{number}]", index=number + number % 2, first=f"{{j{number}, x}}")
    assert shown(story, "s1", "s2", "jobs", "==") == (4, 0.0)
    assert words(kept(mined(story))) == [
        "first on s1 is an element of that on s2",
        "index on s1 is at most that on s2",
        "jobs has the same elements on s1 and s2",
    ]


def test_runs_are_counted_together() -> None:
    one, other = Cluster(), Cluster()
    for story, values in ((one, (1, 2)), (other, (3, 4))):
        for value in values:
            story.shows("s1", "term", value)
            story.sends("s1", "s2", term=value)
    (found,) = kept(mined(one, other)).invariants
    assert (found.support, found.words) == (4, "term is equal on s1 and s2")


def test_what_is_rare_or_seldom_holds_is_dropped_and_counted() -> None:
    story = Cluster()
    for number in range(5):
        story.shows("s1", "view", f"v{number}")
        story.sends("s1", "s2", view=f"v{number}" if number == 4 else "old")
    story.shows("s1", "name", "a")
    story.sends("s1", "s2", name="a")
    found = kept(mined(story))
    assert found.invariants == ()
    assert found.dropped == {"a constant of one node": 2, "too few messages": 1, "holds too seldom": 1}


def test_an_equality_of_constants_is_kept_but_not_their_order() -> None:
    story = Cluster()
    story.shows("s1", "epoch", 1)
    story.shows("s1", "quorum", 2)
    for _ in range(3):
        story.sends("s1", "s2", epoch=1, quorum=3)
    assert words(kept(mined(story))) == ["epoch is equal on s1 and s2"]


def test_a_key_that_fails_by_itself_prevents_an_invariant_for_every_key() -> None:
    story = Cluster()
    for number in range(4):
        for key in "abcdef":
            story.shows("s1", "load", f"x{number}", key)
            if key != "f":
                story.shows("s2", "load", f"x{number}", key)
        story.shows("s2", "load", f"own{number}", "f")
        story.sends("s1", "s2")
    assert words(kept(mined(story))) == [f"load[{key}] is equal on s1 and s2" for key in "abcde"]


def test_keys_that_few_messages_show_are_kept_together() -> None:
    story = Cluster()
    for number in range(6):
        story.shows("s1", "place", f"w{number}", f"job{number}")
        story.sends("s1", "s2", place=(f"job{number}", f"w{number}"))
        story.shows("s1", "place", None, f"job{number}")
        story.shows("s2", "place", None, f"job{number}")
    (found,) = kept(mined(story), support_min=4).invariants
    assert found.words == "place[*] is equal on s1 and s2"
    assert found.every_key


def test_both_directions_of_messages_give_one_invariant() -> None:
    story = Cluster()
    for term in range(4):
        story.shows("s2", "term", term)
        story.sends("s2", "s1", term=term)
        story.sends("s1", "s2", term=term)
    found = kept(mined(story))
    assert words(found) == ["term is equal on s1 and s2"]
    assert found.invariants[0].support == 8
    assert found.dropped["implied by a stronger one"] == 2
