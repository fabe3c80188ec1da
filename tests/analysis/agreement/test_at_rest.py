"""Invariants that hold whenever nodes are at rest."""

from __future__ import annotations

from cluster_story import Cluster

from undermine.analysis.agreement.invariants import Invariant, RestingRun, at_rest
from undermine.analysis.agreement.samples import samples_of


def found(*stories: Cluster, times: tuple[int, ...] = (100,)) -> list[Invariant]:
    runs = [RestingRun(samples_of(story.tell()), [t * 1000 for t in times]) for story in stories]
    return list(at_rest(runs))


def words(*stories: Cluster, times: tuple[int, ...] = (100,)) -> list[str]:
    return [one.words for one in found(*stories, times=times)]


def run(**values: tuple[object, object]) -> Cluster:
    """A run in which s1 and s2 have these values in the end."""
    story = Cluster()
    for name, both in values.items():
        for node, value in zip(("s1", "s2"), both, strict=True):
            story.shows(node, name, value)
    return story


def test_a_relation_that_holds_at_rest_in_each_run_is_found() -> None:
    runs = [run(leader=(leader, leader)) for leader in ("s1", "s2", "s2")]
    (one,) = found(*runs)
    assert (one.words, one.support, one.confidence) == ("leader is equal on s1 and s2", 3, 1.0)


def test_a_relation_that_fails_once_is_not() -> None:
    assert words(run(leader=("s1", "s1")), run(leader=("s1", "s1")), run(leader=("s1", "s2"))) == []


def test_one_run_shows_too_little() -> None:
    assert words(run(leader=("s1", "s1")), times=(50, 100)) == []


def test_values_before_the_time_of_rest_do_not_count() -> None:
    stories = []
    for _ in range(2):
        story = Cluster()
        story.shows("s1", "leader", "s1", t=1)
        story.shows("s2", "leader", "s2", t=2)
        story.shows("s2", "leader", "s1", t=60)
        stories.append(story)
    assert words(*stories, times=(60, 100)) == ["leader is equal on s1 and s2"]
    assert words(*stories, times=(50, 100)) == []


def test_an_early_moment_counts_for_a_relation_and_not_against_it() -> None:
    stories = []
    for node in ("s1", "s2"):
        story = Cluster()
        story.shows("s1", "leader", node, t=1)
        story.shows("s2", "leader", "s1", t=2)
        story.shows("s1", "leader", "s1", t=60)
        stories.append(story)
    (one,) = at_rest(RestingRun(samples_of(story.tell()), [100_000], early=[50_000]) for story in stories)
    assert (one.words, one.support, one.runs) == ("leader is equal on s1 and s2", 3, 2)


def test_keys_of_jobs_differ_between_runs_and_their_agreement_is_found() -> None:
    stories = []
    for number in range(2):
        story = Cluster()
        for job in (2 * number, 2 * number + 1):
            for node in ("s1", "s2"):
                story.shows(node, "place", f"w{job}", f"job{job}")
        stories.append(story)
    assert words(*stories) == ["place[*] is equal on s1 and s2"]
    stories[1].shows("s1", "place", "w9", "job9")
    assert words(*stories) == [], "s2 does not have the key"


def test_two_nodes_that_differ_about_one_key_agree_about_none() -> None:
    stories = []
    for number in range(2):
        story = Cluster()
        for node in ("s1", "s2"):
            story.shows(node, "status", f"EPOCH{number}", "s1")
            story.shows(node, "status", f"EPOCH{number}", "s2")
            story.shows(node, "status", node, "self")
        stories.append(story)
    assert words(*stories) == []


def test_sets_count_and_order_does_not() -> None:
    runs = [run(jobs=("{a}", "{b, a}"), index=(3, 4)), run(jobs=("{b}", "{b, a}"), index=(5, 6))]
    assert words(*runs) == ["jobs on s1 is a subset of that on s2"]


def test_a_node_whose_values_are_unknown_is_not_compared() -> None:
    stories = [run(leader=("s1", "s1")), run(leader=("s1", "s1")), run(leader=("s1", "s3"))]
    stories[2].did("boot", "file.read", **stories[2].by("s2", 2))
    assert words(*stories) == ["leader is equal on s1 and s2"]
