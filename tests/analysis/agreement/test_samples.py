"""The values of variables over time."""

from __future__ import annotations

from cluster_story import Cluster

from undermine.analysis.agreement.samples import UNKNOWN, Samples, Value, Variable, samples_of


def values(samples: Samples, node: str, name: str, key: str = "") -> list[tuple[int, Value]]:
    return [(t // 1000, value) for t, value in samples.series(Variable(node, name, key))]


def test_a_value_is_unknown_before_its_first_sample_and_known_until_the_next() -> None:
    story = Cluster()
    story.shows("s1", "term", 1, t=5)
    story.shows("s1", "term", 2, t=9)
    samples = samples_of(story.tell())
    term = Variable("s1", "term")
    assert [samples.value_at(term, t * 1000) for t in (4, 5, 8, 9, 20)] == [UNKNOWN, "1", "1", "2", "2"]
    assert samples.value_at(Variable("s2", "term"), 9000) is UNKNOWN


def test_the_reason_why_a_path_leads_nowhere_is_not_a_value() -> None:
    def told(*reasons: str) -> Samples:
        story = Cluster()
        story.reads("s1", t=1)
        for why in reasons:
            story.did("why", "variable.sample", target="status", content=why, size=0, t=2, end=0, **story.by("s1"))
        story.shows("s1", "status", "NORMAL", "s2", t=5)
        return samples_of(story.tell())

    plain, explained = told(), told("the class Node has no instance")
    assert explained.variables == plain.variables == (Variable("s1", "status", "s2"),)
    assert values(explained, "s1", "status", "s2") == values(plain, "s1", "status", "s2")


def test_each_key_is_a_variable() -> None:
    story = Cluster()
    story.shows("s1", "status", "NORMAL", "s2")
    story.shows("s1", "status", "LEFT", "s3")
    samples = samples_of(story.tell())
    assert samples.keys("status") == ("s2", "s3")
    assert samples.variables == (Variable("s1", "status", "s2"), Variable("s1", "status", "s3"))
    assert str(samples.variables[1]) == "s1.status[s3]"


def test_a_removed_key_is_absent() -> None:
    story = Cluster()
    story.shows("s1", "status", "LEFT", "s3", t=1)
    story.shows("s1", "status", None, "s3", t=2)
    assert values(samples_of(story.tell()), "s1", "status", "s3") == [(1, "LEFT"), (2, None)]


def test_a_key_that_a_node_never_had_is_absent_from_its_first_reading_on() -> None:
    story = Cluster()
    story.shows("s1", "status", "NORMAL", "s3", t=1)
    story.shows("s2", "status", "NORMAL", "s1", t=4)
    story.shows("s2", "status", "NORMAL", "s2", t=5)
    story.reads("s2", t=6)
    assert values(samples_of(story.tell()), "s2", "status", "s3") == [(5, None)]


def test_a_first_reading_of_several_keys_shows_none_of_them_as_absent() -> None:
    story = Cluster()
    story.reads("s1", t=1, end=9)  # the agent reads within the operation
    story.shows("s1", "status", "NORMAL", "s1", t=2)
    story.shows("s1", "status", "NORMAL", "s2", t=3)
    samples = samples_of(story.tell())
    assert values(samples, "s1", "status", "s1") == [(2, "NORMAL")]
    assert values(samples, "s1", "status", "s2") == [(3, "NORMAL")]


def test_an_operation_that_reads_nothing_shows_that_all_keys_are_absent() -> None:
    story = Cluster()
    story.reads("s2", t=1)
    story.reads("s2", t=2)
    story.shows("s1", "status", "NORMAL", "s1", t=3)
    story.shows("s2", "status", "NORMAL", "s1", t=4)
    assert values(samples_of(story.tell()), "s2", "status", "s1") == [(1, None), (4, "NORMAL")]


def test_a_node_that_never_has_a_value_of_a_name_has_no_such_variable() -> None:
    story = Cluster()
    story.shows("s1", "leader", "s1")
    story.shows("client", "leader", None)
    assert samples_of(story.tell()).nodes("leader") == ("s1",)


def test_a_node_can_be_known_to_have_a_name_from_other_runs() -> None:
    story = Cluster()
    story.shows("s1", "status", "NORMAL", "s1", t=1)
    story.reads("s2", t=2)
    samples = samples_of(story.tell(), nodes={"status": ("s1", "s2")})
    assert samples.value_at(Variable("s2", "status", "s1"), 3000) is None


def test_names_with_the_same_metadata_have_the_same_keys() -> None:
    story = Cluster()
    story.shows("m", "placed", "w1", "job-1", t=1)
    story.shows("w", "running", "w1", "job-2", t=2)
    story.reads("w", t=3)
    samples = samples_of(story.tell(), {"placed": "place", "running": "place"})
    assert samples.keys("placed") == samples.keys("running") == ("job-1", "job-2")
    assert samples.value_at(Variable("w", "running", "job-1"), 3000) is None


def test_a_restart_makes_values_unknown_until_the_next_reading() -> None:
    story = Cluster()
    story.shows("s1", "term", 3, t=1)
    story.shows("s1", "status", "NORMAL", "s2", t=2)
    story.did("boot", "file.read", t=5, **story.by("s1", 2))
    story.shows("s1", "term", 3, incarnation=2, t=7)
    story.reads("s1", 2, t=8)
    samples = samples_of(story.tell())
    assert values(samples, "s1", "term") == [(1, "3"), (5, UNKNOWN), (7, "3")]
    assert values(samples, "s1", "status", "s2") == [(2, "NORMAL"), (5, UNKNOWN), (7, None)]


def test_the_end_of_a_node_makes_values_unknown() -> None:
    story = Cluster()
    story.shows("s1", "term", 3, t=1)
    story.shows("s2", "term", 3, t=2)
    story.reads("s2", t=9)
    samples = samples_of(story.tell(), ended=[("s1", 4000)])
    assert values(samples, "s1", "term") == [(1, "3"), (4, UNKNOWN)]
    assert values(samples, "s2", "term") == [(2, "3")]


def test_a_process_that_replaces_the_one_before_starts_without_values() -> None:
    story = Cluster()
    story.shows("s1", "term", 3, t=1)
    story.did("boot", "file.read", t=5, node="s1", pid=77)
    story.shows("s1", "term", 4, t=6, pid=77)
    assert values(samples_of(story.tell()), "s1", "term") == [(1, "3"), (5, UNKNOWN), (6, "4")]


def test_a_helper_process_without_values_says_nothing() -> None:
    story = Cluster()
    story.shows("s1", "term", 3, t=1)
    story.shows("s1", "term", None, t=2, pid=77)
    story.shows("s1", "term", 4, t=3)
    assert values(samples_of(story.tell()), "s1", "term") == [(1, "3"), (3, "4")]


def test_a_trace_without_samples_has_no_variables() -> None:
    story = Cluster()
    story.reads("s1")
    assert samples_of(story.tell()).variables == ()
