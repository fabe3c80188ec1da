"""The strategy fcatch finds the example's time-of-fault bugs from correct runs, and nothing once they are fixed."""

from __future__ import annotations

import itertools
import pathlib

import pytest
from granary_hunts import Hunt

from undermine.api.hunting import HuntResult

pytestmark = [pytest.mark.first, pytest.mark.timeout(1500)]
CAMPAIGNS_MAX = 3
HUNT = Hunt("fcatch", "keys,job", "crash", benign_runs=0)


def test_it_finds_both_time_of_fault_bugs(tmp_path: pathlib.Path) -> None:
    def found(result: HuntResult) -> bool:
        """A run to learn from may show a bug before it is predicted, so the plans of a finding's variants count too."""
        reasons = {each.title: str((each.reasons, [variant.plan.why for variant in each.variants])) for each in result.believed}
        waits = [title for title, why in reasons.items() if "m1 waits for this message without a time limit" in why]
        permitted = [title for title, why in reasons.items() if "['permitted']" in why]
        return any("no leader" in title for title in waits) and any("job" in title for title in permitted)

    # On a busy machine, a store may report before the master waits for it. Such a run says nothing about the prediction, but a
    # campaign tries it only once. Another campaign can find the bug.
    hunts = (HUNT.run_until(found, tmp_path / str(number), "", runs_max=10) for number in range(CAMPAIGNS_MAX))
    missed = list(itertools.takewhile(lambda hunt: not hunt[0], hunts))
    assert len(missed) < CAMPAIGNS_MAX, [[each.title for each in result.believed] for _, result in missed]


def test_it_finds_neither_once_they_are_fixed(tmp_path: pathlib.Path) -> None:
    result = HUNT.run(tmp_path, "commit-lease,open-watch", runs_max=8)
    assert result.statuses["fired"] >= 4, "predictions were tried"
    assert not [finding.title for finding in result.believed if "no leader" in finding.title or "job" in finding.title]
