"""From a suspicion to a finding that can be believed, against a fake engine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, Fixed, Says, Scripted, Whole, configured, hurts, observed

from undermine.campaign.limits import Limits
from undermine.campaign.loop import Campaign
from undermine.campaign.running import Notice
from undermine.model.faults import Crash, Delay, Hold
from undermine.model.plan import At, FirstUnseen, Step
from undermine.model.point import Point
from undermine.model.run import Conditions, Moment, RunView, Verdict
from undermine.testing import point


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(configured(tmp_path))


def crash(loc: str = "app:write#1", node: str = "n1") -> tuple[Step, ...]:
    return (Step(At(point(loc=loc, node=node)), Crash()),)


UNSEEN = (Step(FirstUnseen(("op", "loc")), Crash()),)


def breaks(run: RunView) -> str:
    """Fails with any fault."""
    return "it breaks" if hurts(run.plan) else ""


def lands_at(*points: Point):
    """Let runs fire at these points, one after the other; all later runs fire at the last point."""
    left = list(points)

    def moments(count: int, plan) -> tuple[Moment, ...]:
        at = left.pop(0) if len(left) > 1 else left[0]
        return (Moment(0, at["node"], 5, at),) if plan.steps else ()

    return moments


A, B = point(loc="app:a#1"), point(loc="app:b#1")
FREE = [A, A]
"""The two fault-free runs consume these entries of the list."""


def test_a_symptom_that_appears_only_with_the_fault_is_believed(engine, store) -> None:
    (finding,) = observed(engine, store, [Fixed("a", crash())], breaks).run(ENDLESS)
    assert (finding.rate, finding.confirmed, finding.believed) == ("2/2, 0/2 without the fault", True, True)
    assert engine.runner.strategies == [*["baseline"] * 2, "a", *["confirm"] * 2, *["control"] * 2]
    controls = engine.runner.executed[-2:]
    assert all(isinstance(step.fault, Hold) for plan in controls for step in plan.steps)
    assert [step.trigger for step in controls[0].steps] == [step.trigger for step in crash()]


def test_a_new_symptom_is_confirmed_at_once_and_a_known_one_at_the_end_of_the_turn(engine, store) -> None:
    observed(engine, store, [Whole("a", *(crash(f"app:f{n}#1") for n in range(3)))], breaks).run(ENDLESS)
    again = [*["confirm"] * 2, *["control"] * 2]
    assert engine.runner.strategies == [*["baseline"] * 2, "a", *again, "a", "a"]


def test_re_runs_and_controls_wait_longer_and_observe_everything(engine, store) -> None:
    observed(engine, store, [Fixed("a", crash())], breaks).run(ENDLESS)
    patient = Conditions(patience_s=engine.config.run.patience_s, observe_all=True)
    assert engine.runner.conditions == [*[Conditions()] * 3, *[patient] * 4]


@pytest.mark.parametrize("family", ["heap", "content"])
def test_a_strategy_may_ask_for_a_family_in_its_own_runs_and_in_those_it_learns_from(engine, store, family: str) -> None:
    asks = Fixed("a", crash())
    setattr(asks, family, True)
    observed(engine, store, [asks, Fixed("b", crash("app:b#1"))], lambda run: "").run(ENDLESS)
    runs = list(zip(engine.runner.strategies, engine.runner.conditions, strict=True))
    assert [name for name, given in runs if getattr(given, family)] == [*["baseline"] * 2, "a"]
    assert all(given.observe_all == getattr(given, family) for _, given in runs)
    assert not any(getattr(given, other) for _, given in runs for other in {"heap", "content"} - {family})


def test_a_strategy_asks_for_a_family_only_until_it_has_learnt_enough(engine, store) -> None:
    class Learns(Fixed):
        content = True

        def propose(self, history):
            self.content = False
            return super().propose(history)

    observed(engine, store, [Learns("a", crash())], lambda run: "").run(ENDLESS)
    assert [given.content for given in engine.runner.conditions] == [True, True, False]


def test_a_resumed_campaign_knows_that_a_strategy_has_learnt_enough(engine, store) -> None:
    class Learns(Whole):
        content = True

        def propose(self, history):
            self.content = False
            return super().propose(history)

    for runs_max in (1, 2):
        plans = [crash(f"app:f{n}#1") for n in range(3)]
        observed(engine, store, [Learns("a", *plans)], lambda run: "").run(Limits(budget_s=1000, runs_max=runs_max))
    assert [given.content for given in engine.runner.conditions] == [True, True, False, False, False]


def test_a_symptom_that_appears_without_the_fault_too_is_flaky(engine, store) -> None:
    (finding,) = observed(engine, store, [Scripted("a")], lambda run: "it breaks" if run.plan.steps else "").run(
        ENDLESS
    )
    assert (finding.rate, finding.flaky, finding.believed) == ("2/2, 2/2 without the fault", True, False)
    assert len(store.findings()) == 1, "a control is not a finding"


def test_a_control_that_fails_on_a_late_machine_does_not_count(engine, store) -> None:
    late_ms = 2000 * engine.config.run.late_s_max
    engine.runner.late_ms = lambda count: late_ms if engine.runner.strategies[-1] == "control" else 0.0
    (finding,) = observed(engine, store, [Fixed("a", crash())], lambda run: "it breaks" if run.plan.steps else "").run(
        ENDLESS
    )
    assert (finding.rate, finding.flaky, finding.believed) == ("2/2, no control", False, True)


def test_a_control_that_fails_with_another_symptom_makes_a_finding_flaky_too(engine, store) -> None:
    def says(run: RunView) -> str:
        return breaks(run) or ("it hangs" if run.plan.strategy == "control" else "")

    (finding,) = observed(engine, store, [Fixed("a", crash())], says).run(ENDLESS)
    assert finding.flaky


def test_a_symptom_that_recovers_with_patience_is_not_believed_and_gets_no_control(engine, store) -> None:
    def impatient(run: RunView) -> str:
        return breaks(run) if not run.record.conditions.patience_s else ""

    (finding,) = observed(engine, store, [Fixed("a", crash())], impatient).run(ENDLESS)
    assert (finding.rate, finding.believed) == ("0/2", False)
    assert "control" not in engine.runner.strategies


def test_a_symptom_that_recovered_at_one_place_is_confirmed_at_another(engine, store) -> None:
    """Otherwise a symptom that recovers would hide one that does not."""
    sync = point(loc="app:sync#1")

    def says(run: RunView) -> str:
        lasting = run.plan.steps and run.plan.steps[0].trigger.point == sync
        return breaks(run) if lasting or not run.record.conditions.patience_s else ""

    (finding,) = observed(engine, store, [Fixed("a", crash(), crash(sync["loc"]))], says).run(ENDLESS)
    assert (finding.rate, finding.believed) == ("2/2, 0/2 without the fault", True)
    assert finding.plan.steps == crash(sync["loc"])
    assert finding.id == "F1"
    assert store.verdicts(finding.shown_by) == finding.verdicts


def test_a_symptom_of_permanent_damage_is_tried_more_often(engine, store) -> None:
    """In a race of two nodes, the other node may win in the re-runs."""

    class Loses(Says):
        def check(self, run: RunView) -> Verdict:
            return msgspec.structs.replace(super().check(run), lasting=True)

    def says(run: RunView) -> str:
        again = engine.runner.strategies.count("confirm")
        return breaks(run) if again in (0, 5) and run.plan.strategy != "control" else ""

    (finding,) = Campaign(engine, store, [Fixed("a", crash())], [Loses(says)], lambda news: None).run(ENDLESS)
    assert finding.rate == "1/5, 0/2 without the fault"


def test_a_symptom_that_always_recovers_is_given_up(engine, store) -> None:
    def impatient(run: RunView) -> str:
        return breaks(run) if not run.record.conditions.patience_s else ""

    places = [crash(f"app:f{n}#1") for n in range(8)]
    (finding,) = observed(engine, store, [Fixed("a", *places)], impatient).run(ENDLESS)
    assert engine.runner.strategies.count("a") == 8
    assert engine.runner.strategies.count("confirm") == 3 * 2
    assert len(finding.variants) == 7


def test_re_runs_that_fired_elsewhere_are_not_counted(engine, store) -> None:
    engine.runner.moments = lands_at(*FREE, A, B, A, B, A, A)
    (finding,) = observed(engine, store, [Fixed("a", UNSEEN)], breaks).run(ENDLESS)
    assert (finding.rate, finding.elsewhere) == ("2/2, 0/2 without the fault", 2)
    assert engine.runner.strategies.count("confirm") == 4


def test_a_plan_that_never_fires_at_the_same_point_again_is_given_up(engine, store) -> None:
    places = [crash(f"app:f{n}#1") for n in range(8)]
    engine.runner.broken = lambda count: engine.runner.strategies[-1] == "confirm"
    (finding,) = observed(engine, store, [Fixed("a", *places)], breaks).run(ENDLESS)
    assert [run.plan.strategy for run in store.past_runs()].count("confirm") == 6 * 4
    assert not finding.believed


def test_if_a_plan_cannot_be_repeated_another_plan_at_the_same_call_site_is_tried(engine, store) -> None:
    twice = (Step(At(point(loc="app:a#1"), nth=2), Crash()),)

    def moments(count: int, plan) -> tuple[Moment, ...]:
        if not plan.steps:
            return ()
        again = engine.runner.strategies[-1] == "confirm" and plan.steps == crash("app:a#1")
        return (Moment(0, "n1", 5, B if again else A),)

    engine.runner.moments = moments
    (finding,) = observed(engine, store, [Fixed("a", crash("app:a#1"), twice)], breaks).run(ENDLESS)
    assert (finding.rate, finding.plan.steps) == ("2/2, 0/2 without the fault", twice)


def test_a_finding_whose_re_runs_all_fired_elsewhere_is_not_believed(engine, store) -> None:
    engine.runner.moments = lands_at(*FREE, A, B)
    (finding,) = observed(engine, store, [Fixed("a", UNSEEN)], breaks).run(ENDLESS)
    assert (finding.tries, finding.elsewhere, finding.believed) == (0, 4, False)
    assert engine.runner.strategies.count("confirm") == 4


def test_re_runs_that_break_or_do_not_fire_do_not_count(engine, store) -> None:
    engine.runner.broken = lambda count: count in (4, 5, 6)
    (finding,) = observed(engine, store, [Fixed("a", crash())], breaks).run(ENDLESS)
    assert (finding.rate, finding.elsewhere) == ("2/2, 0/2 without the fault", 1)


def test_another_symptom_of_a_re_run_is_the_same_finding(engine, store) -> None:
    def says(run: RunView) -> str:
        return breaks(run) and ("it hangs" if run.plan.strategy == "confirm" else "it breaks")

    (finding,) = observed(engine, store, [Fixed("a", crash())], says).run(ENDLESS)
    assert (finding.symptom, finding.hits, finding.runs) == ("it breaks", 2, (3, 4, 5))
    assert finding.title == "run 4: it hangs"


def test_a_re_run_with_the_symptom_of_another_finding_does_not_count(engine, store) -> None:
    def symptom(run: RunView) -> str:
        if not hurts(run.plan):
            return ""
        first = run.plan.steps == crash("app:a#1") and run.record.conditions == Conditions()
        return "it breaks" if first else "it hangs"

    strategies = [Fixed("a", crash("app:b#1")), Fixed("b", crash("app:a#1"))]
    hangs, breaks_once = observed(engine, store, strategies, symptom).run(ENDLESS)
    assert (hangs.symptom, hangs.rate, hangs.believed) == ("it hangs", "2/2, 0/2 without the fault", True)
    assert (breaks_once.symptom, breaks_once.hits, breaks_once.believed) == ("it breaks", 0, False)


def test_a_run_with_the_longer_wait_represents_the_finding(engine, store) -> None:
    (finding,) = observed(engine, store, [Fixed("a", crash())], breaks).run(ENDLESS)
    assert (finding.runs, finding.shown_by, finding.title) == ((3, 4, 5), 4, "run 4: it breaks")


def test_two_strategies_with_the_same_symptom_share_one_finding_that_names_both(engine, store) -> None:
    delay = (Step(At(point(loc="app:read#1")), Delay()),)
    found = observed(engine, store, [Fixed("a", crash()), Fixed("b", delay)], breaks).run(ENDLESS)
    (finding,) = found
    assert finding.strategies == ("a", "b")
    assert finding.faults == ("crash", "delay")
    assert [(v.site, v.plan.steps) for v in finding.variants] == [("file.write of server at app:read", delay)]
    assert engine.runner.strategies.count("confirm") == 2, "a variant is not confirmed by itself"


def test_the_rate_says_that_no_control_could_run(engine, store) -> None:
    store.set_meta("capabilities", {"n1": []})
    until = (Step(At(A), Crash(), until=At(A)),)  # the agent lacks the capability to see the end of the hold
    (finding,) = observed(engine, store, [Fixed("a", until)], breaks).run(ENDLESS)
    assert (finding.rate, finding.believed) == ("2/2, no control", True)
    assert "control" not in engine.runner.strategies


def test_a_symptom_that_fault_free_runs_showed_is_flaky_without_more_runs(engine, store) -> None:
    def says(run: RunView) -> str:
        return "it breaks" if hurts(run.plan) or len(engine.runner.executed) == 2 else ""

    (finding,) = observed(engine, store, [Scripted("a", 1)], says).run(ENDLESS)
    assert finding.flaky
    assert finding.rate == "not re-run, 1/3 without the fault"
    assert "confirm" not in engine.runner.strategies


def test_a_failure_of_a_benign_run_is_a_finding(tmp_path, store) -> None:
    engine = FakeEngine(configured(tmp_path, TOML.replace("benign_runs = 0", "benign_runs = 1")))
    (finding,) = observed(engine, store, [], breaks).run(ENDLESS)
    assert finding.strategies == ("benign",)
    assert finding.rate == "2/2, 0/2 without the fault"


def test_a_suppressed_finding_is_kept_but_not_re_run(engine, store) -> None:
    made = observed(engine, store, [Fixed("a", crash())], breaks, suppression_of=lambda finding: "we know")
    (finding,) = made.run(ENDLESS)
    assert (finding.suppressed, finding.believed) == ("we know", False)
    assert "confirm" not in engine.runner.strategies


class Also(Says):
    """A checker of less weight."""

    name = "gray"


def test_a_suppressed_symptom_does_not_hide_another_one_of_the_same_run(engine, store) -> None:
    checkers = [Says(breaks), Also(lambda run: breaks(run) and "it is slow")]
    known = {"it breaks": "we know"}
    made = Campaign(
        engine,
        store,
        [Fixed("a", crash())],
        checkers,
        lambda news: None,
        suppression_of=lambda finding: known.get(finding.symptom, ""),
    )
    first, second = made.run(ENDLESS)
    assert (first.symptom, first.suppressed, first.believed) == ("it breaks", "we know", False)
    assert (second.symptom, second.title, second.rate) == ("it is slow", "run 4: it is slow", "2/2, 0/2 without the fault")
    assert second.symptom_rates == ("it breaks: 2/2", "it is slow: 2/2")


def test_another_symptom_of_a_flaky_run_is_confirmed_with_the_same_re_runs(engine, store) -> None:
    checkers = [Says(lambda run: "it breaks" if run.plan.steps else ""), Also(lambda run: breaks(run) and "it is slow")]
    flaky, slow = Campaign(engine, store, [Fixed("a", crash())], checkers, lambda news: None).run(ENDLESS)
    assert (flaky.symptom, flaky.flaky) == ("it breaks", True)
    assert (slow.symptom, slow.rate, slow.believed) == ("it is slow", "2/2, 0/2 without the fault", True)
    assert engine.runner.strategies == [*["baseline"] * 2, "a", *["confirm"] * 2, *["control"] * 2]


def test_without_confirmations_nothing_is_run_again(tmp_path, store) -> None:
    engine = FakeEngine(configured(tmp_path, TOML.replace("confirm = 2", "confirm = 0")))
    (finding,) = observed(engine, store, [Scripted("a", 1)], breaks).run(ENDLESS)
    assert (finding.rate, finding.believed) == ("not re-run", True)
    assert set(engine.runner.strategies) == {"baseline", "a"}


# --- killed and resumed


def kill_and_resume(engine, store, run: int, says=breaks) -> None:
    engine.runner.dies_at = run
    with pytest.raises(KeyboardInterrupt):
        observed(engine, store, [Fixed("a", crash())], says).run(ENDLESS)
    engine.runner.dies_at = 0
    observed(engine, store, [Fixed("a", crash())], says).run(ENDLESS)


@pytest.mark.parametrize("run", [4, 5, 6, 7])
def test_the_next_session_finishes_a_killed_re_run(engine, store, run) -> None:
    kill_and_resume(engine, store, run)
    (finding,) = store.findings()
    assert finding.rate == "2/2, 0/2 without the fault"
    names = [past.plan.strategy for past in store.past_runs()]
    assert names == [*["baseline"] * 2, "a", *["confirm"] * 2, *["control"] * 2]
    assert store.open_slots() == []


@pytest.mark.parametrize("rounds", range(5))
def test_the_next_session_makes_the_missing_re_runs(engine, store, monkeypatch, rounds) -> None:
    """The tool dies when it is about to store the next round, so no part of that round is stored."""
    write, special = store.write_round_of, []

    def dying(kind, plans):
        if kind in ("confirm", "control"):
            if len(special) == rounds:
                raise KeyboardInterrupt
            special.append(kind)
        return write(kind, plans)

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_round_of", dying)
        made = observed(engine, store, [Fixed("a", crash())], breaks)
        if rounds < 4:
            with pytest.raises(KeyboardInterrupt):
                made.run(ENDLESS)
        else:
            made.run(ENDLESS)
    observed(engine, store, [Fixed("a", crash())], breaks).run(ENDLESS)
    assert store.findings()[0].rate == "2/2, 0/2 without the fault"
    assert [engine.runner.strategies.count(name) for name in ("a", "confirm", "control")] == [1, 2, 2]


def test_a_flaky_finding_is_still_flaky_after_a_resume(engine, store) -> None:
    kill_and_resume(engine, store, 7, lambda run: "it breaks" if run.plan.steps else "")
    (finding,) = store.findings()
    assert finding.rate == "2/2, 2/2 without the fault"


def test_a_finding_keeps_its_number_when_a_checker_withdraws_another(engine, store) -> None:
    def both(run: RunView) -> str:
        return breaks(run) and ("one" if run.plan.steps[0].trigger.point["loc"] == "app:a#1" else "two")

    strategies = [Fixed("a", crash("app:a#1"), crash("app:b#1"))]
    found = observed(engine, store, strategies, both).run(ENDLESS)
    assert [(f.id, f.symptom) for f in found] == [("F1", "one"), ("F2", "two")]
    again = observed(engine, store, [], lambda run: "two" if both(run) == "two" else "")
    again.plan_runner.recheck()
    assert [(f.id, f.symptom) for f in again.findings()] == [("F2", "two")]
    again = observed(engine, store, [], both)
    again.plan_runner.recheck()
    assert [(f.id, f.symptom) for f in again.findings()] == [("F1", "one"), ("F2", "two")]


# --- notices


def told(engine, store, says) -> list[tuple[str, str]]:
    heard: list[Notice] = []
    observed(engine, store, [Fixed("a", crash())], says, listener=heard.append).run(ENDLESS)
    return [(n.kind, n.text) for n in heard if n.kind not in ("run", "done", "warning", "remark", "baseline", "forecast")]


def test_every_step_to_a_finding_is_announced(engine, store) -> None:
    assert told(engine, store, breaks) == [
        ("suspect", "confirming: it breaks"),
        ("confirming", "confirming 1/2: it breaks"),
        ("confirming", "confirming 2/2: it breaks"),
        ("confirming", "without the fault 1/2: it breaks"),
        ("confirming", "without the fault 2/2: it breaks"),
        ("confirmed", "confirmed (2/2, 0/2 without the fault): it breaks"),
    ]


def test_a_finding_that_is_not_believed_is_announced_too(engine, store) -> None:
    assert told(engine, store, lambda run: "it breaks" if run.plan.steps else "")[-1] == (
        "flaky",
        "flaky, it fails without the fault too (2/2, 2/2 without the fault): it breaks",
    )


def test_a_symptom_that_recovers_is_announced(engine, store) -> None:
    last = told(engine, store, lambda run: breaks(run) if not run.record.conditions.patience_s else "")[-1]
    assert last == ("not reproduced", "not reproduced, it recovers by itself or was chance (0/2): it breaks")


def test_a_symptom_of_faster_clocks_is_confirmed_at_speed_1(engine, store) -> None:
    engine.config = msgspec.structs.replace(engine.config, run=msgspec.structs.replace(engine.config.run, speed=10))
    (finding,) = observed(engine, store, [Fixed("a", crash())], breaks).run(ENDLESS)
    speeds = [conditions.speed for conditions in engine.runner.conditions]
    assert dict(zip(engine.runner.strategies, speeds, strict=True)) == {"baseline": 10, "a": 10, "confirm": 1, "control": 1}
    assert finding.confirmed


def test_a_symptom_that_only_faster_clocks_show_is_not_reproduced(engine, store) -> None:
    engine.config = msgspec.structs.replace(engine.config, run=msgspec.structs.replace(engine.config.run, speed=10))
    said = []
    fails = lambda run: "it breaks" if hurts(run.plan) and run.speed == 10 else ""  # noqa: E731
    (finding,) = observed(engine, store, [Fixed("a", crash())], fails, said.append).run(ENDLESS)
    assert (finding.rate, finding.confirmed, finding.believed) == ("0/2", False, False)
    assert [news.kind for news in said if news.kind in ("confirmed", "not reproduced")] == ["not reproduced"]
