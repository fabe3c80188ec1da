"""Learns log templates, durations and what nodes agree about from runs that passed. Pure: runs in, a baseline out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from undermine.analysis.agreement.rest import not_refuted
from undermine.checkers.entries import entries
from undermine.checkers.vocabulary import ANY, Vocabulary
from undermine.model.baseline import Agreements, Baseline
from undermine.model.run import RunView

_TEMPLATES_MAX = 5000
_UNCAUGHT_MAX = 500
_SIMILARITY = 0.65
"""Lines that share at least this part of their words become one template."""
_DEPTH = 5
"""The first two words, usually a level and a logger, are generalised only if there are too many templates."""


def learn(
    fault_free: Iterable[RunView],
    benign: Iterable[RunView],
    failed_as: Sequence[str] = (),
    agreements: Agreements = Agreements(),  # noqa: B008 - frozen
) -> Baseline:
    """The baseline of runs that passed. `failed_as` are the symptoms of fault-free runs that failed. `agreements` are those that
    the fault-free runs show; benign runs may refute some."""
    templates = _Templates()
    normal, at_rest = _Durations(), _Durations()
    for run in fault_free:
        normal.learn(run)
        templates.learn(run)
    for run in benign:
        at_rest.learn(run)
        templates.learn(run)
        agreements = not_refuted(agreements, run)
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
        agreements=agreements,
    )


def unanswered(runs: Iterable[RunView]) -> dict[str, str]:
    """By name: the last error of each operation that these runs tried and that was never answered nor certainly refused."""
    errors: dict[str, str] = {}
    answered: set[str] = set()
    for op in (op for run in runs for op in run.history):
        if op.status in ("ok", "fail"):
            answered.add(op.f)
        else:
            errors[op.f] = op.error or "it never ends"
    return {f: error for f, error in errors.items() if f not in answered}


class _Durations:
    """The longest duration of each kind, in the target's time."""

    def __init__(self) -> None:
        self.runs = 0
        self.slowest_s: dict[str, float] = {}
        self.workload_s = 0.0
        self.settle_s = 0.0

    def learn(self, run: RunView) -> None:
        self.runs += 1
        self.workload_s = max(self.workload_s, run.record.workload.duration_s * run.speed)
        self.settle_s = max(self.settle_s, run.record.settling.duration_s * run.speed)
        for op in run.history:
            if op.status == "ok" and op.phase == "workload":
                took_s = run.record.target_s(op.end_ns - op.start_ns)
                self.slowest_s[op.f] = max(self.slowest_s.get(op.f, 0.0), took_s)


class _Templates:
    """Generalised log entries. Uncaught exceptions are kept word for word: a different one at that place would be new."""

    def __init__(self) -> None:
        # Imported here because it is slow to import and most commands learn nothing. It gets an explicit config, since it
        # would otherwise look for a settings file in the current folder.
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
                # Only new entries: the miner compares each line with all templates that begin like it.
                self._known.add(self._miner.add_log_message(" ".join(words))["template_mined"])

    def found(self) -> tuple[str, ...]:
        mined = {cluster.get_template() for cluster in self._miner.drain.clusters}
        known = sorted(template for template in mined if set(template.split()) != {ANY})
        return (*known, *itertools.islice(sorted(self._uncaught), _UNCAUGHT_MAX))
