"""The state of a stored campaign's plans: run, still to run, or dropped with the policy and the representative."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, Scripted, campaign, configured
from rounds import written

from undermine import api
from undermine.campaign import proposing
from undermine.cli import commands as cli
from undermine.config.schema import Config
from undermine.exchange import plan_file
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.model.rounds import RoundKind
from undermine.model.run import RunRecord
from undermine.policies.pruning import Policy, Pruned, cluster_policy, compose, filter_policy, prune
from undermine.protocols import Dropped
from undermine.store import campaign_dirs, stored_plans
from undermine.store.database import CampaignStore
from undermine.store.stored_plans import note_counted_only, read
from undermine.testing import point


def crash(name: str, node: str = "n1") -> Plan:
    return Plan((Step(At(point(node=node, loc=f"app:{name}#1")), Crash()),), 0, "some")


A, A2, B, C, D = crash("a"), crash("a", "n2"), crash("b"), crash("c"), crash("d")
RULE = "policy same"


def run(store: CampaignStore, plan: Plan, status: str = "fired", strategy: str = "some") -> int:
    (slot,) = written(store, strategy, [plan])
    number = store.begin_run(slot)
    store.finish_run(slot, RunRecord(number, plan, status), (), "", (), ())  # type: ignore[arg-type]
    store.finish_round(slot.round_index, 1.0)
    return number


def only(result: stored_plans.StoredPlans) -> stored_plans.Planned:
    (planned,) = result.predicted
    return planned


# --- reading


def test_run_and_open_plans_are_listed_for_each_strategy(store: CampaignStore) -> None:
    run(store, A)
    store.write_round("some", [B, C, D])
    store.write_round("other", [A2])
    some, other = read(store, most=2).predicted
    assert (some.strategy, some.run, some.open, some.plans) == ("some", 1, 3, (B, C))
    assert (other.strategy, other.run, other.open, other.plans) == ("other", 0, 1, (A2,))


def test_re_runs_are_listed_only_while_some_are_open(store: CampaignStore) -> None:
    run(store, A)
    run(store, A, strategy="confirm")
    assert [planned.strategy for planned in read(store).predicted] == ["some"]
    store.write_round_of(RoundKind.CONFIRM, [A])
    assert [planned.strategy for planned in read(store).predicted] == ["some", "confirm"]


@pytest.mark.parametrize(
    ("status", "state"),
    [("fired", "run 1"), ("not_fired", "run 1, which did not fire"), ("exhausted", "run 1, which did not fire")],
)
def test_a_dropped_plan_names_the_run_that_represents_it(store: CampaignStore, status: str, state: str) -> None:
    run(store, A, status)
    store.write_dropped([Dropped(A2, RULE, A.id)])
    (rule,) = only(read(store)).dropped
    assert (rule.policy, rule.count, rule.stored) == (RULE, 1, 1)
    (one,) = rule.examples
    assert (one.id, one.plan, one.rule) == (A2.id, str(A2), RULE)
    assert one.instead == stored_plans.Representative(A.id, str(A), state)


def test_a_dropped_plan_may_be_represented_by_an_open_plan_or_by_none(store: CampaignStore) -> None:
    store.write_round("some", [A], [Dropped(A2, RULE, A.id), Dropped(B, "policy writes")])
    same, writes = only(read(store)).dropped
    assert same.examples[0].instead == stored_plans.Representative(A.id, str(A), "still to run")
    assert writes.examples[0].instead is None


def test_a_plan_that_another_strategy_ran_represents_itself(store: CampaignStore) -> None:
    run(store, A, strategy="other")
    store.write_dropped([Dropped(A, "already run for other", A.id)])
    some = next(planned for planned in read(store).predicted if planned.strategy == "some")
    assert (some.run, some.open) == (0, 0)
    instead = some.dropped[0].examples[0].instead
    assert instead is not None
    assert instead.state == "run 1"


def test_a_re_run_represents_no_plan(store: CampaignStore) -> None:
    run(store, A, strategy="confirm")
    store.write_dropped([Dropped(A2, RULE, A.id)])
    instead = only(read(store)).dropped[0].examples[0].instead
    assert instead is not None
    assert "dropped too, and not stored" in instead.state


def test_a_chain_of_representatives_is_followed_to_the_plan_that_is_run(store: CampaignStore) -> None:
    """Shipped policies choose a representative before the user's policies and the cap are applied."""
    dropped = [
        Dropped(A2, RULE, A.id),
        Dropped(A, "policy mine", B.id),
        Dropped(C, RULE, D.id),
        Dropped(D, "above the cap of 1 experiments"),
    ]
    store.write_round("some", [B], dropped)
    same, mine, _ = only(read(store)).dropped
    assert [one.rule for one in same.examples] == [
        f"{RULE}, then policy mine",
        f"{RULE}, then above the cap of 1 experiments",
    ]
    assert [one.instead and one.instead.id for one in same.examples] == [B.id, None]
    assert mine.examples[0].rule == "policy mine"


def test_plans_that_represent_each_other_do_not_loop(store: CampaignStore) -> None:
    store.write_dropped([Dropped(A, RULE, B.id), Dropped(B, RULE, A.id), Dropped(C, RULE, C.id)])
    (rule,) = only(read(store)).dropped
    assert [one.instead for one in rule.examples] == [None, None, None]


def test_plans_that_a_composition_drops_count_for_its_first_policy(store: CampaignStore) -> None:
    """The rules are those of `compose`: a later filter refuses the plan that represented two others."""
    cluster = cluster_policy(lambda fs: fs[0]["loc"], "one_of_each")
    late: Policy = filter_policy(lambda fs: fs[0]["loc"] != "app:a#1", "not_a")
    pruned = prune([A, A2, B], {}, lambda plans: [""] * len(plans), [cluster, late])
    store.write_round("some", pruned.kept, pruned.dropped)
    rules = {rule.policy: rule for rule in only(read(store)).dropped}
    assert {policy: rule.count for policy, rule in rules.items()} == pruned.counts
    assert rules["policy one_of_each"].examples[0].rule == "policy one_of_each, then not_a"


def test_a_few_examples_are_shown_or_all_stored_ones(store: CampaignStore) -> None:
    store.write_dropped(Dropped(crash(f"f{n}"), RULE) for n in range(5))
    (few,), (every,) = (only(read(store, most=2, every_dropped=e)).dropped for e in (False, True))
    assert (few.count, few.stored, len(few.examples)) == (5, 5, 2)
    assert [one.id for one in every.examples] == [crash(f"f{n}").id for n in range(5)], "in the order of dropping"


def test_a_strategy_that_proposed_nothing_is_refused(store: CampaignStore) -> None:
    store.write_round("some", [A])
    store.write_round("other", [B])
    assert only(read(store, ["other"])).strategy == "other"
    with pytest.raises(UserError, match="'third' has proposed no plan in this campaign; strategies that have: some, other"):
        read(store, ["third"])


# --- plans that were only counted


def _pruned(names: str, most: int) -> Pruned:
    refuses = filter_policy(lambda fs: False, "none")
    composed = compose([refuses], [crash(name) for name in names], 0, dropped_max=most)
    dropped = tuple(Dropped(one.plan, f"policy {one.rule}") for one in composed.dropped)
    return Pruned((), dropped, {f"policy {name}": count for name, count in composed.counts.items()})


def test_plans_that_were_only_counted_are_included_in_the_count(store: CampaignStore) -> None:
    for pruned in (_pruned("abcde", 2), _pruned("abcde", 2)):  # asked twice before a round, with the same result
        note_counted_only(store, "some", pruned)
        store.write_dropped(pruned.dropped)
    store.write_round("some", [A2])
    level = _pruned("vwxyz", 3)
    note_counted_only(store, "some", level)
    store.write_dropped(level.dropped)
    (rule,) = only(read(store, every_dropped=True)).dropped
    assert (rule.count, rule.stored, len(rule.examples)) == (10, 5, 5)


def test_nothing_is_stored_if_all_plans_are_kept(store: CampaignStore) -> None:
    note_counted_only(store, "some", _pruned("abc", 3))
    assert store.meta("untold") is None


def test_a_campaign_stores_what_it_only_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: CampaignStore) -> None:
    monkeypatch.setattr(proposing, "DROPPED_MAX", 2)

    class Capped:
        name, summary, cap = "some", "", 1

        def propose(self, history):
            return [] if history.round_index else [crash(name) for name in "abcdef"]

    campaign(FakeEngine(configured(tmp_path)), store, [Capped()]).run(ENDLESS)
    planned = only(read(store, every_dropped=True))
    assert (planned.run, planned.open) == (1, 0)
    assert [(rule.policy, rule.count, rule.stored) for rule in planned.dropped] == [
        ("above the cap of 1 experiments", 5, 2)
    ]


class Counts:
    """A strategy with nine plans that proposes one in each of two rounds."""

    name, summary = "some", ""

    def propose(self, history):
        return [crash("ab"[history.round_index])] if history.round_index < 2 else []

    def total(self, history) -> int | None:
        return 9


class Endless(Counts):
    name = "other"

    def total(self, history) -> int | None:
        return None


def test_plans_that_a_strategy_has_not_proposed_yet_are_counted(tmp_path: Path, store: CampaignStore) -> None:
    campaign(FakeEngine(configured(tmp_path)), store, [Counts(), Endless(), Scripted("whole", 1)]).run(ENDLESS)
    assert [(one.strategy, one.run + one.covered, one.open, one.later) for one in read(store).predicted] == [
        ("some", 2, 0, 7),
        ("other", 2, 0, None),
        ("whole", 2, 0, 0),
    ]
    store.write_round("some", [C], [Dropped(D, RULE, C.id)])
    assert read(store, ["some"]).predicted[0].later == 5, "neither those that wait nor the dropped ones come later"


def test_open_plans_that_read_alike_are_told_apart(store: CampaignStore) -> None:
    one, other = msgspec.structs.replace(A, seed=1), msgspec.structs.replace(A, seed=2)
    store.write_round("some", [one, other, B])
    assert only(read(store)).apart == {one.id: f"plan {one.id}", other.id: f"plan {other.id}"}


# --- as commands


@pytest.fixture
def hunted(tmp_path: Path) -> Config:
    """A campaign in which two plans were dropped for one, and one is still to run."""
    config = configured(tmp_path, TOML)
    folder = campaign_dirs.new_campaign_dir(config)
    store = CampaignStore(folder)
    run(store, A)
    store.write_round("some", [B], [Dropped(A2, RULE, A.id), Dropped(C, RULE, B.id)])
    store.close()
    campaign_dirs.point_latest(config, folder)
    return config


def command(config: Config, *args: str) -> None:
    assert cli.app(["plan", "-c", str(config.path), *args], standalone_mode=False) == 0


@pytest.mark.parametrize("by_name", [True, False])
def test_the_command_explains_a_campaign_and_runs_nothing(
    hunted: Config, capsys: pytest.CaptureFixture[str], by_name: bool
) -> None:
    name = campaign_dirs.campaign_dir(hunted).name
    command(hunted, "--campaign", name if by_name else "latest", "--explain")
    assert capsys.readouterr().out.splitlines() == [
        f"campaign {name}",
        "",
        "some: 1 run, 1 still to run",
        f"    1. {B}",
        f"  2 dropped by {RULE}",
        f"       {A2.id} {A2}",
        f"         represented by {A.id} {A} (run 1)",
        f"       {C.id} {C}",
        f"         represented by {B.id} {B} (still to run)",
    ]
    assert not (hunted.dir / "plan").exists()


def test_the_command_says_how_many_more_plans_there_are(hunted: Config, capsys: pytest.CaptureFixture[str]) -> None:
    command(hunted, "--campaign", "latest", "-n", "1")
    assert capsys.readouterr().out.splitlines()[-1] == "       … and 1 more"
    with api.open_store(campaign_dirs.campaign_dir(hunted)) as store:
        store.write_round("some", [D])
        note_counted_only(store, "some", Pruned((), (), {RULE: 1234}))
    command(hunted, "--campaign", "latest", "--explain")
    assert capsys.readouterr().out.splitlines()[-1] == "       … and 1,234 more that were only counted"


def test_json_output_has_plans_that_can_be_replayed(hunted: Config, capsys: pytest.CaptureFixture[str]) -> None:
    command(hunted, "--campaign", "latest", "--json")
    text = capsys.readouterr().out
    assert json.loads(text)["predicted"][0]["dropped"][0]["examples"][0]["instead"]["id"] == A.id
    assert plan_file.parse(text.encode(), "it") == (B,)


def test_a_campaign_can_be_read_while_another_process_writes_to_it(hunted: Config) -> None:
    folder = campaign_dirs.campaign_dir(hunted)
    with campaign_dirs.locked(folder):
        writer = sqlite3.connect(folder / "campaign.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM dropped")
        (rule,) = only(api.plans(hunted)).dropped
        writer.execute("ROLLBACK")
        writer.close()
    assert rule.count == 2


def test_a_missing_campaign_is_reported(hunted: Config) -> None:
    with pytest.raises(UserError, match="there is no campaign 'then'"):
        command(hunted, "--campaign", "then")
