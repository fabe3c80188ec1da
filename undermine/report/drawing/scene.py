"""The scene of one run: when its nodes lived, the client operations that matter, and where the fault fired. Never
draws.

`timeline` and `spacetime` draw the same scene. All times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from undermine.model.columns import Columns
from undermine.model.faults import Injection, fault_kind, restart_after_s, row_of, short_fault
from undermine.model.plan import Plan, final_at
from undermine.model.point import Point
from undermine.model.run import END, PENDING, Op, Receipt, RunRecord, RunView
from undermine.report.partitions import Cut, Failure, Value, cuts_of, failures_of, values_of

OPS_MAX = 60
DEATHS_MAX = 8
HEALTH_MAX = 40
NODES_MAX = 24
COLOURS = 6
_LEAD_NS = 150_000_000


@dataclass(frozen=True)
class Life:
    """One incarnation of a node, from its start to its end."""

    node: str
    incarnation: int
    start_ns: int
    end_ns: int
    end: str = ""
    """How it ended, in words; empty if it lived until the end of the run."""
    expected: bool = True
    start_known: bool = True
    """False if the start was not recorded and follows from the plan."""
    unready: str = ""
    """Why it did not serve again after healing."""


@dataclass(frozen=True)
class Mark:
    """An injected fault, or its end. `until_ns` is later than `t_ns` if the fault lasted."""

    node: str
    step: int
    t_ns: int
    until_ns: int
    label: str
    detail: str
    action: str


@dataclass(frozen=True)
class Death:
    """A thread or task that died."""

    node: str
    t_ns: int
    text: str


@dataclass(frozen=True)
class Health:
    """A node's answer to a health check; empty means healthy."""

    node: str
    t_ns: int
    answer: str


@dataclass(frozen=True)
class Scene:
    """Everything that is drawn. `origin_ns` and `end_ns` are the start and end of the run; `from_ns` and `to_ns` limit
    the visible part."""

    origin_ns: int
    end_ns: int
    from_ns: int
    to_ns: int
    nodes: tuple[str, ...]
    nodes_left_out: int
    lives: tuple[Life, ...]
    ops: tuple[Op, ...]
    ops_total: int
    marks: tuple[Mark, ...]
    deaths: tuple[Death, ...]
    healed_ns: int
    health: tuple[Health, ...] = ()
    stalled_ns: int = 0
    cuts: tuple[Cut, ...] = ()
    failures: tuple[Failure, ...] = ()
    values: tuple[Value, ...] = ()

    def labels(self, node: str) -> tuple[str, ...]:
        """The variables of a node whose values are drawn."""
        return tuple(dict.fromkeys(value.label for value in self.values if value.node == node))

    @property
    def colours(self) -> dict[str, int]:
        """The number of each value's colour, so that equal values look alike on all nodes. An absent one has none."""
        texts = dict.fromkeys(value.text for value in self.values if value.text is not None)
        return {text: number % COLOURS for number, text in enumerate(texts)}


def origin_of(record: RunRecord, history: Sequence[Op]) -> int:
    """The start of the run: as recorded, else the first recorded time; 0 if there is none."""
    if record.started_ns > 0:
        return record.started_ns
    seen = [e.started_ns for e in record.exits] + [op.start_ns for op in history]
    seen = [t for t in seen if t > 0] or [r.begun_ns for r in record.receipts if r.begun_ns > 0]
    return min(seen, default=0)


def scene_of(view: RunView, columns: Columns, ops_max: int = OPS_MAX) -> Scene | None:
    """The scene of a run with these events; None if it recorded nothing with a time."""
    record = view.record
    origin_ns = origin_of(record, view.history)
    if not origin_ns:
        return None
    end_ns = _end_of(record, view.history, origin_ns)
    nodes = _nodes_of(record)
    shown = nodes[:NODES_MAX]
    first_seen = _first_seen(columns, origin_ns, end_ns)
    cuts = cuts_of(record)
    whole = Scene(
        origin_ns=origin_ns,
        end_ns=end_ns,
        from_ns=origin_ns,
        to_ns=end_ns,
        nodes=shown,
        nodes_left_out=len(nodes) - len(shown),
        lives=tuple(life for node in shown for life in _lives(node, record, first_seen, origin_ns, end_ns)),
        ops=view.history,
        ops_total=len(view.history),
        marks=tuple(_marks(record)),
        deaths=tuple(_deaths(columns, set(shown), origin_ns, end_ns)),
        healed_ns=record.healed_ns,
        health=tuple(health for node in shown for health in _health(node, record, origin_ns, end_ns)),
        stalled_ns=record.stalled_ns if origin_ns < record.stalled_ns < end_ns else 0,
        cuts=cuts,
        failures=tuple(f for f in failures_of(cuts, shown, columns) if f.sender in shown),
        values=tuple(value for value in values_of(record, columns, end_ns) if value.node in shown),
    )
    return with_ops(whole, view.history, ops_max)


def with_ops(scene: Scene, history: Sequence[Op], ops_max: int) -> Scene:
    """A copy with the client operations that matter most, limited to the time of these operations and the fault."""
    ops = _choose(history, [mark.t_ns for mark in scene.marks if mark.action != END], ops_max)
    moments = [t for op in ops for t in (op.start_ns, op.end_ns) if t > 0]
    moments += [t for mark in scene.marks for t in (mark.t_ns, mark.until_ns)]
    moments += [life.end_ns for life in scene.lives if life.end]
    moments += [life.start_ns for life in scene.lives if life.incarnation > 1]
    moments += [scene.healed_ns] if scene.healed_ns else []
    first, last = scene.origin_ns, scene.end_ns
    inside = [min(max(t, first), last) for t in moments] or [first, last]
    pad_ns = _LEAD_NS + (max(inside) - min(inside)) // 30
    return replace(scene, ops=ops, from_ns=max(first, min(inside) - pad_ns), to_ns=max(inside) + pad_ns)


def _end_of(record: RunRecord, history: Sequence[Op], origin_ns: int) -> int:
    """The end of the run, by the tool's own times. Times from receipts count only if there are no others."""
    ends = [op.end_ns for op in history] + [op.start_ns for op in history] + [e.t_ns for e in record.exits]
    if record.healed_ns:
        ends.append(record.healed_ns + int(record.timing.settle_s * 1e9))
    own = [t for t in ends if t >= origin_ns]
    return max(own or [r.t_ns for r in record.receipts], default=origin_ns) + 1_000_000


def _marks(record: RunRecord) -> Iterator[Mark]:
    """The faults that took effect, and their ends."""
    for receipt in (receipt for receipt in record.receipts if receipt.action != PENDING):
        label = _label(record.plan, receipt)
        until_ns = max(receipt.t_ns, _lasts_until(record, receipt))
        yield Mark(receipt.node, receipt.step, receipt.begun_ns, until_ns, label, receipt.detail, receipt.action)


def _lasts_until(record: RunRecord, receipt: Receipt) -> int:
    """The end of a lasting fault whose receipt has no duration: the end of its step, else healing. 0 if the fault
    doesn't last."""
    if not receipt.proves or receipt.held_ns > 0 or not 0 <= receipt.step < len(record.plan.steps):
        return 0
    step = record.plan.steps[receipt.step]
    at = final_at(step.trigger)
    if not row_of(step.fault).lasts(step.fault, at.point if at else Point(())):
        return 0
    ends = [r.t_ns for r in record.receipts if r.step == receipt.step and r.action == END]
    return min(ends, default=record.healed_ns)


def _health(node: str, record: RunRecord, origin_ns: int, end_ns: int) -> Iterator[Health]:
    """A sample of a node's answers, evenly spread; changes are always included."""
    said = [s for s in record.health if s.node == node and origin_ns <= s.t_ns <= end_ns]
    every = -(-len(said) // HEALTH_MAX) or 1
    for number, sample in enumerate(said):
        if number % every == 0 or bool(sample.answer) != bool(said[number - 1].answer):
            yield Health(node, sample.t_ns, sample.answer)


def _label(plan: Plan, receipt: Receipt) -> str:
    known = 0 <= receipt.step < len(plan.steps)
    if not receipt.proves:
        return f"end of the {fault_kind(plan.steps[receipt.step].fault)}" if known else f"end of step {receipt.step + 1}"
    if known:
        return label_of(plan.steps[receipt.step].fault, receipt)
    return receipt.action


def label_of(fault: Injection, receipt: Receipt) -> str:
    """The fault in short words; without its planned time if the receipt has the real one."""
    return fault_kind(fault) if receipt.held_ns > 0 and row_of(fault).untimed else short_fault(fault)


def _choose(history: Sequence[Op], struck: Sequence[int], ops_max: int) -> tuple[Op, ...]:
    """The operations to draw: half of the room for those nearest to the fault, the rest for those that did not
    succeed."""
    known = [op for op in history if op.start_ns > 0]
    if len(known) <= ops_max:
        return tuple(known)
    wrong = [op for op in known if op.status != "ok"]
    centre = min(struck) if struck else min((wrong or known), key=lambda op: op.start_ns).start_ns
    nearest = sorted(known, key=lambda op: _distance(op, centre))
    chosen = {op.index: op for op in nearest[: ops_max // 2]}
    for op in (*sorted(wrong, key=lambda op: _distance(op, centre)), *nearest):
        if len(chosen) >= ops_max:
            break
        chosen.setdefault(op.index, op)
    return tuple(sorted(chosen.values(), key=lambda op: (op.start_ns, op.index)))


def _distance(op: Op, t_ns: int) -> int:
    if op.end_ns and op.end_ns < t_ns:
        return t_ns - op.end_ns
    return max(0, op.start_ns - t_ns)


def _nodes_of(record: RunRecord) -> tuple[str, ...]:
    names = [info.id for info in record.nodes]
    names += [e.node for e in record.exits] + [r.node for r in record.receipts if r.proves]
    return tuple(dict.fromkeys(names))


def _first_seen(columns: Columns, origin_ns: int, end_ns: int) -> dict[tuple[str, int], int]:
    """The time of the first event of each incarnation of a node."""
    inside = np.flatnonzero((columns.t >= origin_ns) & (columns.t <= end_ns))
    numbers, firsts = np.unique(columns.process[inside], return_index=True)
    found: dict[tuple[str, int], int] = {}
    for number, first in zip(numbers.tolist(), firsts.tolist(), strict=True):
        process = columns.processes[number]
        t_ns = int(columns.t[inside[first]])
        found[process.node, process.incarnation] = min(t_ns, found.get((process.node, process.incarnation), t_ns))
    return found


def _lives(
    node: str, record: RunRecord, first_seen: Mapping[tuple[str, int], int], origin_ns: int, end_ns: int
) -> Iterator[Life]:
    exits = sorted((e for e in record.exits if e.node == node), key=lambda e: e.incarnation)
    for ended in exits:
        how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        yield Life(node, ended.incarnation, ended.started_ns or origin_ns, ended.t_ns, how, ended.expected)
    unready = record.settling.unready.get(node, "")
    if not exits:
        yield Life(node, 1, origin_ns, end_ns, start_known=False, unready=unready)
        return
    last = exits[-1]
    start_ns = first_seen.get((node, last.incarnation + 1), 0)
    known = bool(start_ns)
    if not start_ns and last.t_ns < record.healed_ns:
        start_ns = min(record.healed_ns, last.t_ns + _reboot_after_ns(node, record))
    if start_ns:
        yield Life(node, last.incarnation + 1, start_ns, end_ns, start_known=known, unready=unready)


def _reboot_after_ns(node: str, record: RunRecord) -> int:
    """The delay after which the plan starts the node again; a huge number if the plan doesn't."""
    steps = {r.step for r in record.receipts if r.node == node and 0 <= r.step < len(record.plan.steps)}
    waits = [s for step in steps if (s := restart_after_s(record.plan.steps[step].fault)) is not None]
    return int(min(waits) * 1e9) if waits else 1 << 62


def _deaths(columns: Columns, nodes: set[str], origin_ns: int, end_ns: int) -> Iterator[Death]:
    left = DEATHS_MAX
    for event in columns.events(columns.find("thread.die", "task.die")):
        if event.node in nodes and origin_ns <= event.t_ns <= end_ns:
            yield Death(event.node, event.t_ns, f"a {event.kind} died with {event.target}: {event.resource}")
            left -= 1
            if not left:
                return
