"""The partitions of a run: where each one began and ended, the messages that failed meanwhile, and the values of the variables
that the plan names. Never draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from undermine.analysis.agreement.samples import UNKNOWN, samples_of
from undermine.model.columns import Columns
from undermine.model.event import Event
from undermine.model.faults import Partition
from undermine.model.plan import (
    ABSENT,
    UNTIL,
    FirstUnseen,
    Plan,
    Step,
    Trigger,
    When,
    describe_trigger,
    place_of,
    variables_named,
)
from undermine.model.point import point_of
from undermine.model.run import Moment, RunRecord
from undermine.report.text import clip, count

LABELS_MAX = 3
"""Variables that are drawn for a node. Plans name one or two."""
VALUES_MAX = 400
FAILURES_MAX = 2_000
ROWS_MAX = 24
_SENDS = ("net.connect", "net.send", "msg.send")
_TRY_AGAIN = ("EAGAIN", "SSLWantReadError", "SSLWantWriteError")
"""The errors of an operation that would have to wait. The program tries again, so no message failed."""
_DID = {"net.connect": "connected to", "net.send": "sent to", "msg.send": "sent to", "net.recv": "received from"}


@dataclass(frozen=True)
class Cut:
    """A partition that took effect. `end` is the operation before which it ended; None if it lasted until healing."""

    step: int
    nodes: tuple[str, ...]
    begun_ns: int
    ended_ns: int
    fault: Partition
    end: Moment | None = None

    def crosses(self, sender: str, receiver: str) -> bool:
        """Does the partition stop messages from the one node to the other?"""
        others, way = self.fault.others, self.fault.direction
        inside = sender in self.nodes, receiver in self.nodes
        outer = receiver if inside[0] else sender
        stopped = (inside == (True, False) and way != "in") or (inside == (False, True) and way != "out")
        return stopped and (not others or outer in others)


@dataclass(frozen=True)
class Failure:
    """A message, or the connection for it, that failed because of a partition."""

    sender: str
    receiver: str
    op: str
    function: str
    error: str
    t_ns: int

    @property
    def kind(self) -> tuple[str, str, str, str, str]:
        return self.sender, self.receiver, self.op, self.function, self.error


@dataclass(frozen=True)
class Value:
    """A variable of a node had this value for this time. The text is None while the variable was absent."""

    node: str
    label: str
    t_ns: int
    until_ns: int
    text: str | None

    @property
    def words(self) -> str:
        return ABSENT if self.text is None else self.text


def cuts_of(record: RunRecord) -> tuple[Cut, ...]:
    return tuple(_cuts(record))


def _cuts(record: RunRecord) -> Iterator[Cut]:
    for number, step in enumerate(record.plan.steps):
        proofs = [receipt for receipt in record.receipts if receipt.step == number and receipt.proves]
        if not isinstance(step.fault, Partition) or not proofs:
            continue
        end = next((moment for moment in record.ended if moment.step == number), None)
        held = [receipt.t_ns for receipt in proofs if receipt.held_ns > 0]
        begun_ns = min(receipt.begun_ns for receipt in proofs)
        ended_ns = max(held, default=end.t_ns if end else record.healed_ns)
        nodes = step.fault.nodes or tuple(dict.fromkeys(receipt.node for receipt in proofs))
        yield Cut(number, nodes, begun_ns, max(begun_ns, ended_ns), step.fault, end)


# --- messages that failed


def failures_of(cuts: Sequence[Cut], nodes: Iterable[str], columns: Columns) -> tuple[Failure, ...]:
    """The sends and connects across a partition that ended in an error while it was in force, by time."""
    known = set(nodes)
    if not cuts:
        return ()
    first_ns, last_ns = min(cut.begun_ns for cut in cuts), max(cut.ended_ns for cut in cuts)
    rows = columns.find(*_SENDS)
    failed = (columns.error[rows] > 0) & ~np.isin(columns.error[rows], [columns.id_of(error) for error in _TRY_AGAIN])
    rows = rows[failed & (columns.t[rows] >= first_ns) & (columns.t[rows] <= last_ns)]
    found: list[Failure] = []
    for event in columns.events(rows):
        receiver = point_of(event).peer
        if receiver in known and any(_stopped(cut, event, receiver) for cut in cuts):
            found.append(Failure(event.node, receiver, event.op, function_of(event.loc), event.error, event.t_ns))
            if len(found) == FAILURES_MAX:
                break
    return tuple(found)


def _stopped(cut: Cut, event: Event, receiver: str) -> bool:
    ends_it = cut.end is not None and (cut.end.node, cut.end.pid, cut.end.seq) == (event.node, event.pid, event.seq)
    return cut.begun_ns <= event.t_ns <= cut.ended_ns and not ends_it and cut.crosses(event.node, receiver)


def function_of(loc: str) -> str:
    """`app.gossip:Gossip._ask#1` without the number of the call."""
    name, _, number = loc.rpartition("#")
    return name if name and number.isdecimal() else loc


# --- values


def labels_of(plan: Plan) -> tuple[str, ...]:
    """The variables that the plan's triggers name, without their nodes: `status[s3]`."""
    named = [name for step in plan.steps for name in (*variables_named(step.trigger), *variables_named(step.until))]
    return tuple(dict.fromkeys(name.partition(".")[2] for name in named))


def values_of(record: RunRecord, columns: Columns, end_ns: int) -> tuple[Value, ...]:
    """The values over time of the variables that the plan names, on all nodes that have them. The latest ones if there are too
    many."""
    labels = labels_of(record.plan)[:LABELS_MAX]
    if not labels:
        return ()
    samples = samples_of(columns, ended=[(ended.node, ended.t_ns) for ended in record.exits])
    found: list[Value] = []
    for variable in samples.variables:
        if variable.label in labels:
            series = samples.series(variable)
            ends = [t for t, _ in series[1:]] + [end_ns]
            spans = zip(series, ends, strict=True)
            found += [
                Value(variable.node, variable.label, t, max(t, end), text) for (t, text), end in spans if text is not UNKNOWN
            ]
    return tuple(sorted(found, key=lambda value: value.t_ns)[-VALUES_MAX:])


# --- tables


@dataclass(frozen=True)
class ChangeRow:
    at: str
    node: str
    label: str
    before: str
    after: str
    when: str


@dataclass(frozen=True)
class FailedRow:
    sender: str
    receiver: str
    op: str
    function: str
    error: str
    times: int
    first: str
    last: str


@dataclass(frozen=True)
class PartitionPart:
    """The part of a finding's card about partitions. Texts are not escaped yet."""

    sentences: tuple[str, ...] = ()
    changes: tuple[ChangeRow, ...] = ()
    failed: tuple[FailedRow, ...] = ()
    changes_left_out: int = 0
    failed_left_out: int = 0


def partition_part(record: RunRecord, columns: Columns, origin_ns: int) -> PartitionPart | None:
    """The sentences and tables for a run; None if it had no partition."""
    cuts = cuts_of(record)
    if not cuts:
        return None
    failures = failures_of(cuts, [info.id for info in record.nodes], columns)
    last_ns = int(columns.t[-1]) if len(columns) else origin_ns
    values = values_of(record, columns, last_ns + 1)
    changes, failed = list(_change_rows(cuts, values, origin_ns)), list(_failed_rows(failures, origin_ns))
    return PartitionPart(
        tuple(story(record, cuts, failures, values, origin_ns)),
        tuple(changes[:ROWS_MAX]),
        tuple(failed[:ROWS_MAX]),
        max(0, len(changes) - ROWS_MAX),
        max(0, len(failed) - ROWS_MAX),
    )


def _change_rows(cuts: Sequence[Cut], values: Sequence[Value], origin_ns: int) -> Iterator[ChangeRow]:
    """For each variable the value that it had when the first partition began, and all later ones."""
    begun_ns, ended_ns = min(cut.begun_ns for cut in cuts), max(cut.ended_ns for cut in cuts)
    before: dict[tuple[str, str], str] = {}
    for value in values:  # by time
        key, text = (value.node, value.label), clip(value.words, 160)
        if value.until_ns > begun_ns:
            when = "before" if value.t_ns < begun_ns else "during" if value.t_ns <= ended_ns else "after"
            at = _since(value.t_ns, origin_ns)
            yield ChangeRow(at, value.node, clip(value.label, 80), before.get(key, ""), text, when)
        before[key] = text


def _failed_rows(failures: Sequence[Failure], origin_ns: int) -> Iterator[FailedRow]:
    by_kind: dict[tuple[str, str, str, str, str], list[int]] = {}
    for failure in failures:
        by_kind.setdefault(failure.kind, []).append(failure.t_ns)
    for (sender, receiver, op, function, error), times in sorted(by_kind.items(), key=lambda item: item[1][0]):
        first, last = _since(times[0], origin_ns), _since(times[-1], origin_ns)
        yield FailedRow(sender, receiver, op, clip(function, 200), clip(error, 80), len(times), first, last)


def _since(t_ns: int, origin_ns: int) -> str:
    return f"{(t_ns - origin_ns) / 1e9:.3f} s"


# --- sentences


def story(
    record: RunRecord, cuts: Sequence[Cut], failures: Sequence[Failure], values: Sequence[Value], origin_ns: int
) -> list[str]:
    """The partitions of a run in a few sentences."""
    said = []
    for cut in cuts:
        step = record.plan.steps[cut.step]
        said.append(f"{_began(cut, step, origin_ns)} {_failed(cut, failures)}The partition {end_of(record, cut)}.")
    end_ns = max((value.until_ns for value in values), default=0)
    last = sorted((value.node, value.label, value.words) for value in values if value.until_ns == end_ns)
    if cuts and last:
        said.append(f"At the end of the run, {_on_nodes(last)}.")
    return [clip(text, 900) for text in said]


def _began(cut: Cut, step: Step, origin_ns: int) -> str:
    others = _and(cut.fault.others) or "all other nodes"
    nodes = _and(cut.nodes)
    what = {
        "both": f"{nodes} {'were' if len(cut.nodes) > 1 else 'was'} cut off from {others}",
        "out": f"messages from {nodes} to {others} were stopped",
        "in": f"messages from {others} to {nodes} were stopped",
    }[cut.fault.direction]
    return f"At {(cut.begun_ns - origin_ns) / 1e9:.3f} s, {what}, {_state_at_begin(step.trigger)}."


def _state_at_begin(trigger: Trigger) -> str:
    if isinstance(trigger, When) and all(each.op == "==" and not each.other for each in trigger.state):
        known = [(*_halves(each.variable), ABSENT if each.value is None else each.value) for each in trigger.state]
        return f"while {_on_nodes(known)}"
    return describe_trigger(trigger)


def _failed(cut: Cut, failures: Sequence[Failure]) -> str:
    number = sum(cut.begun_ns <= one.t_ns <= cut.ended_ns and cut.crosses(one.sender, one.receiver) for one in failures)
    return f"{count(number, 'message or connection', 'messages and connections')} failed. " if number else ""


def end_of(record: RunRecord, cut: Cut) -> str:
    """`ended after 0.104 s, before s1 connected to s2 (gossip:Gossip._ask), while status[s3] was ∅ on s1 and NORMAL on s2`, or
    `lasted 0.518 s, until clients had finished`."""
    spent = f"{(cut.ended_ns - cut.begun_ns) / 1e9:.3f} s"
    until = record.plan.steps[cut.step].until
    if cut.end is not None and until is not None:
        return f"ended after {spent}, {_where(cut.end, until)}"
    return f"lasted {spent}, {UNTIL.get(record.heal_reason, 'until everything was healed')}"


def _where(moment: Moment, until: Trigger) -> str:
    point = moment.point
    did = f"{_DID.get(point.get('op'), point.get('op'))} {point.peer or point.get('target')}".rstrip()
    function = f" ({function_of(point.get('loc'))})" if point.get("loc") else ""
    state = _state_at_end(until, point.get("state"))
    return f"{place_of(until)} {moment.node} {did}{function}{f', while {state}' if state else ''}"


def _state_at_end(until: Trigger, text: str) -> str:
    parts = until.state if isinstance(until, FirstUnseen) else ()
    texts = text.split(", ")
    if not text or len(texts) != len(parts):  # a value may contain the separator
        return f"the state was {text}" if text else ""
    alone = [(*_halves(part[0]), one) for part, one in zip(parts, texts, strict=True) if len(part) == 1]
    pairs = [f"{part[0]} {one} {part[1]}" for part, one in zip(parts, texts, strict=True) if len(part) == 2]
    return " and ".join(filter(None, (_on_nodes(alone), *pairs)))


def _on_nodes(known: Iterable[tuple[str, str, str]]) -> str:
    """From (node, label, text): `status[s3] was NORMAL on s1 and LEFT on s3`."""
    by_label: dict[str, dict[str, list[str]]] = {}
    for node, label, text in known:
        by_label.setdefault(label, {}).setdefault(text, []).append(node)
    said = []
    for label, texts in by_label.items():
        parts = [f"{text} on {_and(sorted(nodes))}" for text, nodes in texts.items()]
        plain = all(len(nodes) == 1 for nodes in texts.values())
        said.append(f"{label} was {_and(parts) if plain else ', '.join(parts)}")
    return " and ".join(said)


def _halves(name: str) -> tuple[str, str]:
    node, _, label = name.partition(".")
    return node, label


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
