"""The user's policies, asked in the helper process as a campaign asks them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_engine import TOML, configured
from rounds import written

import undermine
from undermine.model.errors import UserError
from undermine.model.faults import Crash, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.model.run import RunRecord
from undermine.policies.plan_view import plan_view
from undermine.policies.pruning import Refusal
from undermine.protocols import PointSeen
from undermine.run.engine import LocalEngine
from undermine.store.database import CampaignStore
from undermine.testing import point
from undermine.userland.client import UserlandClient

Make = Callable[[str], LocalEngine]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """An engine that has nothing but the helper process with a plug-in file."""
    clients: list[UserlandClient] = []

    def build(text: str) -> LocalEngine:
        plugins = tmp_path / "mine.py"
        plugins.write_text("import undermine\n" + textwrap.dedent(text))
        clients.append(UserlandClient(plugins, {}, tmp_path / "helper.log"))
        config = configured(tmp_path, TOML.replace('["n1"]', '["n1", "n2", "n3"]') + '[groups]\nrack = ["n1", "n2"]\n')
        nobody = SimpleNamespace()
        return LocalEngine(config, tmp_path, nobody, clients[-1], nobody)  # type: ignore[arg-type]

    yield build
    for client in clients:
        client.close()


def at(name: str, node: str = "n1", reboot: bool = False) -> Step:
    return Step(At(point(node=node, loc=f"app:{name}#1")), Reboot() if reboot else Crash())


def pair(first: str, last: str, node: str = "n1") -> Plan:
    return Plan((at(first), at(last, node)), 0, "some")


def test_a_key_a_predicate_and_a_filter_are_applied_in_the_order_of_the_file(make: Make) -> None:
    engine = make("""
        @undermine.cluster
        def any_node(fs): return undermine.abstract_out(fs, "node")

        @undermine.filter
        def no_reboots(plan): return "reboot" not in str(plan) and plan.steps

        @undermine.cluster
        def same_start(a, b): return a[0] == b[0]
    """)
    plans = [pair("a", "x"), pair("a", "x", "n2"), pair("b", "x"), pair("b", "y"), Plan((at("c", reboot=True),))]
    answers = engine.user_policies(plans)
    by_rule = {rule: [plans[i] for i, one in enumerate(answers) if one.rule.startswith(rule)] for rule in "ans"}
    assert [one.rule for one in answers].count("") == 2
    assert len(by_rule["a"]) == 1
    assert by_rule["a"][0] in plans[:2]
    assert by_rule["n"] == [plans[4]]
    assert len(by_rule["s"]) == 1
    assert by_rule["s"][0] in plans[2:4]
    kept = {plan.id for plan, one in zip(plans, answers, strict=True) if not one.rule}
    assert {one.instead for one in answers if one.rule and one.rule != "no_reboots"} == kept


def campaign(folder: Path, shown: dict[Plan, list[Point]]) -> None:
    """Store a run for each plan, with the points that it showed."""
    store = CampaignStore(folder)
    for plan, points in shown.items():
        (slot,) = written(store, plan.strategy, [plan])
        record = RunRecord(store.begin_run(slot), plan, "fired")
        seen = [PointSeen(p, 1, 1, order, after=1, frames=("app:recover",)) for order, p in enumerate(points)]
        store.finish_run(slot, record, (), "", seen, ())
    store.close()


ONE, TWO = point(loc="app:one#1"), point(loc="app:two#1")


@pytest.fixture
def stored(tmp_path: Path) -> None:
    """A campaign in which recovery is the same after crashes at a and b, and different after a crash at c."""
    first = {name: Plan((at(name),), 0, "some") for name in "abc"}
    new = {"a": ONE, "b": point(node="n2", loc="app:one#1"), "c": TWO}
    campaign(tmp_path, {Plan((), 0, "baseline"): [point()]} | {first[n]: [point(), new[n]] for n in first})


@pytest.mark.usefixtures("stored")
def test_policies_can_ask_for_the_results_of_the_campaigns_experiments(make: Make) -> None:
    engine = make("""
        @undermine.cluster
        def recovery(fs):
            return undermine.abstract_in(undermine.recovery_path(fs.prefix), "loc"), fs.last

        @undermine.filter
        def known(fs):
            assert fs.last.frames in (("app:recover",), ("app:one",), ("app:a",)), fs.last.frames
            assert undermine.all_points() and undermine.first_read(fs.last)
            return not undermine.explored(fs.last, "loc")
    """)
    last = Step(At(ONE), Crash())
    plans = [Plan((at(name), last), 0, "some") for name in "abc"]
    plans.append(Plan((at("c"), at("a")), 0, "some"))
    answers = engine.user_policies(plans)
    assert sorted(one.rule for one in answers[:2]) == ["", "recovery"]
    assert [one.rule for one in answers[2:]] == ["", "known"]


@pytest.mark.usefixtures("stored")
def test_only_the_strategys_own_runs_represent_their_class(make: Make) -> None:
    engine = make("""
        @undermine.cluster
        def by_fault(fs): return fs.last["failure"]
    """)
    mine, others = (Plan((at("new"),), 0, strategy) for strategy in ("some", "other"))
    (answer,) = engine.user_policies([mine])
    assert answer.rule == "by_fault"
    assert answer.instead == Plan((at("a"),)).id
    assert engine.user_policies([others]) == [Refusal("")]


@pytest.mark.usefixtures("stored")
def test_the_helper_cannot_change_the_campaign(tmp_path: Path) -> None:
    store = CampaignStore(tmp_path, read_only=True)
    with pytest.raises(Exception, match="readonly"):
        store.set_meta("a", 1)
    store.close()


def test_policies_may_be_named_in_any_order_also_shipped_ones(make: Make) -> None:
    engine = make("""
        @undermine.filter
        def mine(fs): return fs.last["loc"] != "app:x#1"

        @undermine.filter
        def nothing(fs): return False
    """)
    plans = [Plan((at("x"),)), Plan((at("y"),)), Plan((at("y", "n3"),)), Plan((at("y", "n3", reboot=True),))]
    answers = engine.user_policies(plans, ["fault_types(crash)", "mine", "same_rack(rack)"])
    assert answers == [Refusal("mine"), Refusal(""), Refusal("same_rack(rack)"), Refusal("fault_types(crash)")]
    with pytest.raises(UserError, match="did you mean any_nodes"):
        engine.user_policies(plans, ["any_node"])


def test_the_helper_is_not_asked_without_plans_or_policies(make: Make) -> None:
    engine = make("")
    assert engine.user_policies([pair("a", "b")]) == [Refusal("")]
    assert engine.user_policies([], ["any_nodes"]) == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return 1 / 0", "the policy bad raised ZeroDivisionError: division by zero"),
        ("pass", "the policy bad returned nothing"),
        ("return [1]", "which is not hashable"),
        ("import os; os._exit(0)", "ended the process or hung"),
        ("raise SystemExit(0)", "ended the process or hung"),
    ],
)
def test_a_failing_policy_is_reported_in_one_sentence(make: Make, body: str, why: str) -> None:
    engine = make(f"""
        @undermine.cluster
        def bad(fs): {body}
    """)
    with pytest.raises(UserError, match=why) as caught:
        engine.user_policies([pair("a", "b")])
    assert "policies.log" in str(caught.value)
    assert not list(engine._folder.glob("prune-*"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@undermine.cluster\ndef odd(a, b, c): ...", "the cluster policy odd takes 3 plans"),
        ("@undermine.filter\ndef p(a): ...\n@undermine.cluster\ndef p(a): ...", "two policies are called 'p'"),
    ],
)
def test_an_unusable_policy_is_reported_when_the_file_is_loaded(make: Make, text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        make(text)


def test_the_package_exports_everything_that_policies_need() -> None:
    for name in undermine.__all__:
        assert getattr(undermine, name) is not None
    assert undermine.abstract_out(plan_view(pair("a", "b")), "node")
