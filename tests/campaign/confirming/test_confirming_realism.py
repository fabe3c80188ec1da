"""A finding that needs a delay, and slow devices, against a fake engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import ENDLESS, TOML, FakeEngine, Fixed, configured, hurts, observed

from undermine.campaign.running import Notice
from undermine.findings import realism
from undermine.model.faults import Crash, Delay
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Conditions, Moment, RunView, SlowOp
from undermine.testing import point


@pytest.fixture(autouse=True)
def one_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short run decides here; `test_a_short_operation_is_measured_again` tests the real number."""
    monkeypatch.setattr(realism, "MEASUREMENTS", 1)


WRITE, SYNC = point("file.write"), point("file.fsync", loc="app:sync#1")
FOUND = [*["baseline"] * 2, "a"]
RERUNS = [*["confirm"] * 2, *["control"] * 2]


def delay(at=WRITE) -> tuple[Step, ...]:
    return (Step(At(at), Delay(5.0)),)


def breaks(run: RunView) -> str:
    """Fails with any fault, and with a slow device too."""
    return "it breaks" if hurts(run.plan) or run.record.conditions.slow_s else ""


def takes(plan: Plan) -> tuple[SlowOp, ...]:
    """A write is fast, fsync waits for the disk."""
    at = plan.steps[0].trigger.point
    return (SlowOp(0, "disk", 10.0, at.get("op"), 10.0 if at == SYNC else 0.0004),)


def lands(count: int, plan: Plan) -> tuple[Moment, ...]:
    return tuple(Moment(n, "n1", 5, step.trigger.point) for n, step in enumerate(plan.steps))


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    made = FakeEngine(configured(tmp_path))
    made.runner.lacking_devices = {"disk": "", "network": ""}
    made.runner.slow_ops = takes
    made.runner.moments = lands
    return made


def test_a_delay_that_a_slow_disk_causes_is_believed(engine, store) -> None:
    (finding,) = observed(engine, store, [Fixed("a", delay(SYNC))], breaks).run(ENDLESS)
    assert engine.runner.strategies == [*FOUND, "realism", *RERUNS]
    assert engine.runner.conditions[len(FOUND)] == Conditions(observe_all=True, slow_s=10.0)
    assert (finding.rate, finding.realism.answer, finding.believed) == ("2/2, 0/2 without the fault", "realistic", True)
    assert store.findings() == (finding,)


def test_a_delay_that_no_device_causes_is_dropped_by_one_run_and_kept_with_its_reason(engine, store) -> None:
    (finding,) = observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    assert engine.runner.strategies == [*FOUND, "realism"]
    assert (finding.rate, finding.dropped, finding.believed) == ("not re-run", True, False)
    assert "took 0.4 ms: written data waits in memory" in finding.realism.text
    assert len(finding.runs) == 1, "the run with the slow device is none that failed"


def test_an_operation_is_asked_about_once_and_not_for_each_symptom_or_plan(engine, store) -> None:
    def says(run: RunView) -> str:
        return breaks(run) and f"{breaks(run)} {'once' if run.plan.steps[0].trigger.nth == 1 else 'again'}"

    plans = [(Step(At(WRITE, nth=number), Delay(5.0)),) for number in (1, 2)]
    first, second = observed(engine, store, [Fixed("a", *plans)], says).run(ENDLESS)
    assert engine.runner.strategies == [*FOUND, "realism", "a"]
    assert (first.symptom, second.symptom, second.dropped) == ("it breaks once", "it breaks again", True)
    assert second.realism == first.realism


def test_a_realistic_operation_is_not_asked_about_again_either(engine, store) -> None:
    def says(run: RunView) -> str:
        return breaks(run) and f"{breaks(run)} {'once' if run.plan.steps[0].trigger.nth == 1 else 'again'}"

    plans = [(Step(At(SYNC, nth=number), Delay(5.0)),) for number in (1, 2)]
    _, second = observed(engine, store, [Fixed("a", *plans)], says).run(ENDLESS)
    assert engine.runner.strategies == [*FOUND, "realism", *RERUNS, "a", *RERUNS]
    assert (second.symptom, second.realism.answer, second.believed) == ("it breaks again", "realistic", True)


def test_an_unrealistic_finding_does_not_hide_a_realistic_one(engine, store) -> None:
    (finding,) = observed(engine, store, [Fixed("a", delay(), delay(SYNC))], breaks).run(ENDLESS)
    assert engine.runner.strategies.count("realism") == 2
    assert (finding.plan.steps, finding.realism.answer, finding.believed) == (delay(SYNC), "realistic", True)


def test_other_faults_need_no_slow_device(engine, store) -> None:
    (finding,) = observed(engine, store, [Fixed("a", (Step(At(WRITE), Crash()),))], breaks).run(ENDLESS)
    assert (engine.runner.strategies, finding.realism.answer) == ([*FOUND, *RERUNS], "")


def test_without_slow_devices_a_finding_stays_believed_and_says_why(engine, store) -> None:
    engine.runner.lacking_devices = {"disk": "a slow disk needs Linux", "network": ""}
    (finding,) = observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    assert (engine.runner.strategies, finding.believed) == ([*FOUND, *RERUNS], True)
    assert str(finding.realism) == "not checked: a slow disk needs Linux"


def test_a_dropped_finding_stays_dropped_if_the_next_session_cannot_check(engine, store) -> None:
    observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    engine.runner.lacking_devices = {"disk": "a slow disk needs Linux", "network": ""}
    (finding,) = observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    assert (engine.runner.strategies, finding.dropped) == ([*FOUND, "realism"], True)


def test_the_realism_check_can_be_turned_off(tmp_path, engine, store) -> None:
    engine.config = configured(tmp_path, TOML + "realism_s = 0\n")
    (finding,) = observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    assert (engine.runner.strategies, finding.realism.answer, finding.believed) == ([*FOUND, *RERUNS], "", True)


def test_a_realism_check_that_did_not_fire_there_is_repeated_once(engine, store) -> None:
    seen = []

    def moments(count: int, plan: Plan) -> tuple[Moment, ...]:
        if engine.runner.strategies[-1] != "realism":
            return lands(count, plan)
        seen.append(count)
        return (Moment(0, "n1", 5, SYNC if len(seen) == 1 else WRITE),)

    engine.runner.moments = moments
    (finding,) = observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    assert engine.runner.strategies == [*FOUND, "realism", "realism"]
    assert finding.dropped


def test_the_next_session_finishes_a_killed_realism_check(engine, store) -> None:
    engine.runner.dies_at = len(FOUND) + 1
    with pytest.raises(KeyboardInterrupt):
        observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    engine.runner.dies_at = 0
    (finding,) = observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    assert engine.runner.strategies == [*FOUND, "realism", "realism"]
    assert engine.runner.conditions[-1].slow_s == 10.0
    assert finding.dropped
    observed(engine, store, [Fixed("a", delay())], breaks).run(ENDLESS)
    assert len(engine.runner.strategies) == len(FOUND) + 2, "what is stored is not run again"


def test_the_realism_check_is_announced(engine, store) -> None:
    heard: list[Notice] = []
    observed(engine, store, [Fixed("a", delay())], breaks, heard.append).run(ENDLESS)
    told = [(news.kind, news.text) for news in heard if news.kind in ("confirming", "confirmed", "dropped")]
    assert told[-2] == ("confirming", "with a slow device: it breaks")
    assert told[-1][0] == "dropped"
    assert told[-1][1].startswith("dropped, the disk was slow by 10 s")
