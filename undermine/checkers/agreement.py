"""Nodes that still disagree after healing about something that they agree about whenever they are at rest."""

from __future__ import annotations

from undermine.analysis.agreement.rest import Broken, End, broken_at_end, columns_of
from undermine.checkers.allowed import refusal_allowed
from undermine.checkers.base import BuiltinChecker
from undermine.model.run import Rank, RunView, Verdict
from undermine.model.text import printable

_SHOWN_MAX = 10


class Agreement(BuiltinChecker):
    """Relations between variables of nodes that held at rest in all fault-free runs must hold again after healing.

    Nobody promised them: they are mined. So they count only after benign runs too, and after the runner has waited for them.
    """

    name = "agreement"
    rank = Rank.DISAGREEMENT
    summary = "after healing, nodes disagree about a variable that they agree about at rest in fault-free runs"

    def check(self, run: RunView) -> Verdict:
        agreements = run.baseline.agreements
        if not agreements.at_rest:
            return Verdict.ok()
        if not run.record.settled_ns:
            return Verdict.unknown("the cluster did not settle, so its nodes were not at rest")
        end = End.of(run)
        broken = [one for one in broken_at_end(columns_of(run), agreements, end) if not _excused(run, one, end)]
        if not broken:
            return Verdict.ok()
        broken.sort(key=lambda one: (one.state.one.name, one.state.one.key, one.state.nodes))
        first = broken[0]
        return Verdict.fail(
            f"nodes disagree about {printable(str(first.state))}, until the end of the run; at rest, {printable(first.words)}",
            symptom=f"nodes disagree about {first.state.one.name} after healing",
            evidence=[line for one in broken[:_SHOWN_MAX] for line in _evidence(one, end)],
        )


def _excused(run: RunView, broken: Broken, end: End) -> bool:
    """May one of the nodes have lost its state? Corrupted bytes permit it not to serve."""
    return any(refusal_allowed(run, node, end.until_ns) for node in broken.state.nodes)


def _evidence(broken: Broken, end: End) -> tuple[str, str]:
    agreement = broken.agreement
    lasted_s, after_s = (end.until_ns - broken.since_ns) / 1e9, (end.until_ns - end.healed_ns) / 1e9
    return (
        f"at rest, {printable(broken.words)}: {agreement.times} times in {agreement.runs} fault-free runs",
        f"{printable(str(broken.state))}, for {lasted_s:.1f} s until the run ended, {after_s:.1f} s after healing",
    )
