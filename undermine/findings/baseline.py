"""Learning what is normal from runs that passed: log templates and durations. Pure: runs in, a baseline out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from undermine.checkers.entries import entries
from undermine.checkers.vocabulary import ANY, Vocabulary
from undermine.model.baseline import Baseline
from undermine.model.run import RunView

_TEMPLATES_MAX = 5000
_UNCAUGHT_MAX = 500
_SIMILARITY = 0.65
"""Lines with this share of equal words are one template."""
_DEPTH = 5
"""The first two words (a level and who speaks, as a rule) are never generalised, unless there are too many."""


def learn(fault_free: Iterable[RunView], benign: Iterable[RunView], failed_as: Sequence[str] = ()) -> Baseline:
    """From runs that passed; `failed_as` are the symptoms of fault-free runs that did not."""
    templates = _Templates()
    normal, at_rest = _Durations(), _Durations()
    for run in fault_free:
        normal.learn(run)
        templates.learn(run)
    for run in benign:
        at_rest.learn(run)
        templates.learn(run)
    return Baseline(
        runs=normal.runs,
        benign=at_rest.runs,
        failed=len(failed_as),
        failed_as=tuple(dict.fromkeys(failed_as)),
        templates=templates.found(),
        slowest_s=normal.slowest_s,
        workload_s=normal.workload_s,
        settle_s=normal.settle_s,
        recovery_s=at_rest.settle_s,
    )


class _Durations:
    """The longest of each kind."""

    def __init__(self) -> None:
        self.runs = 0
        self.slowest_s: dict[str, float] = {}
        self.workload_s = 0.0
        self.settle_s = 0.0

    def learn(self, run: RunView) -> None:
        self.runs += 1
        self.workload_s = max(self.workload_s, run.record.workload.duration_s)
        self.settle_s = max(self.settle_s, run.record.settling.duration_s)
        for op in run.history:
            if op.status == "ok" and op.phase == "workload":
                took_s = (op.end_ns - op.start_ns) / 1e9
                self.slowest_s[op.f] = max(self.slowest_s.get(op.f, 0.0), took_s)


class _Templates:
    """Log entries, generalised. What nobody caught is kept word for word: another exception there would be news."""

    def __init__(self) -> None:
        # Not at the top: it is slow to import, and most commands learn nothing. Without a persistence handler and
        # without its file of settings, which it would look for in the current folder.
        from drain3 import TemplateMiner  # type: ignore[import-untyped]
        from drain3.template_miner_config import TemplateMinerConfig  # type: ignore[import-untyped]

        config = TemplateMinerConfig()
        config.drain_sim_th = _SIMILARITY
        config.drain_depth = _DEPTH
        config.drain_max_clusters = _TEMPLATES_MAX
        config.parametrize_numeric_tokens = False  # numbers are masked before
        self._miner = TemplateMiner(config=config)
        self._uncaught: set[str] = set()
        self._known = Vocabulary()

    def learn(self, run: RunView) -> None:
        for entry in entries(run.logs):
            if entry.uncaught:
                self._uncaught.add(entry.symptom)
            elif (words := entry.words) and not self._known.knows(words):
                # Only what is new: the miner compares each line with all templates that begin like it.
                self._known.add(self._miner.add_log_message(" ".join(words))["template_mined"])

    def found(self) -> tuple[str, ...]:
        mined = {cluster.get_template() for cluster in self._miner.drain.clusters}
        known = sorted(template for template in mined if set(template.split()) != {ANY})
        return (*known, *itertools.islice(sorted(self._uncaught), _UNCAUGHT_MAX))
