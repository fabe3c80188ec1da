"""Finding: failing runs judged to be the same bug. LandedRun: the part of a run that this judgement needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from undermine.model.faults import is_fault, nodes_of
from undermine.model.plan import Lasted, Plan, When, final_at
from undermine.model.point import Point
from undermine.model.predictions.candidate import Reason
from undermine.model.rounds import RoundKind
from undermine.model.run import RunRecord, RunStatus, SlowOp, Symptom, Verdict

WHEN = ", when "
Landing = tuple[int, Point]
"""The number of a step that fired, and the point at which it fired."""


class LandedRun(msgspec.Struct, frozen=True):
    """How a run ended, and where its steps fired."""

    run: int
    strategy: str
    """The strategy that proposed it; "" if none did."""
    plan: Plan
    plan_id: str
    status: RunStatus
    symptoms: tuple[Symptom, ...] = ()
    """In the order of `symptoms_of` in `checkers/compose.py`; none if the run passed."""
    landed: tuple[Landing, ...] = ()
    slow_ops: tuple[SlowOp, ...] = ()
    kind: RoundKind = RoundKind.STRATEGY
    lasted: tuple[Lasted, ...] = ()
    """How long its delays and pauses really lasted."""
    worker: str = ""
    """The worker of a cluster that ran it; "" for the tool's own machine."""


def landings(record: RunRecord) -> tuple[Landing, ...]:
    """Every step that took effect, with its point; without a recorded moment, the point that its trigger names."""
    points: dict[int, Point] = {}
    for moment in record.moments:
        points.setdefault(moment.step, moment.point)
    proven = {receipt.step for receipt in record.receipts if receipt.proves}
    out = []
    for number, step in enumerate(record.plan.steps):
        if number in proven or (number in points and not is_fault(step.fault)):
            at = final_at(step.trigger)
            out.append((number, points.get(number) or (at.point if at else Point(()))))
    return tuple(out)


def as_planned(landed: Sequence[Landing], plan: Plan) -> tuple[Landing, ...]:
    """The landings without the keys that the plan leaves open, such as the node or the target. At which operation a state is
    noticed is an accident, so a step that waits for a state has none of the keys, if its fault names the nodes that it hits."""
    out = []
    for number, point in landed:
        if isinstance(plan.steps[number].trigger, When) and nodes_of(plan.steps[number].fault):
            out.append((number, Point(())))
            continue
        at = final_at(plan.steps[number].trigger)
        named = [name for name, _ in at.point.items] if at else []
        out.append((number, point.abstract_in(named) if named else point))
    return tuple(out)


def named(symptom: str, when: str) -> str:
    """`accepted job lost, when a worker stops`"""
    return f"{symptom}{WHEN}{when}" if when else symptom


def _runs(number: int) -> str:
    return f"{number} run" if number == 1 else f"{number} runs"


class ShownSymptom(msgspec.Struct, frozen=True):
    """One symptom of a finding's plan, and in how many of the re-runs that count it came back."""

    text: str
    hits: int = 0


class FailingFrame(msgspec.Struct, frozen=True):
    """A frame of the target in which the symptom arose, and in how many runs."""

    frame: str
    runs: int = 1

    def __str__(self) -> str:
        return f"{self.frame} ({_runs(self.runs)})"


class Variant(msgspec.Struct, frozen=True):
    """Another plan with the same symptom: the shortest one whose last fault hits this site."""

    site: str
    plan: Plan
    run: int
    runs: int = 1
    lasted: tuple[Lasted, ...] = ()
    """How long the delays and pauses of this run lasted."""


class Realism(msgspec.Struct, frozen=True):
    """The answer whether a slow device could cause the delays of a plan, with the reason.

    `unchecked`: the tool could not find out. "": the plan has no delay, or the check is off.
    """

    answer: Literal["", "realistic", "dropped", "unchecked"] = ""
    text: str = ""
    runs: tuple[int, ...] = ()
    """The runs with a slow device."""

    def __str__(self) -> str:
        return {"dropped": "dropped: ", "unchecked": "not checked: "}.get(self.answer, "") + self.text


class Bound(msgspec.Struct, frozen=True):
    """The operation that opens a window, or the one that closes it."""

    point: Point
    line: int = 0
    """The line of its call site."""
    stack: tuple[str, ...] = ()
    """The call sites that led to it, innermost first."""


class Window(msgspec.Struct, frozen=True):
    """The moments at which the last fault of a finding's smallest plan does the same harm: after `opens` and before `closes`.

    At the next moment outside, it does no harm. None: no harmless moment was found on that side.
    """

    point: Point
    """The operation at which the fault fired, in the same thread."""
    opens: Bound | None = None
    closes: Bound | None = None
    runs: int = 0
    """How many runs have found it."""

    @property
    def sites(self) -> tuple[str, str]:
        """The call sites of both bounds in the innermost function that leads to both; "" for a bound that isn't known. Their own
        call sites may be in helper functions that say little."""
        one, other = (bound.stack or (bound.point.get("loc"),) if bound else () for bound in (self.opens, self.closes))
        if not one or not other:
            return (one or ("",))[0], (other or ("",))[0]
        for here, there in zip(reversed(one), reversed(other), strict=False):
            if here != there:
                return here, there
        return one[0], other[0]


class Finding(msgspec.Struct, frozen=True):
    """One bug: its symptom, the plan that reproduces it, and its rates with and without the fault."""

    id: str
    symptom: str
    """The symptom that failing runs are grouped by."""
    title: str
    """The text of the worst verdict."""
    plan: Plan
    runs: tuple[int, ...]
    strategies: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    tries: int = 0
    """Re-runs with the long wait in which the fault fired at the same point."""
    hits: int = 0
    elsewhere: int = 0
    """Re-runs that prove nothing: the fault fired elsewhere or not at all, or the run broke."""
    control_tries: int = 0
    """Runs of the control that reached the same moments."""
    control_hits: int = 0
    last_control_tries: int = 0
    """The same for controls that keep all faults but the last. They are run if the moment of the last fault exists only because
    of the others."""
    last_control_hits: int = 0
    variants: tuple[Variant, ...] = ()
    """Plans for other sites at which faults led to the symptom, most frequent first. They may be other bugs."""
    frames: tuple[FailingFrame, ...] = ()
    """The frames of the target in which the symptom arose, most frequent first, if that differs from run to run."""
    faults: tuple[str, ...] = ()
    """The kinds of faults that led to it."""
    shown_by: int = 0
    """The run that shows it best: a confirmed run if there is one."""
    lasted: tuple[Lasted, ...] = ()
    """How long the delays and pauses of that run lasted."""
    realism: Realism = Realism()
    """For delays: could a slow device cause them?"""
    suppressed: str = ""
    """The reason that the user gave for suppressing it ("" if it is not suppressed)."""
    reasons: tuple[Reason, ...] = ()
    """Why strategies predicted that a fault hurts there, whichever of them ran the plan."""
    symptoms: tuple[ShownSymptom, ...] = ()
    """Everything that runs of the plan showed, worst first; none in older campaigns."""
    shown_elsewhere: tuple[ShownSymptom, ...] = ()
    """Symptoms that only runs of other plans showed beside the finding's own, worst first. `hits` is the number of these runs."""
    when: str = ""
    """The circumstances of its runs, such as `a worker stops`; "" if it is not a broken promise. Failing runs with the same
    symptom in other circumstances are another finding."""
    like: tuple[str, ...] = ()
    """The ids of findings with the same symptom in other circumstances."""
    smallest: Plan | None = None
    """A smaller plan that fails as often; None if none was found."""
    smallest_rate: str = ""
    """How often it failed, such as `3/3`."""
    window: Window | None = None
    """The moments at which its fault does the same harm; None if they are not known, or if the fault hits one operation."""
    shown_on: tuple[str, ...] = ()
    """The workers on which its plan failed; none if the hunt ran on one machine."""
    passed_on: tuple[str, ...] = ()
    """The workers on which its plan never failed, though its faults fired at the same points."""
    undecided: bool = False
    """Must more re-runs be made before it is known whether it is a bug?"""

    @property
    def name(self) -> str:
        """The symptom with its circumstances. It is unique in a campaign, and the finding is suppressed by it."""
        return named(self.symptom, self.when)

    @property
    def when_words(self) -> str:
        """The circumstances, and the findings that may have the same cause."""
        if not self.like:
            return self.when
        verb = "has" if len(self.like) == 1 else "have"
        return f"{self.when} ({' and '.join(self.like)} {verb} the same symptom, and perhaps the same cause)"

    @property
    def worker_words(self) -> str:
        """The workers that show it, and those that don't; "" without a comparison of workers."""
        shown, passed = ", ".join(self.shown_on), ", ".join(self.passed_on)
        if len(self.shown_on) == 1:
            return f"only {shown} shows it; on {passed} the same plan passed" if passed else ""
        return f"{shown} show it" + (f"; on {passed} the same plan passed" if passed else "") if shown else ""

    @property
    def main_verdict(self) -> Verdict | None:
        """The failing verdict that gave the finding its title; else the first one, preferably with the finding's symptom."""
        failing = [verdict for verdict in self.verdicts if verdict.answer == "fail"]
        titled = [verdict for verdict in failing if verdict.text == self.title]
        return next(iter(titled or [v for v in failing if v.symptom == self.symptom] or failing), None)

    @property
    def symptom_rates(self) -> tuple[str, ...]:
        """Each symptom with its rate, such as `acknowledged put lost: 3/3`, if there are several."""
        if len(self.symptoms) + len(self.shown_elsewhere) < 2:
            return ()
        own = (f"{shown.text}: {shown.hits}/{self.tries}" if self.tries else shown.text for shown in self.symptoms)
        others = (f"{shown.text}: with other plans, in {_runs(shown.hits)}" for shown in self.shown_elsewhere)
        return (*own, *others)

    @property
    def confirmed(self) -> bool:
        return self.hits > 0 and not self.flaky

    @property
    def flaky(self) -> bool:
        """Did the symptom also come without the fault?"""
        return self.control_hits > 0

    @property
    def dropped(self) -> bool:
        """Does it need a delay that no slow device causes?"""
        return self.realism.answer == "dropped" and not (self.flaky or self.undecided)

    @property
    def ruled_out(self) -> bool:
        """Is it suppressed, flaky or dropped? Then it must not hide other symptoms of its runs."""
        return bool(self.suppressed) or self.flaky or self.dropped

    @property
    def believed(self) -> bool:
        """Is it reported as a bug? It was reproduced or never re-run, needs a fault that can happen, and is not suppressed."""
        untried = not self.tries and not self.elsewhere
        return (self.confirmed or untried) and not (self.ruled_out or self.undecided)

    @property
    def rate(self) -> str:
        return ", ".join(filter(None, (self._rate_with, self._rate_without)))

    @property
    def _rate_with(self) -> str:
        if self.tries:
            return f"{self.hits}/{self.tries}"
        return f"never: the fault fired elsewhere in {self.elsewhere} re-runs" if self.elsewhere else "not re-run"

    @property
    def _rate_without(self) -> str:
        return self.controls or ("no control" if self.hits else "")

    @property
    def controls(self) -> str:
        """How often it failed without the fault, in words; "" without a control that reached the same moments."""
        if self.control_tries:
            return f"{self.control_hits}/{self.control_tries} without the fault"
        if self.last_control_tries:
            return f"{self.last_control_hits}/{self.last_control_tries} without the last fault"
        return ""
