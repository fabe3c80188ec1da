"""The table of plug-ins: built-in ones, those of entry points, and names that are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from undermine import plugins
from undermine.checkers.gray import Gray
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.run import RunView, Verdict
from undermine.protocols import Arranges, Capped, Content, HasPolicies, Heap, History, Remarks, Traced

BASE = """
[roles.store]
nodes = ["n1"]
command = "python3 -c pass"
[workload]
command = "true"
"""


def config(folder: Path, more: str = "") -> Config:
    path = folder / "undermine.toml"
    path.write_text(BASE + more)
    return load(path, programs=False)


class Theirs:
    """Somebody else's strategy and checker in one."""

    name = "theirs"
    summary = "something else"

    def propose(self, history: History) -> Sequence[Plan]:
        return []

    def check(self, run: RunView) -> Verdict:
        return Verdict.ok()


class Entry:
    """An entry point of another package."""

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name = name
        self.load = load


def install(patch: pytest.MonkeyPatch, name: str = "theirs") -> None:
    patch.setattr(plugins, "entry_points", lambda group: [Entry(name, lambda: Theirs)])


def names(found: Sequence[Any]) -> list[str]:
    return [item.name for item in found]


def test_without_names_all_strategies_are_used(tmp_path: Path) -> None:
    assert names(plugins.strategies(config(tmp_path))) == list(plugins.STRATEGIES)


def test_every_strategy_is_known_by_the_name_that_it_has_itself() -> None:
    assert all(make().name == name and make().summary for name, make in plugins.STRATEGIES.items())


def test_strategies_are_taken_as_asked_for_each_once_and_before_those_of_the_file(tmp_path: Path) -> None:
    made = config(tmp_path, '[hunt]\nstrategies = ["exhaustive"]')
    assert names(plugins.strategies(made)) == ["exhaustive"]
    assert names(plugins.strategies(made, ["random", "random"])) == ["random"]


def test_an_unknown_strategy_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        plugins.strategies(config(tmp_path), ["random", "magic"])
    assert "'magic'" in str(caught.value)
    assert all(name in str(caught.value) for name in plugins.STRATEGIES)


def test_an_unknown_strategy_in_the_file_is_refused_with_its_line(tmp_path: Path) -> None:
    made = config(tmp_path, '[hunt]\nstrategies = ["exhaustiv"]')
    with pytest.raises(UserError) as caught:
        plugins.strategies(made)
    assert "undermine.toml:8" in str(caught.value)
    assert '"exhaustiv"' in str(caught.value)
    assert "random" in str(caught.value)


def test_strategies_of_other_packages_are_known_by_their_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    assert names(plugins.strategies(config(tmp_path), ["theirs"])) == ["theirs"]
    assert "theirs" in names(plugins.strategies(config(tmp_path)))


def test_nobody_can_replace_a_builtin_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "random")
    (found,) = plugins.strategies(config(tmp_path), ["random"])
    assert not isinstance(found, Theirs)


def test_all_builtin_checkers_are_used_but_the_disabled_ones(tmp_path: Path) -> None:
    all_of_them = names(plugins.checkers(config(tmp_path), []))
    assert {"exits", "deaths", "hang", "liveness", "workload"} <= set(all_of_them)
    made = config(tmp_path, '[checkers]\ndisable = ["hang"]')
    assert names(plugins.checkers(made, [])) == [name for name in all_of_them if name != "hang"]


def test_a_checker_that_is_off_by_default_is_used_if_it_is_enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gray, "default_state", "off")
    assert "gray" not in names(plugins.checkers(config(tmp_path), []))
    assert "gray" in names(plugins.checkers(config(tmp_path, '[checkers]\nenable = ["gray"]'), []))
    both = config(tmp_path, '[checkers]\nenable = ["gray"]\ndisable = ["gray"]')
    assert "gray" not in names(plugins.checkers(both, []))


def test_enabling_an_unknown_checker_is_refused(tmp_path: Path) -> None:
    made = config(tmp_path, '[checkers]\nenable = ["grey"]')
    with pytest.raises(UserError, match=r'undermine\.toml:8: .*"grey".*gray'):
        plugins.checkers(made, [])


def test_a_checker_of_the_users_own_can_be_disabled(tmp_path: Path) -> None:
    made = config(tmp_path, '[checkers]\ndisable = ["ledger"]')
    assert "exits" in names(plugins.checkers(made, ["ledger"]))


def test_a_checker_of_the_users_own_cannot_have_the_name_of_a_builtin_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="your checker 'hang' has the name of an installed checker; rename yours"):
        plugins.checkers(config(tmp_path), ["ledger", "hang"])


def test_disabling_an_unknown_checker_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    made = config(tmp_path, '[checkers]\ndisable = ["hangs"]')
    with pytest.raises(UserError) as caught:
        plugins.checkers(made, ["ledger"])
    assert "undermine.toml:8" in str(caught.value)
    assert '"hangs"' in str(caught.value)
    assert "ledger" in str(caught.value)
    assert "exits" in str(caught.value)


def test_checkers_of_other_packages_are_used_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert names(plugins.checkers(config(tmp_path), []))[-1] == "theirs"


def test_a_strategy_is_told_what_its_table_says(tmp_path: Path) -> None:
    given = config(tmp_path, '[strategies.prefail]\nfailures = 3\npolicies = ["any_nodes"]\n')
    (made,) = plugins.strategies(given, ["prefail"])
    assert (made.policies, made.cap) == (("any_nodes",), 10_000)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[strategies.prefail]\nfailures = 0\n", "strategies.prefail] cannot be used: expected `int` >= 1"),
        ("[strategies.prefail]\nfailure = 2\n", "did you mean"),
        ("[strategies.random]\nfailures = 2\n", "takes no options; remove this table"),
        ("[strategies.no-such]\nfailures = 2\n", "no-such"),
        ("[strategies]\nprefail = 3\n", "must be a table like"),
        (
            '[strategies.sieve]\nmode = "fate"\n',
            'strategies.sieve.mode has the unknown name "fate" (known names: insensitive, sieve, ungrouped)',
        ),
    ],
)
def test_a_mistake_in_such_a_table_is_told_with_its_line(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(UserError, match=r"undermine\.toml:\d+") as error:
        plugins.strategies(config(tmp_path, more))
    assert said in str(error.value)


def test_a_strategy_has_the_abilities_whose_attributes_it_has() -> None:
    class Plain:
        name, summary = "plain", ""

        def propose(self, history: History) -> list[Plan]:
            return []

    class Able(Plain):
        policies, cap, traced, heap, content = ("first_read",), 3, True, True, True

        def arrange(self, plans: Sequence[Plan], history: History) -> Sequence[Plan]:
            return plans

        def remarks(self) -> list[str]:
            return ["a word"]

    abilities = (HasPolicies, Arranges, Capped, Traced, Heap, Content, Remarks)
    assert [isinstance(Able(), ability) for ability in abilities] == [True] * 7
    assert [isinstance(Plain(), ability) for ability in abilities] == [False] * 7


def test_a_script_may_hand_in_a_strategy_of_its_own(tmp_path: Path) -> None:
    class Own:
        name, summary = "own", ""

        def propose(self, history: History) -> list[Plan]:
            return []

    own = Own()
    assert plugins.strategies(config(tmp_path), [own]) == [own]
    assert names(plugins.strategies(config(tmp_path), ["random", own])) == ["random", "own"]
