"""The declarations of a plug-in file, and the error for one that cannot be loaded."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import undermine
from undermine.model.errors import UserError
from undermine.userland import registry


@pytest.fixture(autouse=True)
def same_interpreter_afterwards() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    policies = (registry.filters, registry.clusters, registry.policies)
    for declared in (registry.workloads, registry.finals, registry.checkers, registry.settled, *policies):
        declared.clear()


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


GOOD = """
    import undermine

    @undermine.workload
    def work(session): return "worked"

    @undermine.final
    def settle(session): ...

    @undermine.checker
    def ledger(run): ...

    @undermine.filter
    def only_writes(plan): return True

    def ready(node): return True
    LIMIT = 5
"""


def test_every_decorator_declares_its_function_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    declared = registry.load(write(tmp_path, GOOD))
    kinds = (declared.workloads, declared.finals, declared.checkers, declared.filters)
    assert [list(kind) for kind in kinds] == [["work"], ["settle"], ["ledger"], ["only_writes"]]
    assert declared.module.work is declared.workloads["work"]
    assert declared.the_workload()(None) == "worked"


def test_policies_are_known_in_the_order_of_the_file_and_their_names_are_unlike(tmp_path: Path) -> None:
    text = """
        import undermine

        @undermine.cluster
        def alike(a, b): return a == b

        @undermine.filter
        def wanted(fs): return True

        @undermine.cluster
        def key(fs): return 1
    """
    declared = registry.load(write(tmp_path, text))
    assert declared.policies == {"alike": "cluster", "wanted": "filter", "key": "cluster"}
    assert (list(declared.filters), list(declared.clusters)) == (["wanted"], ["alike", "key"])
    assert list(declared.policies) == ["alike", "wanted", "key"]
    again = text + "\n        @undermine.filter\n        def key(fs): return True\n"
    with pytest.raises(UserError, match="two policies are called 'key'"):
        registry.load(write(tmp_path, again, "again.py"))


LEDGERS = """
    import undermine
    from undermine import ledgers

    undermine.check(ledgers.no_acknowledged_write_lost())
    undermine.check(ledgers.no_stale_read(), name="fresh")
    undermine.check(ledgers.replicas_agree(read="members", name="one_view"))

    def plain(run): ...
    undermine.check(plain)
"""


def test_ledgers_are_declared_as_checkers_with_their_conditions_for_the_end(tmp_path: Path) -> None:
    declared = registry.load(write(tmp_path, LEDGERS))
    assert list(declared.checkers) == ["no_acknowledged_put_lost", "fresh", "one_view", "plain"]
    assert list(declared.settled) == ["no_acknowledged_put_lost", "one_view"]
    assert declared.settled["one_view"](()) == ""
    assert registry.load(write(tmp_path, GOOD, "other.py")).settled == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("undermine.check(ledgers.no_stale_read())", "two checkers are called 'no_stale_get'"),
        ("undermine.checker(type('x', (), {'__name__': 'no_stale_get'})())", "two checkers are called 'no_stale_get'"),
        ("undermine.check('no_stale_get')", "give it a ledger or a function"),
        ("undermine.check(lambda run: None)", "give it a ledger or a function"),
        ("ledgers.no_stale_reed()", "no_stale_reed"),
    ],
)
def test_what_cannot_be_declared_is_told_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    text = f"import undermine\nfrom undermine import ledgers\nundermine.check(ledgers.no_stale_read())\n{line}\n"
    path = write(tmp_path, text)
    with pytest.raises(UserError, match=words) as caught:
        registry.load(path)
    assert f"{path}:4" in str(caught.value)


def test_another_file_does_not_inherit_what_the_first_declared(tmp_path: Path) -> None:
    first = registry.load(write(tmp_path, GOOD))
    second = registry.load(write(tmp_path, "X = 1", "other.py"))
    assert second.workloads == {}
    assert list(first.workloads) == ["work"]


def test_the_folder_of_the_file_is_importable(tmp_path: Path) -> None:
    write(tmp_path, "VALUE = 42", "helper_of_mine.py")
    declared = registry.load(write(tmp_path, "import helper_of_mine\nV = helper_of_mine.VALUE"))
    assert declared.module.V == 42


def test_functions_are_found_by_name_and_a_missing_one_is_the_users_mistake(tmp_path: Path) -> None:
    declared = registry.load(write(tmp_path, GOOD))
    assert declared.function("ready")(None) is True
    assert declared.the_workload("ready") is declared.function("ready")
    for name in ("redy", "LIMIT"):
        with pytest.raises(UserError, match=name):
            declared.function(name)


@pytest.mark.parametrize("count", [0, 2])
def test_without_exactly_one_workload_the_user_must_name_one(tmp_path: Path, count: int) -> None:
    text = "import undermine\n" + "".join(f"@undermine.workload\ndef w{n}(s): ...\n" for n in range(count))
    declared = registry.load(write(tmp_path, text))
    with pytest.raises(UserError, match=f"has {count} functions marked"):
        declared.the_workload()


def test_an_exception_while_loading_is_told_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "X = 1\n\nraise RuntimeError('no server')\n")
    with pytest.raises(UserError) as caught:
        registry.load(path)
    assert f"{path}:3" in str(caught.value)
    assert "RuntimeError: no server" in str(caught.value)


def test_a_missing_import_is_told_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\nimport no_such_module_anywhere\n")
    with pytest.raises(UserError, match="no_such_module_anywhere") as caught:
        registry.load(path)
    assert f"{path}:2" in str(caught.value)


def test_a_syntax_error_is_told_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "X = 1\n\ndef broken(:\n")
    with pytest.raises(UserError, match="SyntaxError") as caught:
        registry.load(path)
    assert f"{path}:3" in str(caught.value)


def test_the_line_is_the_users_own_also_where_a_library_raised(tmp_path: Path) -> None:
    path = write(tmp_path, "import json\n\njson.loads('nonsense')\n")
    with pytest.raises(UserError, match="JSONDecodeError") as caught:
        registry.load(path)
    assert f"{path}:3" in str(caught.value)


def test_a_file_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.py"):
        registry.load(tmp_path / "gone.py")


def test_a_file_that_is_not_python_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a Python file"):
        registry.load(write(tmp_path, "hello", "notes.txt"))


def test_the_package_offers_what_a_plug_in_file_needs() -> None:
    assert undermine.workload is registry.workload
    assert undermine.filter is registry.filter
    assert undermine.check is registry.check
    assert undermine.ledgers.no_stale_read().name == "no_stale_get"
    assert all(getattr(undermine, name) is not None for name in undermine.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        undermine.nonsense  # noqa: B018


def test_a_missing_module_is_reported_with_the_python_that_misses_it(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        registry.load(write(tmp_path, "import no_such_queue"))
    assert "mine.py:1 cannot be loaded: ModuleNotFoundError: No module named 'no_such_queue'" in str(caught.value)
    assert f"runs in {sys.executable}: install the module there, or add its folder to sys.path" in str(caught.value)
    assert registry.described(ValueError("x")) == "ValueError: x"
