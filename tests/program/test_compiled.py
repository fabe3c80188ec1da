"""Facts of bytecode: how the analyser's findings are joined with each other and with the calls of runs."""

from __future__ import annotations

from pathlib import Path

from undermine.program import Compiled, Facts, StaticPoint, analyse, joined
from undermine.program.compiled import CompiledFunction, CompiledPoint, CompiledRegion

WRITE = "file.write"


def function(id: str, **calls: tuple[str, ...]) -> CompiledFunction:
    """A function with these callees, by ordinal: `_0=("m:g",)`."""
    return CompiledFunction(id, 10, tuple((int(name[1:]), callees) for name, callees in calls.items()))


def point(function: str, ordinal: int = 0, block: int = 0) -> CompiledPoint:
    return CompiledPoint(function, ordinal, "M.java", ordinal + 1, WRITE, "java.io.OutputStream.write", block)


def lock(function: str, *calls: int, whole: bool = False) -> CompiledRegion:
    return CompiledRegion("critical", "LOCK", "M.java:1", "under LOCK", function, None if whole else calls)


def at(facts: Facts, loc: str) -> StaticPoint:
    found = facts.at(loc)
    assert found is not None
    return found


def test_a_region_spreads_to_callees_and_sites_hold_only_their_own_regions() -> None:
    functions = function("m:f", _0=("m:g",), _1=("m:h",)), function("m:g"), function("m:h")
    facts = Compiled(1, 9, functions, (point("m:g"), point("m:h")), (lock("m:f", 0),)).facts()
    assert at(facts, "m:g#0").synchronized
    assert not at(facts, "m:h#0").synchronized
    assert list(facts.sites) == ["m:f#0"]
    assert [region.depth for region in facts.on(["m:g#0", "m:f#0"])] == [1]


def test_a_whole_function_is_a_region_wherever_it_is_called_from() -> None:
    facts = Compiled(1, 9, (function("m:f"),), (point("m:f", 3),), (lock("m:f", whole=True),)).facts()
    assert at(facts, "m:f#3").synchronized
    assert [region.kind for region in facts.on(["m:f#7"])] == ["critical"]


def test_runs_decide_which_of_several_functions_a_call_means() -> None:
    functions = function("m:f", _0=("m:a", "m:b")), function("m:a"), function("m:b")
    compiled = Compiled(1, 9, functions, (point("m:a"), point("m:b")), (lock("m:f", 0),))
    assert all(each.synchronized for each in compiled.facts().points)
    shown = compiled.facts([("m:f#0", "m:b#0"), ("m:unknown#0", "m:a#0"), ("m:f#x", "m:missing")])
    assert [each.loc for each in shown.points if each.synchronized] == ["m:b#0"]


def test_runs_add_a_call_that_the_code_does_not_show() -> None:
    compiled = Compiled(1, 9, (function("m:f"), function("m:g")), (point("m:g"),), (lock("m:f", 4),))
    assert not at(compiled.facts(), "m:g#0").synchronized
    assert at(compiled.facts([("m:f#4", "m:g#0")]), "m:g#0").synchronized
    assert not at(compiled.facts([("m:f#5", "m:g#0")]), "m:g#0").synchronized


def test_the_last_point_of_a_block_and_its_regions_represents_the_others() -> None:
    points = point("m:f", 0), point("m:f", 1), point("m:f", 2, block=1), point("m:f", 3)
    facts = Compiled(1, 9, (function("m:f"),), points, (lock("m:f", 0, 1, 2),)).facts()
    assert [each.stands for each in facts.points] == [False, True, True, True]
    assert (facts.counts.in_regions, facts.counts.grouped) == (3, 2)


def test_callees_and_regions_of_unknown_functions_are_ignored() -> None:
    facts = Compiled(1, 9, (function("m:f", _0=("m:gone",)),), (point("m:f"),), (lock("m:gone", 0),)).facts()
    assert not facts.sites
    assert facts.counts.edges == 0


def test_facts_of_several_programs_are_joined(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import os\nos.stat('x')\n")
    source = analyse([tmp_path / "m.py"])
    compiled = Compiled(1, 9, (function("m:f"),), (point("m:f"),), (), (("a.jar", "broken"),)).facts()
    both = joined([source, compiled])
    assert both.counts.all == 2
    assert at(both, "m:f#0").op == WRITE
    assert [trouble.file for trouble in both.troubles] == ["a.jar"]
    assert joined([Facts(), compiled]) is compiled
    assert joined([]) == Facts()
