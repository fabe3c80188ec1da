"""States in which the latest values of two nodes violate an invariant."""

from __future__ import annotations

from cluster_story import Cluster

from undermine.analysis.agreement.invariants import Invariant
from undermine.analysis.agreement.relations import Relation
from undermine.analysis.agreement.samples import Variable, samples_of
from undermine.analysis.agreement.states import StateSeen, growing, inconsistent_states
from undermine.model.plan import Compare


def rule(one: str, other: str, name: str, key: str = "", relation: Relation = "==") -> Invariant:
    return Invariant(Variable(one, name, key), Variable(other, name, key), relation)


def seen(story: Cluster, *rules: Invariant, rest: int | None = None) -> list[StateSeen]:
    samples = samples_of(story.tell())
    return inconsistent_states(samples, rules, growing=growing([samples]), rest_ns=None if rest is None else rest * 1000)


def test_the_states_of_a_node_that_leaves() -> None:
    """The example of the paper: C1 leaves, C2 hears of it, and later forgets C1; C3 is cut off."""
    story = Cluster()
    story.shows("c2", "status", "NORMAL", "c1", t=1)
    story.shows("c3", "status", "NORMAL", "c1", t=2)
    story.shows("c2", "status", "LEFT", "c1", t=4)
    story.shows("c2", "status", None, "c1", t=7)
    story.shows("c3", "status", "LEFT", "c1", t=10)
    story.shows("c3", "status", None, "c1", t=12)
    story.reads("c3", t=20)
    found = seen(story, rule("c2", "c3", "status", "*"), rest=8)
    assert [str(each.state) for each in found] == [
        "status[c1]: c2 has LEFT, c3 has NORMAL",
        "status[c1]: c2 has ∅, c3 has NORMAL",
        "status[c1]: c2 has ∅, c3 has LEFT",
    ]
    assert [(each.t_ns, each.lasted_ns, each.times) for each in found] == [(4000, 3000, 1), (7000, 3000, 1), (10000, 2000, 1)]
    assert [each.after_rest for each in found] == [False, True, True]
    assert found[1].state.comparisons() == (
        Compare("c2.status[c1]", "==", None),
        Compare("c3.status[c1]", "==", "NORMAL"),
    )
    assert found[1].state.watched() == (("c2.status[c1]",), ("c3.status[c1]",))


def test_a_state_that_comes_back_is_one_state() -> None:
    story = Cluster()
    story.shows("s1", "leader", "s1", t=1)
    for t in (2, 6):
        story.shows("s2", "leader", "s2", t=t)
        story.shows("s2", "leader", "s1", t=t + 1)
    (found,) = seen(story, rule("s1", "s2", "leader"))
    assert (found.t_ns, found.lasted_ns, found.times) == (2000, 2000, 2)


def test_a_state_that_never_ends_lasts_until_the_end_of_the_run() -> None:
    story = Cluster()
    story.shows("s1", "leader", "s1", t=1)
    story.shows("s2", "leader", "s2", t=2)
    story.reads("s1", t=9)
    (found,) = seen(story, rule("s1", "s2", "leader"), rest=9)
    assert (found.lasted_ns, found.after_rest) == (7000, True)


def test_the_states_of_each_key_have_their_own_times() -> None:
    story = Cluster()
    for node, status in (("s1", "UP"), ("s2", "DOWN")):
        story.shows(node, "status", status, "b")
        story.shows(node, "status", status, "a")
    story.reads("s1", t=9)
    found = seen(story, rule("s1", "s2", "status", "*"))
    shown = [(each.state.one.key, each.t_ns, each.lasted_ns) for each in found]
    assert shown == [("b", 3000, 6000), ("a", 4000, 5000)]


def test_nodes_with_unknown_values_are_not_compared() -> None:
    story = Cluster()
    story.shows("s1", "leader", "s1", t=1)
    story.did("boot", "file.read", t=2, **story.by("s1", 2))
    story.shows("s2", "leader", "s2", t=3)
    assert seen(story, rule("s1", "s2", "leader")) == []


def test_only_pairs_with_an_invariant_are_compared() -> None:
    story = Cluster()
    for node in ("s1", "s2", "s3"):
        story.shows(node, "leader", node)
        story.shows(node, "status", node, "a")
        story.shows(node, "status", node, "b")
    found = seen(story, rule("s3", "s1", "leader"), rule("s1", "s2", "status", "b"))
    assert [str(each.state) for each in found] == [
        "status[b]: s1 has s1, s2 has s2",
        "leader: s1 has s1, s3 has s3",
    ]


def test_numbers_that_grow_give_relations() -> None:
    story = Cluster()
    for node in ("s1", "s2"):
        story.shows(node, "term", None)
    for term in range(10, 22):
        story.shows("s1", "term", term)
        story.shows("s2", "term", term)
    story.shows("s2", "term", 30)
    found = seen(story, rule("s1", "s2", "term"))
    assert [str(each.state) for each in found] == [
        "term: s1 has another value, s2 has ∅",
        "term: s1 has a higher value than s2",
        "term: s1 has a lower value than s2",
    ]
    assert [each.times for each in found] == [1, 11, 1]
    assert found[0].state.comparisons() == (Compare("s1.term", "!=", None), Compare("s2.term", "==", None))
    assert found[1].state.comparisons() == (Compare("s1.term", ">", other="s2.term"),)
    assert found[1].state.watched() == (("s1.term", "s2.term"),)


def test_few_numbers_and_many_texts_stay_values() -> None:
    story = Cluster()
    for number in range(20):
        story.shows("s1", "view", f"v{number}")
        story.shows("s1", "epoch", number % 3)
    assert growing([samples_of(story.tell())]) == frozenset()


def test_different_numbers_are_counted_over_all_runs() -> None:
    runs = []
    for run in range(3):
        story = Cluster()
        for number in reversed(range(4)):
            story.shows("s1", "index", 10 * run + number)
        runs.append(samples_of(story.tell(), {"index": "commit"}))
    assert growing(runs[:2]) == frozenset()
    assert growing(runs) == {"commit"}


def test_a_few_numbers_that_only_rise_while_a_node_lives_grow() -> None:
    story = Cluster()
    for node, life, numbers in (("s1", 1, (0, 1, 2)), ("s2", 1, (0, 1)), ("s1", 2, (0, 1))):
        for number in numbers:
            story.shows(node, "term", number, incarnation=life)
            story.shows(node, "phase", number % 2, incarnation=life)
        story.shows(node, "port", 80, incarnation=life)
    assert growing([samples_of(story.tell())]) == {"term"}


def test_an_order_is_violated_in_one_direction() -> None:
    story = Cluster()
    story.shows("s1", "term", 2)
    story.shows("s2", "term", 1)
    story.shows("s2", "term", 2)
    story.shows("s2", "term", 3)
    found = seen(story, rule("s2", "s1", "term", relation="<="))
    assert [(str(each.state), each.times) for each in found] == [("term: s1 has a lower value than s2", 1)]


def test_different_names_are_said() -> None:
    story = Cluster()
    story.shows("m", "leader", "m")
    story.shows("w", "master", "x")
    both = Invariant(Variable("m", "leader"), Variable("w", "master"), "==")
    (found,) = seen(story, both)
    assert str(found.state) == "leader: m has m, w.master has x"


def test_a_run_in_which_a_growing_variable_never_had_a_value_has_no_states() -> None:
    story = Cluster()
    story.shows("s1", "term", None, t=1)
    story.shows("s2", "term", None, t=2)
    samples = samples_of(story.tell(), nodes={"term": ("s1", "s2")})
    assert inconsistent_states(samples, [rule("s1", "s2", "term")], growing={"term"}) == []
