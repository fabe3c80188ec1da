"""The benchmark of policies: its counts, and that it marks every number that was not run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from fake_engine import TOML, FakeEngine, campaign, configured, hurts

from bench import prefail_pool
from bench import prefail_tables as tables
from bench.prefail import (
    BASE,
    PACKS,
    POLICIES,
    WORKLOADS,
    Column,
    Options,
    cell_of,
    configuration,
    measure,
    parse,
    shares,
)
from bench.prefail_pool import Clock, Level, Pool, drawn, policy_of, pruned_singles
from bench.prefail_tables import Cell, Row
from undermine.model.errors import UserError
from undermine.model.faults import Corrupt, Crash, Error
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.policies.library import parse_policy
from undermine.policies.plan_view import CampaignProfiles
from undermine.policies.pruning import compose
from undermine.protocols import PastRun, Profile
from undermine.store.database import CampaignStore
from undermine.strategies.prefail import Prefail
from undermine.testing import point
from undermine.userland import registry

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OPTIONS = Options(("t:w",), 60, 3, (BASE,), 100, 0, 1, Path("unused"))


def crash(name: str, node: str = "n1") -> Step:
    return Step(At(point(loc=f"app:{name}#1", node=node)), Crash())


def past(number: int, *steps: Step, status: Any = "fired", failed: bool = False) -> PastRun:
    return PastRun(number, 1, number, Plan(steps), status, failed)


# --- numbers as text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell("R-L", 2, 1234, exact=True, ran=1234), "1,234"),
        (Cell("R-L", 2, 1234, exact=True, ran=12), "1,234 (counted; 12 run)"),
        (Cell("R-L", 2, 0, exact=True, ran=0), "0"),
        (Cell("BF", 3, 1234, exact=False, ran=1234), "≥ 1,234 (counted; 1,234 run)"),
        (Cell("BF", 3, 12345, exact=True, ran=10_000), "12,345 (counted; 10,000 run, the cap is 10,000)"),
        (None, "not reached"),
    ],
)
def test_experiments_that_did_not_run_are_marked(cell: Cell | None, text: str) -> None:
    assert tables.experiments(cell, 10_000) == text


def row(*cells: Cell, **singles: tuple[int, int]) -> Row:
    return Row("system", "log", cells, singles)


def test_figure_15_compares_with_brute_force() -> None:
    force = Cell("BF", 2, 1000, exact=True, ran=10)
    text = tables.figure_15([row(Cell("CC", 2, 10, exact=True, ran=10), force)], ("CC", "R-L", "BF"), (2,), 10_000)
    assert "system log, 2 crashes" in text
    code_coverage, simplest, brute = text.splitlines()[-3:]
    assert code_coverage.split() == ["CC", "#########", "10", "100.0×", "fewer", "than", "BF"]
    assert simplest.split() == ["R-L", "not", "reached"]
    assert brute.split() == ["BF", "#########" + "." * 16, "1,000", "(counted;", "10", "run)"]


def test_no_factor_is_claimed_for_a_number_that_is_a_lower_bound() -> None:
    force = Cell("BF", 2, 1000, exact=False, ran=10)
    some = Cell("CC", 2, 10, exact=True, ran=0), Cell("R-L", 2, 10, exact=False, ran=0)
    code_coverage, simplest = tables.figure_15([row(*some, force)], ("CC", "R-L"), (2,), 100).splitlines()[-2:]
    assert "≥ 100.0× fewer" in code_coverage
    assert "fewer" not in simplest


def test_table_3_marks_bugs_that_fewer_failures_show() -> None:
    cells = (
        Cell("R-L", 2, 50, exact=True, ran=50, failed=4, bugs=("a", "b")),
        Cell("R-L", 3, 90, exact=True, ran=60, failed=6, bugs=("a",)),
        Cell("random", 2, 50, exact=True, ran=50),
        Cell("random", 3, 60, exact=True, ran=60, failed=1, bugs=("a",)),
    )
    lines = tables.table_3([row(*cells)], (2, 3)).splitlines()[-2:]
    assert [line.split()[2:] for line in lines] == [
        ["2", "4", "2", "0", "50", "50"],
        ["3", "6", "(*)", "1", "1", "60", "of", "90", "60"],
    ]


def test_bugs_by_policy_show_missing_runs() -> None:
    cells = (
        Cell("CC", 2, 5, exact=True, ran=5, failed=1, bugs=("a",)),
        Cell("BF", 2, 9, exact=True, ran=8, failed=3),
        Cell("R-L", 2, 7, exact=True, ran=0),
        Cell("R-LN", 2, 0, exact=True, ran=0),
    )
    policies = [cell.policy for cell in cells]
    text = tables.bugs_by_policy([row(*cells)], (*policies, "random"), (2,))
    assert re.split(r"\s{2,}", text.splitlines()[-1])[-5:] == ["1/1/5", "0/3 of 8 run", "–", "0/0/0", "–"]


def test_table_3_has_no_number_of_bugs_for_a_level_without_runs() -> None:
    text = tables.table_3([row(Cell("R-L", 2, 50, exact=True, ran=0))], (2,))
    assert text.splitlines()[-1].split()[2:] == ["2", "–", "–", "–", "0", "of", "50", "–"]


def test_table_4_is_empty_for_a_failure_that_never_occurs() -> None:
    assert tables.table_4([row(crash=(2, 42), disk=(1, 4), net=(4, 17))]).splitlines()[-1].split() == [
        "system", "log", "2/42", "1/4", "4/17", "N.A.",
    ]  # fmt: skip


# --- counting


def test_single_failures_are_counted_once_for_each_point() -> None:
    read, going_on, write = (point(op, target=op, loc=f"app:{n}#1") for n, op in enumerate(
        ("file.read", "file.read", "file.write")))  # fmt: skip
    plans = [Plan((Step(At(at), fault),)) for at in (read, going_on) for fault in (Error("EIO"), Error("EIO", "disk"))]
    plans += [Plan((Step(At(write, place), Crash()),)) for place in ("before", "after")]
    plans += [Plan((Step(At(read), Crash()),)), Plan((Step(At(going_on), Corrupt("flip")),))]
    seen = frozenset((read, going_on, write))
    profiles = CampaignProfiles(Profile(seen, seen, frozenset((read, write))))
    assert pruned_singles(plans, "disk", ("first_reads_only(disk)",), profiles) == (1, 2)
    assert pruned_singles(plans, "crash", ("crash_before_writes",), profiles) == (1, 3)
    assert pruned_singles(plans, "corruption", ("first_reads_only(corruption)",), profiles) == (0, 1)
    assert pruned_singles(plans, "net", ("first_reads_only(net)",), profiles) == (0, 0)


def test_a_flush_does_not_count_as_a_change() -> None:
    """Only the process is killed, not the machine, so its writes survive."""
    ops = ("file.write", "file.rename", "net.send", "file.fsync", "file.open", "file.read", "client.begin")
    before = [Plan((Step(At(point(op)), Crash()),)) for op in ops]
    after = Plan((Step(At(point("file.write"), "after"), Crash()),))
    kept = compose([policy_of(BASE)], [*before, after], 0).kept
    assert list(kept) == before[:3]
    twice = Plan((*before[0].steps, *before[3].steps))
    assert not compose([policy_of(BASE)], [twice], 0).kept


def test_only_runs_whose_failures_all_took_place_can_fail() -> None:
    a, b = crash("a"), crash("b")
    ran = [
        past(1, a, b, failed=True),
        past(2, b, a, failed=True),
        past(3, a, a, failed=True, status="not_fired"),
        past(4, b, b),
    ]
    cell = cell_of("R-L", 2, 9, ran, {1: "log refuses appends", 3: "something else"})
    assert (cell.experiments, cell.ran, cell.fired, cell.failed) == (9, 4, 3, 2)
    assert cell.bugs == ("log refuses appends",)


def test_random_plans_are_different_and_drawn_by_seed() -> None:
    steps = [crash("a"), crash("b", "n2")]
    counts = {cast(At, step.trigger).point: 3 for step in steps}
    plans = drawn(steps, counts, 2, 20, seed=1)
    assert len({plan.id for plan in plans}) == len(plans) == 20
    assert plans == drawn(steps, counts, 2, 20, seed=1)
    assert plans != drawn(steps, counts, 2, 20, seed=2)
    moments = [cast(At, step.trigger) for plan in plans for step in plan.steps]
    assert {at.nth for at in moments} == {1, 2, 3}
    assert all(len(plan.steps) == 2 for plan in plans)
    assert len(drawn(steps, counts, 1, 20, seed=1)) == 6  # there are only six plans
    assert drawn([], {}, 2, 5, seed=1) == ()


# --- levels


class FakePool:
    """Keeps a given number of experiments, and runs some of them."""

    def __init__(self, counts: Sequence[int], most: int = 1000) -> None:
        self.asked: list[tuple[int, bool]] = []
        self._counts, self._most = list(counts), most

    def next_level(self, policies: Sequence[str], own: Sequence[PastRun], *, complete: bool) -> Level:
        self.asked.append((len(own), complete))
        count, length = self._counts.pop(0), 1 + max((len(run.plan.steps) for run in own), default=0)
        return Level(tuple(Plan((crash(f"{n}"),) * length) for n in range(count)), complete)

    def in_random_order(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        return plans

    def run(self, plans: Sequence[Plan], clock: Clock, share: float) -> None:
        pass

    def runs(self, plans: Sequence[Plan]) -> tuple[PastRun, ...]:
        return tuple(past(n, *plan.steps) for n, plan in enumerate(plans[: self._most]))


def levels(pool: FakePool) -> list[Cell]:
    column = Column("BF", cast(Pool, pool), OPTIONS)
    for failures in (1, 2, 3):
        column.go_on(failures, Clock(60), 1.0)
    return column.cells({})


def test_a_policy_extends_its_own_runs() -> None:
    pool = FakePool([3, 4, 5])
    assert [(cell.experiments, cell.ran, cell.all_run) for cell in levels(pool)] == [
        (3, 3, True),
        (4, 4, True),
        (5, 5, True),
    ]
    assert pool.asked == [(0, True), (3, True), (7, True)]


def test_extensions_of_an_incomplete_level_are_a_lower_bound() -> None:
    cells = levels(FakePool([3, 40, 50], most=10))
    assert [(cell.experiments, cell.exact, cell.ran) for cell in cells] == [
        (3, True, 3),
        (40, True, 10),
        (50, False, 10),
    ]


def test_nothing_runs_above_the_cap() -> None:
    second, third = levels(FakePool([3, 400, 50]))[1:]
    assert (second.experiments, second.ran, second.all_run) == (400, 97, False)
    assert not third.exact


def test_an_empty_level_has_no_further_level() -> None:
    assert [(cell.experiments, cell.exact) for cell in levels(FakePool([3, 0]))][1:] == [(0, True), (0, True)]
    assert [(cell.experiments, cell.exact) for cell in levels(FakePool([3], most=0))][1:] == [(0, False), (0, False)]


def test_policies_share_runs_and_see_only_their_own(tmp_path: Path) -> None:
    """Uses the tool's own loop with fake runs. Each shows one operation of a client, and fails if two reboots hit it."""
    engine: Any = FakeEngine(configured(tmp_path, f'{TOML}\n[faults]\nkinds = ["reboot"]\noutage_s_max = 0\n'))
    store = CampaignStore(tmp_path / "pool")
    running = campaign(engine, store, [], lambda plan: len(plan.steps) == 2 and hurts(plan))
    running.preparing.run()
    pool = Pool(running, store, engine, 1, 0, frozenset())
    cells, doubted = measure(pool, msgspec.structs.replace(OPTIONS, failures=2, base=()))
    store.close()
    counts = {(cell.policy, cell.failures): (cell.experiments, cell.failed, len(cell.bugs)) for cell in cells}
    assert (counts["CC", 1], counts["CC", 2]) == ((2, 0, 0), (0, 0, 0))  # at rest, and one crash that covers all code
    assert (counts["BF", 1], counts["BF", 2]) == ((3, 0, 0), (6, 6, 1))  # at rest, before and after a client's operation
    for policy in ("R-L", "R-LN", "R-All"):  # all recoveries behave alike
        assert (counts[policy, 1], counts[policy, 2]) == ((3, 0, 0), (2, 2, 1))
    assert counts["random", 2] == (2, 2, 1)
    assert all(cell.all_run for cell in cells)
    assert doubted == []
    experiments = [plan.id for plan in engine.runner.executed if hurts(plan)]
    assert len(experiments) == len(set(experiments)) + 2  # the failing plan was run twice more to confirm it
    assert len(set(experiments)) == 3 + 6


def test_no_fault_hits_an_operation_of_idle_nodes(tmp_path: Path) -> None:
    engine: Any = FakeEngine(configured(tmp_path, f'{TOML}\n[faults]\nkinds = ["crash"]\n'))
    store = CampaignStore(tmp_path / "pool")
    running = campaign(engine, store, [])
    running.preparing.run()
    idle = frozenset(seen.point for seen in store.baseline_points()[0])
    pools = [Pool(running, store, engine, 1, 0, points) for points in (frozenset[Point](), idle)]
    # A node without an agent is also killed at rest, which isn't an operation.
    assert [len(pool.next_level((), (), complete=True).plans) for pool in pools] == [3, 1]
    assert [len(pool.singles_of(("crash",))) for pool in pools] == [2, 0]
    assert [len(pool.singles_of(("crash",), idle=True)) for pool in pools] == [2, 2]
    assert [len(pool.random_plans(1, 9, ())) for pool in pools] == [2, 0]
    store.close()


def test_operations_of_idle_nodes_do_not_count_as_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the maximum was proposed there may be more sequences. Points of idle nodes are removed before, so they do not count."""
    engine: Any = FakeEngine(configured(tmp_path, f'{TOML}\n[faults]\nkinds = ["crash"]\n'))
    store = CampaignStore(tmp_path / "pool")
    running = campaign(engine, store, [])
    running.preparing.run()
    idle = frozenset(seen.point for seen in store.baseline_points()[0])
    monkeypatch.setattr(prefail_pool, "PROPOSED_MAX", 2)
    levels = [Pool(running, store, engine, 1, 0, points).next_level((BASE,), (), complete=True)
              for points in (frozenset[Point](), idle)]  # fmt: skip
    store.close()
    assert [(len(level.plans), level.exact) for level in levels] == [(0, False), (0, True)]


def test_a_column_counts_the_first_runs_in_its_own_order() -> None:
    """Runs of other columns further on would change the result of this one."""
    plans = [Plan((crash(name),)) for name in "abcd"]
    pool = object.__new__(Pool)
    pool._runs = {plans[n].id: past(n, *plans[n].steps) for n in (0, 1, 3)}
    assert [run.id for run in pool.runs(plans)] == [0, 1]
    assert [run.id for run in pool.runs(plans[::-1])] == [3]


def test_policies_run_in_the_strategys_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = FakeEngine(configured(tmp_path, f'{TOML}\n[faults]\nkinds = ["crash"]\n'))
    store = CampaignStore(tmp_path / "pool")
    running = campaign(engine, store, [])
    running.preparing.run()
    pool, orders = Pool(running, store, engine, 1, 0, frozenset()), []
    for backwards in (False, True):
        in_order = partial(sorted, key=lambda plan: plan.id, reverse=backwards)
        monkeypatch.setattr(Prefail, "arrange", lambda self, plans, history, in_order=in_order: in_order(plans))
        orders.append(pool.next_level((), (), complete=True).plans)
    store.close()
    assert len(orders[0]) == 3
    assert orders[1] == orders[0][::-1]


@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_every_level_leaves_time_for_the_next_one(last: int) -> None:
    """With two failures brute force has its own share of the time, because there it can be complete."""
    for failures in range(1, last + 1):
        policies, force, at_random = shares(failures, last)
        assert 0 < policies <= force <= at_random
        assert (at_random == 1) == (failures == last)
        assert failures == 1 or policies < force < at_random


def test_a_level_shares_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(prefail_pool.time, "monotonic", lambda: now[0])
    clock = Clock(60)
    now[0] = 140.0
    level = clock.rest()
    assert (clock.over(0.5), level.over(0.5)) == (True, False)
    now[0] = 150.0
    assert (level.over(0.5), level.over(1.0), clock.over(1.0)) == (True, False, False)
    now[0] = 170.0
    assert level.over(1.0)
    assert clock.rest().over(0.1)


# --- targets and options


def test_the_command_line_has_defaults_for_everything(tmp_path: Path) -> None:
    options = parse(["--folder", str(tmp_path), "--budget", "90s"])
    assert (options.workloads, options.budget_s, options.base) == (WORKLOADS, 90, (BASE,))
    assert parse(["granary:log", "--base", "none", "--folder", str(tmp_path)]).base == ()
    with pytest.raises(SystemExit):
        parse(["nobody:log"])


def test_policies_exist() -> None:
    for policies in POLICIES.values():
        for text in policies:
            parse_policy(text)
    assert policy_of(BASE).function is prefail_pool.crash_before_changes
    with pytest.raises(UserError):
        policy_of("nothing_of_the_kind")


def test_only_the_bug_that_needs_two_crashes_is_left_in_the_example() -> None:
    known = (EXAMPLES / "granary" / "granary" / "fixes.py").read_text()
    fixes = PACKS["granary"]["fixes"].split(",")
    assert all(f'"{fix}"' in known for fix in fixes)
    assert len(fixes) == 5
    assert "recovery-supersede" not in fixes


@pytest.mark.parametrize("workload", [*WORKLOADS, "granary:none", "pysyncobj:none"])
def test_workloads_are_parts_of_the_packs_own(workload: str) -> None:
    target, _, work = workload.partition(":")
    config = configuration(target, work, seed=3)
    assert (config.params["work"], config.faults.kinds, config.hunt.seed) == (work, ("crash",), 3)
    assert config.faults.groups == ()  # a crash hits one node


@pytest.fixture(params=["granary", "pysyncobj"])
def parts(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield registry.load(EXAMPLES / request.param / "hunt.py").function("parts")
    for kind in (registry.workloads, registry.finals, registry.checkers, registry.filters, registry.settled):
        kind.clear()


def test_a_workload_is_selected_by_its_parts(parts: Any) -> None:
    everything = parts("all")
    assert len(everything) > 3
    assert parts("none") == set()
    for name in everything:
        assert parts(f" {name}") == {name}
    assert parts(",".join(everything)) == everything
    with pytest.raises(ValueError, match="there is no part 'nothing'"):
        parts("nothing")


def test_both_logs_of_the_example_are_one_part() -> None:
    try:
        assert registry.load(EXAMPLES / "granary" / "hunt.py").function("parts")("log") == {"orders", "audit"}
    finally:
        for kind in (registry.workloads, registry.finals, registry.checkers, registry.filters, registry.settled):
            kind.clear()
