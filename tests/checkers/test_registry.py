"""Every built-in checker is complete: facts about itself, a row and a rank in the documentation, and a plant that it fails on."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import undermine.checkers
from undermine.checkers.base import BuiltinChecker
from undermine.checkers.registry import BUILTIN
from undermine.findings.planting import plants
from undermine.model import run as runs
from undermine.model.baseline import Baseline
from undermine.model.run import Op, Rank, Settling
from undermine.testing import run_view

DOCS = (Path(__file__).parents[2] / "docs" / "checkers.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)

each_checker = pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.name)


def test_every_checker_class_is_in_the_registry() -> None:
    for path in Path(undermine.checkers.__file__).parent.glob("*.py"):
        __import__(f"undermine.checkers.{path.stem}")
    missing = [kind.__name__ for kind in BuiltinChecker.__subclasses__() if kind not in BUILTIN]
    assert not missing, f"add {', '.join(missing)} to BUILTIN in undermine/checkers/registry.py"


def test_no_two_checkers_have_the_same_name_or_the_same_rank() -> None:
    for one, other in itertools.combinations(BUILTIN, 2):
        assert one.name != other.name, f"{one.__name__} and {other.__name__} have the same name"
        assert one.rank != other.rank, (
            f"give {one.name} or {other.name} a rank of its own: add a member to Rank in model/run.py"
        )


@each_checker
def test_a_checker_says_what_it_is(kind: type[BuiltinChecker]) -> None:
    assert re.fullmatch(r"[a-z_]+", kind.name)
    assert isinstance(kind.rank, Rank)
    assert kind.rank is not Rank.PROMISE, "that rank is for promises that only the user knows"
    assert kind.summary, f"{kind.__name__} needs a summary"
    assert kind.summary[0].islower()
    assert not kind.summary.endswith(".")


def test_the_documentation_lists_every_checker_with_its_summary_worst_first() -> None:
    section = DOCS.partition("## The built-in checkers\n")[2].partition("\n## ")[0]
    worst_first = sorted(BUILTIN, key=lambda kind: kind.rank.order)
    rows = [f"| `{kind.name}` | {kind.summary} |" for kind in worst_first]
    documented = [match[0] for match in ROW.finditer(section)]
    assert documented == rows, "the table in docs/checkers.md must be:\n" + "\n".join(rows)


@each_checker
def test_a_checker_passes_a_run_in_which_nothing_happened(kind: type[BuiltinChecker]) -> None:
    assert kind().check(run_view(workload=runs.WorkloadResult("ok"), settling=Settling(final="ok"))).answer == "pass"


@each_checker
def test_a_checker_passes_a_run_without_a_fault_and_fails_on_a_plant(kind: type[BuiltinChecker]) -> None:
    done = [Op(i, f"c{i % 2}", "put", "n1", {"key": "k"}, "ok", i, start_ns=i + 1, end_ns=i + 2) for i in range(6)]
    passing = run_view(
        ops=done, workload=runs.WorkloadResult("ok"), settling=Settling(final="ok"), baseline=Baseline(runs=1)
    )
    checker = kind()
    assert checker.check(passing).answer == "pass"
    wrong = [plant.view(passing) for plant in plants(passing)]
    assert any(checker.check(view).answer == "fail" for view in wrong), (
        f"no altered run makes {kind.name} fail; add one to undermine/findings/planting.py"
    )
