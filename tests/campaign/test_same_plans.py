"""Strategies propose the same plans, however many runs are under way at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import FakeEngine, campaign, configured

from undermine.campaign.limits import Limits
from undermine.store.database import CampaignStore
from undermine.strategies.exhaustive import Exhaustive
from undermine.strategies.random import Random
from undermine.testing import event


def proposed(folder: Path, strategy: Random | Exhaustive, places: int) -> list[tuple[int, str]]:
    """The round and the text of every plan that was proposed."""
    folder.mkdir()
    engine = FakeEngine(configured(folder))
    engine.places = lambda jobs: places
    shown = tuple(event(loc=f"app:f{number}#1", seq=number + 1) for number in range(12))
    engine.runner.shows = lambda plan, conditions: shown
    store = CampaignStore(folder / "campaign")
    try:
        made = campaign(engine, store, [strategy], picks=lambda plan: "f7#1" in str(plan) and "crash" in str(plan))
        made.run(Limits(budget_s=1000, runs_max=40, batch=8))
        rows = store._all("SELECT s.round, s.plan FROM slots s JOIN rounds r USING (round) WHERE r.kind = 'strategy'")
        return [(number - rows[0][0], text) for number, text in sorted(rows)]
    finally:
        store.close()


@pytest.mark.parametrize("strategy", [Random, Exhaustive])
def test_proposals_do_not_depend_on_the_number_of_parallel_runs(tmp_path: Path, strategy) -> None:
    one, four = (proposed(tmp_path / str(places), strategy(), places) for places in (1, 4))
    assert len(one) > 8, "a second round depends on the results of the first one"
    assert one == four
