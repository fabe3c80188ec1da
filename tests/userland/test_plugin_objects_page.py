"""The page about the objects of plug-ins is written from the code, and leaves nothing unexplained."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import undermine

SCRIPT = Path(__file__).parents[2] / "docs" / "generate.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_page_is_up_to_date(generator: ModuleType) -> None:
    assert generator.PAGE.read_text() == generator.page(), "run `make docs`"


def test_every_attribute_and_method_is_explained(generator: ModuleType) -> None:
    silent = []
    for _, module, names in generator.SECTIONS:
        nodes = [node for node in generator._body(module) if isinstance(node, ast.ClassDef) and node.name in names]
        silent += [f"{node.name}.{entry.name}" for node in nodes for entry in generator.entries_of(node) if not entry.text]
    assert not silent


def test_the_page_has_the_names_that_a_plug_in_file_imports(generator: ModuleType) -> None:
    elsewhere = {"PlanView", "StepView", "__version__", "hunt", "ledgers"}  # policies, ledgers and the command line
    helpers = {name for name in undermine.__all__ if undermine._HOMES.get(name) == "undermine.policies.plan_view"}
    named = {name for _, _, names in generator.SECTIONS for name in names}
    assert set(undermine.__all__) - elsewhere - helpers <= named


def test_the_page_says_that_final_reads_are_repeated_in_one_process(generator: ModuleType) -> None:
    final = generator.page().partition("### `@undermine.final`")[2].partition("###")[0]
    assert "again, in the same process" in final
    assert "`nth_try`" in final


def test_a_method_without_a_text_would_be_seen(generator: ModuleType) -> None:
    (node,) = ast.parse("class A:\n    x: int\n    _y: int\n    def f(self, a: int = 1) -> str: ...\n").body
    assert list(generator.entries_of(node)) == [("x", "int", ""), ("f(a=1) -> str", "", "")]
