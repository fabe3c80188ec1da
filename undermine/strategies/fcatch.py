"""Crashes and lost messages at the moments that correct runs show to be dangerous, after FCatch.

1. *Awaited messages* come from fault-free runs: a node waits without a time limit until a message of another node ends the wait.
   If the other node dies before it sends the message, or the message is lost, the wait never ends.
2. *Observation*: each role's node is crashed once during the workload. Most systems survive that. Such a run shows the
   recovery. If no recovery reads what an update in several steps changes, a node is crashed just before such an update.
3. *Left-behind writes* come from recovery and fault-free runs together: recovery reads a file, a key or an object that the
   crashed node writes. If the node dies right after that write, recovery finds a state that it has never found before.

Never starts a process.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.possible_faults import injectable
from undermine.model.faults import Crash, Drop, Error, Fault, Reboot, nodes_of
from undermine.model.plan import At, Plan, Step, final_at
from undermine.model.point import CLIENT
from undermine.model.predictions.candidate import Candidate, Evidence, Reason, merged
from undermine.model.predictions.outcome import OUTCOMES
from undermine.program.dependence import IMPACTS
from undermine.protocols import Dropped, History, PastRun
from undermine.strategies.observed_conflicts import Awaited, Left, Moment, ObservedConflicts, Shown, Update
from undermine.strategies.order.recovery import dealt

_SHARES = {"early": 0.2, "middle": 0.5, "late": 0.9}
"""The share of client operations that have begun when a node crashes."""
_LEARN_MAX = 12
"""At most this number of runs with a crash are learnt from: the first ones teach most, and reading a trace takes seconds."""
_OBSERVED_MAX = 9
"""At most this number of them are made only to learn. The others are benign runs, and predictions that turned out harmless."""
_UPDATES_MAX = 4
"""For each role, runs to learn from interrupt at most this number of updates."""
_MOMENTS_MAX = 2
"""At most this number of runs interrupt one update, in case the first one fails or its moment does not come."""
_READS_MAX = 3
"""At most this number of reads of recovery are named as reasons for one crash."""
_WHY_OBSERVE = "shows how the target recovers from a crash"
_DOUBTFUL = "; doubtful: "
"""In the text of a reason, before its doubt."""


class Fcatch:
    """A crash, a connection error or a lost message where a correct run shows that the time of the fault matters."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.fcatch]"""

        crash: Literal["early", "middle", "late", "random"] = "early"
        """When, in the workload, the crash happens from whose recovery the strategy learns."""
        heap: bool = True
        """Also observe accesses to objects, inside of handlers."""
        recovery: tuple[str, ...] = ()
        """Functions that are part of recovery, as module:qualified.name, if the tool does not recognise them."""
        sources: tuple[str, ...] = ()
        """The files and folders of the target's source, if the tool does not find them."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """The most experiments in a campaign."""

    name = "fcatch"
    summary = "a crash or lost message just before a signal that others wait for, or after a write that recovery reads"
    traced = True

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.cap = options.cap
        self.heap = options.heap
        self._options = options
        self._known: ObservedConflicts | None = None
        self._remarks: list[str] = []
        self._confirmed: set[str] = set()
        """The remarks about confirmed predictions that were made before."""

    def remarks(self) -> list[str]:
        """Remarks for the user, each once."""
        new, self._remarks = self._remarks, []
        return new

    def propose(self, history: History) -> Iterator[Candidate | Dropped]:
        """Yield the runs to learn from first; when they have finished, the candidates that all runs so far predict."""
        observing = [plan for plan in self._observing(history) if plan.id not in history.settled]
        if observing:
            yield from (Candidate(plan) for plan in observing)
            self._remarks = ["first come the runs to learn from; the predictions follow when they have finished"]
            return
        waits, left = self.conflicts(history)
        interrupting = self._interrupting(left, history)
        if interrupting:
            yield from map(Candidate, interrupting)
            self._remarks = [f"more runs to learn from ({len(interrupting)}): no recovery has read what an update changes"]
            return
        self.heap = False  # its runs are slower with it, and the runs to learn from are over
        kept = self._candidates(waits, left, history)
        yield from kept
        self._tell(waits, left, kept, history)
        yield from self._dropped(waits, left, kept, history)

    def predict(self, history: History, after: PastRun | None) -> Iterator[Candidate]:
        """Yield the candidates; with a run, those at operations that it showed after its last fault, at their next occurrence."""
        own = tuple(run for run in history.others() if run.plan.strategy == self.name)
        waits, left = self.conflicts(msgspec.structs.replace(history, runs=own))  # another strategy may ask
        if after is None:
            yield from self._candidates(waits, left, history)
            return
        new = self._known.awaited_after(after.id, history.fired_ns(after.id)) if self._known else []
        found = self._candidates([*waits, *self._with_faults(new, history)], left, history)
        shown = {Spot.of(point) for point in history.profile(after.id).after}
        for candidate in found:
            (step,) = candidate.plan.steps
            at = final_at(step.trigger)
            if at and Spot.of(at.point) in shown:
                next_one = msgspec.structs.replace(step, trigger=At(at.point, at.place))
                yield msgspec.structs.replace(candidate, plan=msgspec.structs.replace(candidate.plan, steps=(next_one,)))

    # --- runs to learn from

    def _observing(self, history: History) -> Iterator[Plan]:
        """For each role, a crash with and without a restart while clients are served. If such a run fails, it doesn't show a
        recovery that works, and a crash at another time follows."""
        found: dict[tuple[str, str], Crash | Reboot] = {}
        for possible in injectable(history.possible_faults):
            fault = possible.fault
            if isinstance(fault, (Crash, Reboot)) and not fault.nodes:
                found.setdefault((possible.point.get("role"), type(fault).__name__), fault)
        failed = {run.plan.id for run in history.runs if run.failed}
        triggers = dict.fromkeys(filter(None, (_during_workload(history, share) for share in self._shares(history))))
        for (role, _), fault in sorted(found.items(), key=lambda item: item[0]):
            nodes = self._nodes(history, role)
            fault = msgspec.structs.replace(fault, nodes=(nodes[history.seed % len(nodes)],))
            plans = [Plan((Step(trigger, fault),), history.seed, self.name, _WHY_OBSERVE) for trigger in triggers]
            yield from plans[: 1 + next((n for n, plan in enumerate(plans) if plan.id not in failed), len(plans))]

    def _interrupting(self, left: Sequence[Left], history: History) -> list[Plan]:
        """Crashes just before updates in several steps of which no recovery has read anything, so that recovery takes up the work
        again. Whether a crash at another time interrupts such work is chance. A crash before its first step is the one that the
        target most likely survives."""
        recovered = {(each.moment.point.get("role"), each.pair.resource) for each in left if each.moment.nth}
        well = {run.plan.id for run in history.runs if _went_well(run)}
        interrupted: Counter[str] = Counter()
        found: dict[str, Plan] = {}
        for update in self._known.updates(history.fault_free) if self._known else ():
            plans = list(self._before_update(update, history))
            rest = [plan for plan in plans if plan.id not in history.settled]
            was_tried = len(rest) < len(plans)
            is_known = any((update.role, resource) in recovered for resource in update.begins)
            taught = is_known or any(plan.id in well or plan.id in found for plan in plans)
            if rest and not taught and (was_tried or interrupted[update.role] < _UPDATES_MAX):
                found[rest[0].id] = rest[0]
                was_tried = True
            interrupted[update.role] += was_tried
        made = sum(run.plan.why == _WHY_OBSERVE for run in history.runs)
        return list(found.values())[: max(0, _OBSERVED_MAX - made)]

    def _before_update(self, update: Update, history: History) -> Iterator[Plan]:
        for moment in update.moments[:_MOMENTS_MAX]:
            killing = [fault for fault in self._possible(moment, history) if isinstance(fault, (Crash, Reboot))]
            if killing:
                yield self._plan(moment, min(killing, key=lambda fault: isinstance(fault, Reboot)), history, _WHY_OBSERVE)

    def _shares(self, history: History) -> list[float]:
        """The share of client operations that have begun at the crash; the other times follow the user's choice."""
        first = _SHARES.get(self._options.crash, random.Random(history.seed).random())
        return list(dict.fromkeys((first, *_SHARES.values())))

    def _nodes(self, history: History, role: str) -> list[str]:
        return sorted({seen.point.get("node") for seen in history.points if seen.point.get("role") == role})

    def _crashed(self, history: History) -> list[tuple[int, int]]:
        """The runs with one crash that went well, and when it happened."""
        own = [run for run in history.runs if not run.covered and _went_well(run) and _kills(run.plan)]
        observed, tried = ([run.id for run in own if (run.plan.why == _WHY_OBSERVE) == wanted] for wanted in (True, False))
        first = (*observed[:_OBSERVED_MAX], *tried[: max(0, _LEARN_MAX // 2 - len(observed))], *history.faulty, *tried)
        fired = [(run, history.fired_ns(run)) for run in dict.fromkeys(first)]
        return [(run, at_ns) for run, at_ns in fired if at_ns][:_LEARN_MAX]

    # --- predictions

    def conflicts(self, history: History) -> tuple[list[Awaited], list[Left]]:
        """All pairs of operations that the runs so far show to conflict, also those that a rule excludes."""
        if self._known is None:
            program = history.program(self._options.sources)
            self._known = ObservedConflicts(history.columns, program, self._options.recovery)
        waits, left = self._known.awaited(history.fault_free), self._known.left(history.fault_free, self._crashed(history))
        return (
            self._with_faults(waits, history),
            [one if one.pair.rule or self._killing(one, history) else one.without_fault() for one in left],
        )

    def _with_faults(self, waits: Iterable[Awaited], history: History) -> list[Awaited]:
        """The waits, those excluded whose message no fault can hit."""
        return [one if one.pair.rule or any(self._losses(one, history)) else one.without_fault() for one in waits]

    def _candidates(self, waits: Sequence[Awaited], left: Sequence[Left], history: History) -> list[Candidate]:
        """The candidates of the pairs that no rule excludes. Both kinds take turns, the most promising first. Doubtful ones come
        last."""
        kinds: list[list[Candidate]] = [list(self._of_waits(waits, history)), [], []]
        for candidate in self._of_left(left, history):
            kinds[1 + is_doubtful(candidate)].append(candidate)
        *sure, doubtful = (sorted(kind, key=lambda candidate: -candidate.score) for kind in kinds)
        return merged((*dealt(sure), *doubtful))

    def _dropped(
        self, waits: Sequence[Awaited], left: Sequence[Left], kept: Iterable[Candidate], history: History
    ) -> Iterator[Dropped]:
        """The plans that rules exclude, one for each moment that no other plan tries."""
        tried = {candidate.plan.steps[0].trigger for candidate in kept}
        for dropped in (*self._dropped_waits(waits, history), *self._dropped_left(left, history)):
            if dropped.plan.steps[0].trigger not in tried:
                tried.add(dropped.plan.steps[0].trigger)
                yield dropped

    def _of_waits(self, waits: Iterable[Awaited], history: History) -> Iterator[Candidate]:
        times: Counter[tuple[str, ...]] = Counter()
        for awaited in waits:
            if awaited.pair.rule:
                continue
            reason = self._why_wait(awaited)
            for fault, score in self._losses(awaited, history):
                score += awaited.pair.own_request - times[awaited.site]
                yield Candidate(self._plan(awaited.moment, fault, history, reason.text), (reason,), score)
            times[awaited.site] += 1  # each wait has a turn before any has a second one

    def _of_left(self, left: Iterable[Left], history: History) -> Iterator[Candidate]:
        for each in _few_reads(one for one in left if not one.pair.rule):
            if fault := self._killing(each, history):
                reason = self._why_left(each)
                yield Candidate(self._plan(each.moment, fault, history, reason.text), (reason,), _promise(each))

    def _dropped_waits(self, waits: Iterable[Awaited], history: History) -> Iterator[Dropped]:
        for awaited in waits:
            faults = list(self._losses(awaited, history)) if awaited.pair.rule else []
            if faults:
                plan = self._plan(awaited.moment, faults[0][0], history, self._why_wait(awaited).text)
                yield Dropped(plan, awaited.pair.rule)

    def _dropped_left(self, left: Sequence[Left], history: History) -> Iterator[Dropped]:
        """The crashes that rules exclude. If another read makes the same state worth a crash, it is tried, and not dropped."""
        tried = {each.state for each in left if not each.pair.rule}
        for each in left:
            if each.pair.rule and each.state not in tried and (fault := self._killing(each, history)):
                yield Dropped(self._plan(each.moment, fault, history, self._why_left(each).text), each.pair.rule)

    def _losses(self, awaited: Awaited, history: History) -> Iterator[tuple[Fault, float]]:
        """The faults that keep the message from being sent, each with its score: a crash, a connection error, a silent loss."""
        faults = self._possible(awaited.moment, history)
        for kinds, score in (((Crash, Reboot), 10.0), ((Error,), 4.0), ((Drop,), 2.0)):
            found = [fault for fault in faults if isinstance(fault, kinds)]
            if found:
                yield min(found, key=lambda fault: kinds.index(type(fault))), score

    def _killing(self, left: Left, history: History) -> Fault | None:
        """The crash after which recovery finds the write: with a restart, if the restarted node itself reads it."""
        killing = [fault for fault in self._possible(left.moment, history) if isinstance(fault, (Crash, Reboot))]
        wanted = Reboot if left.pair.by_restarted else Crash
        return min(killing, key=lambda fault: not isinstance(fault, wanted), default=None)

    def _possible(self, moment: Moment, history: History) -> list[Fault]:
        """The faults that are possible at this moment and hit only its operation or its node."""
        if not moment.nth or moment.point.get("node") == CLIENT:
            return []
        found = injectable(history.possible_faults_at([moment.point]))
        return [one.fault for one in found if one.place == moment.place and not nodes_of(one.fault)]

    def _plan(self, moment: Moment, fault: Fault, history: History, why: str) -> Plan:
        return Plan((Step(moment.trigger, fault),), history.seed, self.name, why)

    # --- words

    def _why_wait(self, awaited: Awaited) -> Reason:
        pair, node = awaited.pair, awaited.wait.node
        ended = f"the wait ended by {pair.kind}: {pair.evidence}"
        evidence = (_evidence("wait", f"{node} waits", awaited.wait), _evidence("trace", ended, awaited.signal))
        return Reason(f"{node} waits for this message without a time limit", evidence)

    def _why_left(self, left: Left) -> Reason:
        pair = left.pair
        when, verb = "after" if pair.after else "before", _VERBS[pair.read.effect]
        text = f"recovery {verb} {pair.resource} and has not found it as it is {when} this {pair.write.effect}"
        text += f"{_DOUBTFUL}{pair.doubt}" if pair.doubt else f"; {pair.because}" if pair.because else ""
        by = "a message of the node leads to this" if pair.resource.kind == "object" else "the node does a"
        evidence = [
            _evidence("trace", f"recovery {verb} it", left.read),
            _evidence("trace", f"{by} {pair.write.effect} of it", left.write),
        ]
        if pair.before and left.before:
            evidence.append(_evidence("trace", f"the {pair.before.effect} before that", left.before))
        return Reason(text, tuple(evidence))

    def _tell(self, waits: Sequence[Awaited], left: Sequence[Left], kept: Sequence[Candidate], history: History) -> None:
        rules = Counter(filter(None, [*(one.pair.rule for one in waits), *(one.pair.rule for one in left)]))
        doubtful = sum(map(is_doubtful, kept))
        said = [f"awaited messages: {len(waits)}; writes that recovery may find: {len(left)}"]
        said.append(f"to try: {len(kept) - doubtful}" + (f", then {doubtful} doubtful" if doubtful else ""))
        said += [f"{count} dropped: {rule}" for rule, count in rules.most_common()]
        tried = [run for run in history.runs if run.status == "fired" and run.plan.why != _WHY_OBSERVE]
        for word, runs in (("", _with_doubts(tried, doubts=False)), ("doubtful ", _with_doubts(tried, doubts=True))):
            found = Counter(run.outcome for run in runs)
            verdicts = ", ".join(f"{found[outcome]} {name}" for outcome, name in OUTCOMES.items() if found[outcome])
            said += [f"{len(runs)} {word}tried: {verdicts}"] if runs else []
        confirmed = [f"confirmed: {run.plan}: {run.plan.why}" for run in tried if run.outcome == "confirmed"]
        new = [text for text in dict.fromkeys(confirmed) if text not in self._confirmed]
        self._confirmed.update(new)
        self._remarks = [*new, "; ".join(said)]


_VERBS = {"read": "reads", "exists": "looks for", "list": "lists the folder of", "create": "creates"}


def is_doubtful(candidate: Candidate) -> bool:
    """Is there a doubt about each of its reasons?"""
    return all(_DOUBTFUL in reason.text for reason in candidate.reasons)


def _with_doubts(runs: Iterable[PastRun], *, doubts: bool) -> list[PastRun]:
    return [run for run in runs if (_DOUBTFUL in run.plan.why) == doubts]


def _evidence(kind: Literal["wait", "trace"], text: str, shown: Shown) -> Evidence:
    return Evidence(kind, text, shown.loc, shown.run, shown.row)


def _during_workload(history: History, share: float) -> At | None:
    """The moment at which this share of the most frequent client operation has begun; None without client operations."""
    clients = [seen for seen in history.points if seen.point.get("op") == "client.op"]
    if not clients:
        return None
    most = max(clients, key=lambda seen: (seen.count, -seen.order))
    return At(most.point, nth=1 + round(share * (most.count - 1)))


def _went_well(run: PastRun) -> bool:
    return run.status == "fired" and not run.failed


def _kills(plan: Plan) -> bool:
    return len(plan.steps) == 1 and isinstance(plan.steps[0].fault, (Crash, Reboot))


def _few_reads(left: Iterable[Left]) -> Iterator[Left]:
    """At most `_READS_MAX` for each state, the most promising first. All crash at the first occurrence while clients are served,
    or else at the first one."""
    by_state: dict[tuple[object, ...], list[Left]] = {}
    for each in sorted(left, key=lambda one: (not one.pair.doubt, _promise(one)), reverse=True):
        by_state.setdefault(each.state, []).append(each)
    for found in by_state.values():
        first = min((each.moment for each in found), key=lambda moment: (not moment.serving, moment.nth))
        yield from (each._replace(moment=first) for each in found[:_READS_MAX])


def _promise(left: Left) -> float:
    """How promising a crash is: objects and keys that live on come before a node's own files, and those before mere names in a
    folder. The worse the harm that the source shows, the better."""
    pair = left.pair
    base = 7.0 if pair.resource.kind != "file" else 6.0 if pair.by_restarted else 3.0
    unlike = 3.0 * (pair.read.effect == "list") + 2.0 * (pair.resource.kind == "object" and not pair.exact)
    harm = 0.5 * (len(IMPACTS) - IMPACTS.index(pair.impact)) / len(IMPACTS) if pair.impact else 0.0
    return base - unlike + pair.exact + left.moment.serving + 0.5 * (pair.write.effect != "write") + harm
