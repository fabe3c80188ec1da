"""Policy names in a configuration are checked before anything is run; and the time limit of the user's own policies."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_engine import TOML, FakeEngine, configured

from undermine.campaign.proposing import Proposing
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.policies.library import DEFAULT
from undermine.run.engine import LocalEngine
from undermine.testing import point


class Named:
    name, summary = "prefail", ""

    def __init__(self, *policies: str) -> None:
        self.policies = policies

    def propose(self, history):
        raise AssertionError("nothing is proposed yet")


def proposing(folder: Path, own: tuple[str, ...] = ("mine", "same")) -> Proposing:
    toml = TOML + '[strategies.prefail]\nfailures = 2\npolicies = [\n  "any_nodes",\n]\n'
    engine = FakeEngine(configured(folder, toml))
    engine.declared = {"filters": list(own[:1]), "clusters": list(own[1:])}
    return Proposing(engine, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policies", "in_the_users_process"),
    [
        ((), []),
        (("any_nodes",), []),
        (("mine",), ["mine"]),
        (("same", "any_k_nodes(2)", "mine"), ["same", "any_k_nodes(2)", "mine"]),
        (("fault_types(crash, disk)", "same"), ["same"]),
    ],
)
def test_shipped_policies_and_the_users_own_are_accepted(
    tmp_path: Path, policies: tuple[str, ...], in_the_users_process: list[str]
) -> None:
    """From the first policy of the user on, all are applied in the user's process."""
    made = proposing(tmp_path)
    made.refuse_unknown([Named(*policies), SimpleNamespace(name="without policies")])  # type: ignore[list-item]
    here, there = made._policies(Named(*policies))  # type: ignore[arg-type]
    assert there == in_the_users_process
    assert len(here) == len(policies or DEFAULT) - len(there)


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        (("any_node",), 'there is no policy "any_node"; did you mean any_nodes'),
        (("mine", "any_node"), 'there is no policy "any_node"; did you mean any_nodes'),
        (("any_nodes", "same", "my"), 'there is no policy "my"'),
        (("mine", "any_k_nodes"), "k is missing"),
        (("mine", "any_k_nodes(many)"), "any_k_nodes"),
        (("mine(3)",), 'there is no policy "mine"'),
    ],
)
def test_an_unusable_policy_is_reported_with_its_line_wherever_it_is(
    tmp_path: Path, policies: tuple[str, ...], why: str
) -> None:
    with pytest.raises(UserError) as caught:
        proposing(tmp_path).refuse_unknown([SimpleNamespace(name="other"), Named(*policies)])  # type: ignore[list-item]
    line = 1 + (tmp_path / "undermine.toml").read_text().splitlines().index("policies = [")
    assert str(caught.value).startswith(f"{tmp_path / 'undermine.toml'}:{line}: ")
    assert why in str(caught.value)
    assert str(caught.value).endswith("; yours are mine, same")


def test_the_error_lists_no_own_policies_if_the_user_has_none(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        proposing(tmp_path, own=()).refuse_unknown([Named("mine")])  # type: ignore[list-item]
    assert "yours" not in str(caught.value)


# --- the user's process


class Patient:
    """A call that never ends; it notes the time limit of the wait for it."""

    code = None

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.killed = 0

    def wait(self, timeout_s: float) -> bool:
        self.waited.append(timeout_s)
        return False

    def kill(self) -> None:
        self.killed += 1


def test_the_more_plans_there_are_the_longer_policies_may_take(tmp_path: Path) -> None:
    call = Patient()
    userland = SimpleNamespace(declared={"filters": ["mine"], "clusters": []}, call=lambda *_, **__: call)
    engine = LocalEngine(configured(tmp_path), tmp_path, SimpleNamespace(), userland, SimpleNamespace())  # type: ignore[arg-type]
    plans = [Plan((Step(At(point(), nth=n), Crash()),)) for n in range(1, 2002)]
    for asked in (plans[:1], plans):
        with pytest.raises(UserError, match="ended the process or hung"):
            engine.user_policies(asked)
    assert call.waited[0] > 100
    assert call.waited[1] - call.waited[0] == pytest.approx(2.0)
    assert call.killed == 2
