"""Hunts in the example with one strategy and one kind of fault."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import msgspec

from undermine import api
from undermine.api.hunting import HuntResult
from undermine.config.load import load

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "granary"
SESSIONS_MAX = 3


class Hunt(msgspec.Struct, frozen=True):
    """The settings of a hunt. One kind of fault keeps the hunt short; runs may take long, since the machine may be busy."""

    strategy: str
    work: str
    kind: str
    benign_runs: int = 1

    def run(self, folder: pathlib.Path, fixes: str, runs_max: int, resume: bool = False) -> HuntResult:
        config = load(EXAMPLE, {"work": self.work, "fixes": fixes})
        config = _with(config, "campaign", dir=str(folder))
        config = _with(config, "faults", kinds=(self.kind,))
        config = _with(config, "hunt", baseline_runs=2, benign_runs=self.benign_runs, confirm=1, shrink_s=0.0)
        config = _with(config, "workload", timeout_s=20.0)
        return api.hunt(
            config, strategies=(self.strategy,), runs_max=runs_max, jobs=1, seed=0, budget_s=3600, resume=resume
        )

    def run_until(
        self, found: Callable[[HuntResult], bool], folder: pathlib.Path, fixes: str, runs_max: int
    ) -> tuple[bool, HuntResult]:
        """Hunt, and resume the hunt while it has not found it: a plan may not fire at first, and then it is tried again."""
        for session in range(SESSIONS_MAX):
            result = self.run(folder, fixes, runs_max, resume=session > 0)
            if found(result):
                return True, result
        return False, result


def _with(config: Any, table: str, **values: Any) -> Any:
    return msgspec.structs.replace(config, **{table: msgspec.structs.replace(getattr(config, table), **values)})
