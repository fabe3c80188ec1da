"""Survey runs, against a fake engine: they are made once, and nothing else is learnt from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import FakeEngine, campaign, configured

from undermine.campaign.running import Notice
from undermine.model.errors import ClusterError
from undermine.model.rounds import RoundKind
from undermine.store.database import CampaignStore


def test_survey_runs_are_made_once_and_are_not_fault_free_runs(store: CampaignStore, tmp_path: Path) -> None:
    engine = FakeEngine(configured(tmp_path))
    told: list[Notice] = []
    made = campaign(engine, store, [], listener=told.append)
    assert made.surveying.choose() == {}
    assert [conditions.survey for conditions in engine.runner.conditions] == [True, True]
    assert "no variables found" in told[-1].text
    made.surveying.choose()
    assert len(engine.runner.executed) == 2
    assert store.fault_free() == ()
    assert store.status_counts() == {"survey": 2}
    made.baseline()
    assert not any(conditions.survey for conditions in engine.runner.conditions[2:])
    assert len(store.past_runs(kind=RoundKind.SURVEY)) == 2


def test_an_unfinished_survey_is_finished(store: CampaignStore, tmp_path: Path) -> None:
    engine = FakeEngine(configured(tmp_path))
    engine.runner.dies_at = 2
    made = campaign(engine, store, [])
    with pytest.raises(KeyboardInterrupt):
        made.surveying.run()
    engine.runner.dies_at = 0
    made.surveying.run()
    assert len(store.past_runs(kind=RoundKind.SURVEY)) == 2


def test_a_failing_survey_suggests_nothing(store: CampaignStore, tmp_path: Path) -> None:
    made = campaign(FakeEngine(configured(tmp_path)), store, [], picks=lambda plan: True)
    with pytest.raises(ClusterError, match="name some in"):
        made.surveying.run()
