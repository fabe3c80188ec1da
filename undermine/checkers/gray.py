"""Gray failures: clients get no answer while every node that they depend on says that it is well.

Only faults that leave all nodes running are judged: a slow, failed or lost operation, and the control without a fault. Such
a fault has at most one direct victim, the client on whose behalf the operation was done. It may wait as long as the fault
lasts, and so may its next requests, in line behind. So one client that waits says nothing. Two do, if from then on no
operation of that kind was answered, whoever asked: an outage, not a slow answer; or if they are the ones left behind when
the workload came to a halt, others having been served. It is gray if no node admits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from undermine.checkers.base import BuiltinChecker
from undermine.checkers.stuck import stuck_because, stuck_lines
from undermine.model.faults import describe_fault, restart_after_s, row_of
from undermine.model.run import END, HealthSample, Op, Rank, RunView, Verdict

SLOWER_MAX = 3.0
"""An operation that takes no more than so many times as long as the slowest one without a fault is as usual."""
_SHOWN_MAX = 8


class Window(msgspec.Struct, frozen=True):
    """A time in which nothing but partial faults was in force."""

    step: int
    begin_ns: int
    end_ns: int

    def waited_ns(self, op: Op) -> int:
        """How long the operation was open within this time."""
        return min(op.end_ns or self.end_ns, self.end_ns) - max(op.start_ns, self.begin_ns)

    def ended(self, op: Op) -> bool:
        return op.status != "pending" and op.end_ns <= self.end_ns


class Outage(msgspec.Struct, frozen=True):
    """Operations of several clients that nobody answered; `since_ns` is when the second client began to wait."""

    window: Window
    since_ns: int
    sufferers: tuple[Op, ...]

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(sorted({op.client for op in self.sufferers}))


class Gray(BuiltinChecker):
    """No partial fault may take an operation away from several clients while all nodes concerned say they are healthy."""

    name = "gray"
    rank = Rank.GRAY
    summary = "under a fault that leaves all nodes running, several clients get no answer and no node admits it"

    def check(self, run: RunView) -> Verdict:
        outages = [outage for window in windows(run) if (outage := self._outage(run, window))]
        verdicts = [_judge(run, outage) for outage in outages]
        telling = sorted(verdicts, key=lambda verdict: (verdict.answer != "fail", not verdict.text))
        return telling[0] if telling else Verdict.ok()

    def _outage(self, run: RunView, window: Window) -> Outage | None:
        """The operations that two or more clients were denied in this time, if so."""
        ops = [op for op in run.history if op.phase == "workload"]
        waiting = [op for op in ops if self._suffers(run, window, op)]
        denied = {kind for kind in set(map(_kind, waiting)) if not self._goes_on(run, window, kind, ops)}
        left = _left_behind(run, window, waiting)
        sufferers = tuple(op for op in waiting if _kind(op) in denied or op.index in left)
        if len({op.client for op in sufferers}) < 2:
            return None
        return Outage(window, _since_ns(window, sufferers), sufferers)

    def _goes_on(self, run: RunView, window: Window, kind: tuple[str, str], ops: Sequence[Op]) -> bool:
        """Was an operation of this kind served that began after those that were not, while the fault lasted?"""
        same = [op for op in ops if _kind(op) == kind]
        since_ns = _since_ns(window, [op for op in same if self._suffers(run, window, op)])
        return any(self._served(run, window, op) for op in same if since_ns < op.start_ns < window.end_ns)

    def _served(self, run: RunView, window: Window, op: Op) -> bool:
        """A late answer is one too, and so is a refusal that comes soon."""
        if not window.ended(op):
            return False
        return op.status == "ok" or (op.status == "fail" and window.waited_ns(op) < self._patience_ns(run, op))

    def _suffers(self, run: RunView, window: Window, op: Op) -> bool:
        """It waited long, and had no answer, or none but a failure."""
        answered = window.ended(op) and op.status == "ok"
        return not answered and window.waited_ns(op) >= self._patience_ns(run, op)

    def _patience_ns(self, run: RunView, op: Op) -> int:
        return int(1e9 * max(self._settings.gray_s, SLOWER_MAX * run.baseline.slowest_s.get(op.f, 0.0)))


def _since_ns(window: Window, sufferers: Sequence[Op]) -> int:
    """When the second client began to wait: the first may be the victim. If there is but one, when that one did."""
    first: dict[str, int] = {}
    for op in sorted(sufferers, key=lambda op: op.start_ns):
        first.setdefault(op.client, max(op.start_ns, window.begin_ns))
    return sorted(first.values())[:2][-1]


def _kind(op: Op) -> tuple[str, str]:
    return op.node, op.f


def _left_behind(run: RunView, window: Window, waiting: Sequence[Op]) -> set[int]:
    """What several clients were still waiting for when the workload came to a halt, though others were served meanwhile,
    perhaps with the same kind of operation: those may use another part of the data."""
    stalled_ns = run.record.stalled_ns
    if not window.begin_ns <= stalled_ns <= window.end_ns:
        return set()
    open_ones = [op for op in waiting if op.status == "pending" or op.end_ns > stalled_ns]
    stuck = {op.client for op in open_ones}
    if len(stuck) < 2:
        return set()
    since_ns = _since_ns(window, open_ones)
    others = [op for op in run.history if op.client not in stuck and op.status == "ok" and op.start_ns > since_ns]
    return {op.index for op in open_ones} if any(op.end_ns <= stalled_ns for op in others) else set()


# --- when


def windows(run: RunView) -> list[Window]:
    """When partial faults were in force, without the times in which nodes were dead, frozen or cut off."""
    excused = list(_excused(run))
    found = []
    for step, planned in enumerate(run.plan.steps):
        begin_ns = _begin_ns(run, step)
        if begin_ns and row_of(planned.fault).excused == "one client":
            found += _without(Window(step, begin_ns, _end_ns(run, step)), excused)
    return found


def _begin_ns(run: RunView, step: int) -> int:
    """When the fault hit; 0 if it never did."""
    times = [moment.t_ns for moment in run.record.moments if moment.step == step]
    times += [receipt.begun_ns for receipt in run.receipts if receipt.step == step and receipt.proves]
    return min(times, default=0)


def _end_ns(run: RunView, step: int) -> int:
    """When the step's fault was over: at its own end, at its `until`, or when all was healed.

    Once a workload has stalled it is healed: what is answered from then on may owe it to that.
    """
    over_ns = run.record.stalled_ns or run.record.healed_ns
    ends = [r.t_ns for r in run.receipts if r.step == step and r.action == END]
    row = row_of(run.plan.steps[step].fault)
    if row.duration and not row.kills:  # then the receipt is written when it ends
        ends += [r.t_ns for r in run.receipts if r.step == step and r.proves]
    return min([*ends, over_ns])


def _excused(run: RunView) -> Iterable[tuple[int, int]]:
    """Times in which operations may stay open, as the table of `allowed` says: until the nodes serve again."""
    healed_ns = run.record.healed_ns
    recovery_ns = int(1e9 * run.baseline.recovery_s) or healed_ns
    for step, planned in enumerate(run.plan.steps):
        begin_ns = _begin_ns(run, step)
        if begin_ns and row_of(planned.fault).excused == "all clients":
            over_ns = _end_ns(run, step)
            if (down_s := restart_after_s(planned.fault)) is not None:
                over_ns = begin_ns + int(1e9 * down_s)
            yield begin_ns, min(over_ns + recovery_ns, healed_ns)
    yield from ((e.t_ns, healed_ns) for e in run.record.exits if not e.expected and e.t_ns < healed_ns)


def _without(window: Window, excused: Iterable[tuple[int, int]]) -> list[Window]:
    """What is left of a time when others are taken out of it."""
    left = [window]
    for begin_ns, end_ns in excused:
        pieces = []
        for piece in left:
            pieces.append(Window(piece.step, piece.begin_ns, min(piece.end_ns, begin_ns)))
            pieces.append(Window(piece.step, max(piece.begin_ns, end_ns), piece.end_ns))
        left = pieces
    return [piece for piece in left if piece.begin_ns < piece.end_ns]


# --- what the nodes said


def _judge(run: RunView, outage: Outage) -> Verdict:
    """An outage is a gray failure if all nodes concerned said they were well, or if others went on and nobody spoke."""
    nodes = _concerned(run, outage.sufferers)
    samples = [
        sample
        for sample in run.record.health
        if sample.node in nodes and outage.since_ns <= sample.t_ns <= outage.window.end_ns
    ]
    unwell = [sample for sample in samples if sample.answer]
    if unwell:
        return Verdict.ok(f"{_whose(outage)}, and {unwell[0].node} said so: {unwell[0].answer[:200]}")
    if {sample.node for sample in samples} == set(nodes):
        return _failure(run, outage, samples, _say_healthy(run, nodes))
    if _others_went_on(run, outage):
        return _failure(run, outage, samples, _OTHERS)
    return Verdict.ok(f"{_whose(outage)}; whether the nodes noticed is not known, since not all of them were asked")


def _concerned(run: RunView, sufferers: Iterable[Op]) -> tuple[str, ...]:
    """The nodes that the operations were sent to; all, where clients choose by themselves."""
    bound = {op.node for op in sufferers}
    return run.nodes if not bound <= set(run.nodes) else tuple(node for node in run.nodes if node in bound)


def _others_went_on(run: RunView, outage: Outage) -> bool:
    """The workload came to a halt since some clients waited, when others had been served meanwhile."""
    stalled_ns = run.record.stalled_ns
    if not outage.window.begin_ns <= stalled_ns <= outage.window.end_ns:
        return False
    stuck = {op.client for op in outage.sufferers if op.status == "pending" or op.end_ns > stalled_ns}
    served = {op.client for op in run.history if op.status == "ok" and outage.since_ns < op.end_ns <= stalled_ns}
    return len(stuck) > 1 and bool(served - set(outage.clients))


def _whose(outage: Outage) -> str:
    return f"{len(outage.clients)} clients had no answer to {', '.join(sorted({op.f for op in outage.sufferers}))}"


def _say_healthy(run: RunView, nodes: Sequence[str]) -> str:
    roles = sorted({run.role(node) for node in nodes})
    if len(nodes) == len(run.nodes) > 1:
        return "while all nodes say they are healthy"
    return f"while {roles[0]} says it is healthy" if len(roles) == 1 else "while the nodes say they are healthy"


# --- how it is told

_OTHERS = "while other clients are served"


def _failure(run: RunView, outage: Outage, samples: Sequence[HealthSample], how: str) -> Verdict:
    """Which operations hang at which nodes, and where threads are stuck, is in the text alone: in a wait that ends it
    differs from run to run who is stuck already."""
    because = stuck_because(run.record.stacks)
    longest_s = max(outage.window.waited_ns(op) for op in outage.sufferers) / 1e9
    return Verdict.fail(
        f"{_whose(outage)} for up to {longest_s:.1f} s{f', {because}' if because else ''}, {how}; "
        f"all that was wrong: {_fault(run, outage.window)}",
        symptom=f"clients hang while {'other clients are served' if how == _OTHERS else 'nodes say that they are well'}",
        evidence=[
            f"{_fault(run, outage.window)} at {_at(run, outage.window)}",
            *(_sufferer(op, outage.window) for op in outage.sufferers[:_SHOWN_MAX]),
            *_answers(samples, outage.window),
            *stuck_lines(run.record.stacks),
        ],
    )


def _fault(run: RunView, window: Window) -> str:
    return describe_fault(run.plan.steps[window.step].fault)


def _at(run: RunView, window: Window) -> str:
    """The operation that the fault hit."""
    for moment in run.record.moments:
        if moment.step == window.step:
            return f"{moment.point} ({moment.node})"
    return ", ".join(r.node for r in run.receipts if r.step == window.step and r.proves)


def _sufferer(op: Op, window: Window) -> str:
    where = f" at {op.node}" if op.node else ""
    began_s = (op.start_ns - window.begin_ns) / 1e9
    how = f"{op.status} after" if window.ended(op) else "no answer for"
    return f"{op.client}: {op.f}{where} began {began_s:+.2f} s from the fault, {how} {window.waited_ns(op) / 1e9:.2f} s"


def _answers(samples: Sequence[HealthSample], window: Window) -> Iterable[str]:
    """When each node said it was well."""
    for node in dict.fromkeys(sample.node for sample in samples):
        times = [(sample.t_ns - window.begin_ns) / 1e9 for sample in samples if sample.node == node]
        shown = ", ".join(f"{t:+.2f}" for t in times[:_SHOWN_MAX])
        more = ", …" if len(times) > _SHOWN_MAX else ""
        yield f"{node} said that it was healthy: {shown}{more} s from the fault"
