"""Declarations and data traces for Daikon."""

from __future__ import annotations

import re

from cluster_story import Cluster

from undermine.analysis.agreement.daikon import DaikonFiles, daikon_files
from undermine.analysis.agreement.samples import samples_of


def files(*stories: Cluster, kind: str = "gossip") -> DaikonFiles:
    runs = []
    for story in stories:
        analysis = story.analysed(*story.sent, texts=(kind,))
        runs.append((analysis, samples_of(analysis.columns)))
    return daikon_files(runs)


def records(dtrace: str) -> list[dict[str, tuple[str, str]]]:
    """The values and modified bits of each record."""
    found = []
    for record in filter(None, dtrace.split("\n\n")):
        lines = record.strip().split("\n")[1:]
        found.append({name: (value, bit) for name, value, bit in zip(lines[::3], lines[1::3], lines[2::3], strict=True)})
    return found


def test_each_message_is_a_record_of_its_program_point() -> None:
    story = Cluster()
    story.shows("s1", "status", "NORMAL", "s3")
    story.sends("s1", "s2", status=("s3", "NORMAL"))
    story.shows("s1", "status", 'LE"FT\\', "s3")
    story.sends("s1", "s2", status=("s3", None))
    decls, dtrace = files(story, kind="on gossip")
    assert decls.splitlines() == [
        "decl-version 2.0",
        "var-comparability implicit",
        "",
        "ppt s1.s2(on\\_gossip):::POINT",
        "ppt-type point",
        "variable s1.status[s3]",
        "  var-kind variable",
        "  dec-type java.lang.String",
        "  rep-type java.lang.String",
        "  comparability 1",
        "variable s2.status[s3]",
        "  var-kind variable",
        "  dec-type java.lang.String",
        "  rep-type java.lang.String",
        "  comparability 1",
    ]
    assert dtrace.splitlines()[0] == "s1.s2(on\\_gossip):::POINT"
    assert records(dtrace) == [
        {"s1.status[s3]": ('"NORMAL"', "1"), "s2.status[s3]": ('"NORMAL"', "1")},
        {"s1.status[s3]": ('"LE\\"FT\\\\"', "1"), "s2.status[s3]": ("nonsensical", "2")},
    ]


def test_numbers_and_containers_have_their_types() -> None:
    story = Cluster()
    for number in range(2):
        story.shows("s1", "term", number)
        story.shows("s1", "load", 0.5 * number)
        story.shows("s1", "jobs", "{b, a}" if number else "{}")
        story.sends("s1", "s2", load=number)
    decls, dtrace = files(story)
    types = dict(re.findall(r"variable (\S+)\n(?:  .*\n)*?  rep-type (\S+)", decls))
    assert "variable s1.jobs[..]\n  var-kind array\n  enclosing-var s1.jobs\n  array 1\n" in decls
    assert types["s1.term"] == "int"
    assert types["s1.load"] == "double"
    first, second = records(dtrace)
    assert (first["s1.jobs[..]"], second["s1.jobs[..]"]) == (("[]", "1"), ('["a" "b"]', "1"))
    assert second["s1.term"] == ("1", "1")
    assert first["s1.jobs"] != second["s1.jobs"]


def test_records_of_all_runs_have_the_variables_of_their_point() -> None:
    one, other = Cluster(), Cluster()
    for story, key in ((one, "a"), (other, "b")):
        story.shows("s1", "place", "w", key)
        story.sends("s1", "s2", place=(key, "w"))
    found = records(files(one, other).dtrace)
    assert [list(record) for record in found] == [["s1.place[a]", "s1.place[b]", "s2.place[a]", "s2.place[b]"]] * 2
    assert found[0]["s1.place[b]"] == ("nonsensical", "2")


def test_a_trace_without_messages_declares_nothing() -> None:
    story = Cluster()
    story.shows("s1", "term", 1)
    assert files(story) == DaikonFiles("decl-version 2.0\nvar-comparability implicit\n", "")
