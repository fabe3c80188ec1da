"""Gray failures: clients get no answer while every node that they depend on says it is healthy.

Only faults that leave all nodes running are judged: a slow, failed or lost operation, and the control without a fault. Such
a fault has at most one direct victim: the client for which the operation was done. That client may wait as long as the fault
lasts, and so may its next requests, which queue behind. So one waiting client proves nothing. Two waiting clients are an outage
if no client gets an answer to that kind of operation from then on, or if the workload stalls while other clients are served.
An outage is gray if no node admits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from undermine.checkers.base import BuiltinChecker
from undermine.checkers.blocked_threads import blocked_because, thread_lines
from undermine.model.faults import describe_fault, restart_after_s, row_of
from undermine.model.run import END, HealthSample, Op, Rank, RunView, Verdict

SLOWER_MAX = 3.0
"""Up to this many times the slowest duration without a fault, an operation counts as normal."""
_SHOWN_MAX = 8


class Window(msgspec.Struct, frozen=True):
    """A period in which only partial faults were in force."""

    step: int
    begin_ns: int
    end_ns: int

    def waited_ns(self, op: Op) -> int:
        """How long the operation was open within this window."""
        return min(op.end_ns or self.end_ns, self.end_ns) - max(op.start_ns, self.begin_ns)

    def ended(self, op: Op) -> bool:
        return op.status != "pending" and op.end_ns <= self.end_ns


class Outage(msgspec.Struct, frozen=True):
    """Unanswered operations of several clients; `since_ns` is when the second client began to wait."""

    window: Window
    since_ns: int
    sufferers: tuple[Op, ...]

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(sorted({op.client for op in self.sufferers}))


class Gray(BuiltinChecker):
    """A partial fault must not deny an operation to several clients while the nodes concerned say they are healthy."""

    name = "gray"
    rank = Rank.GRAY
    summary = "under a fault that leaves all nodes running, several clients get no answer and no node admits it"

    def check(self, run: RunView) -> Verdict:
        outages = [outage for window in windows(run) if (outage := self._outage(run, window))]
        verdicts = [_judge(run, outage) for outage in outages]
        telling = sorted(verdicts, key=lambda verdict: (verdict.answer != "fail", not verdict.text))
        return telling[0] if telling else Verdict.ok()

    def _outage(self, run: RunView, window: Window) -> Outage | None:
        """The operations that two or more clients were denied in this window; None if there are none."""
        ops = [op for op in run.history if op.phase == "workload"]
        waiting = [op for op in ops if self._suffers(run, window, op)]
        denied = {kind for kind in set(map(_kind, waiting)) if not self._goes_on(run, window, kind, ops)}
        left = _left_behind(run, window, waiting)
        sufferers = tuple(op for op in waiting if _kind(op) in denied or op.index in left)
        if len({op.client for op in sufferers}) < 2:
            return None
        return Outage(window, _since_ns(window, sufferers), sufferers)

    def _goes_on(self, run: RunView, window: Window, kind: tuple[str, str], ops: Sequence[Op]) -> bool:
        """Was an operation of this kind served that began, during the fault, after the unanswered ones?"""
        same = [op for op in ops if _kind(op) == kind]
        since_ns = _since_ns(window, [op for op in same if self._suffers(run, window, op)])
        return any(self._served(run, window, op) for op in same if since_ns < op.start_ns < window.end_ns)

    def _served(self, run: RunView, window: Window, op: Op) -> bool:
        """A late answer counts, and so does a quick refusal."""
        if not window.ended(op):
            return False
        return op.status == "ok" or (op.status == "fail" and window.waited_ns(op) < self._patience_ns(run, op))

    def _suffers(self, run: RunView, window: Window, op: Op) -> bool:
        """Did the operation wait long and get no answer, or only a failure?"""
        answered = window.ended(op) and op.status == "ok"
        return not answered and window.waited_ns(op) >= self._patience_ns(run, op)

    def _patience_ns(self, run: RunView, op: Op) -> int:
        return int(1e9 * max(self._settings.gray_s, SLOWER_MAX * run.baseline.slowest_s.get(op.f, 0.0)))


def _since_ns(window: Window, sufferers: Sequence[Op]) -> int:
    """When the second client began to wait, since the first may be the direct victim; with one client, when it began."""
    first: dict[str, int] = {}
    for op in sorted(sufferers, key=lambda op: op.start_ns):
        first.setdefault(op.client, max(op.start_ns, window.begin_ns))
    return sorted(first.values())[:2][-1]


def _kind(op: Op) -> tuple[str, str]:
    return op.node, op.f


def _left_behind(run: RunView, window: Window, waiting: Sequence[Op]) -> set[int]:
    """The operations that several clients still waited for when the workload stalled, although other clients were served.

    The others may have been served with the same kind of operation: they may use another part of the data.
    """
    stalled_ns = run.record.stalled_ns
    if not window.begin_ns <= stalled_ns <= window.end_ns:
        return set()
    open_ones = [op for op in waiting if op.status == "pending" or op.end_ns > stalled_ns]
    waiting_clients = {op.client for op in open_ones}
    if len(waiting_clients) < 2:
        return set()
    since_ns = _since_ns(window, open_ones)
    others = [op for op in run.history if op.client not in waiting_clients and op.status == "ok" and op.start_ns > since_ns]
    return {op.index for op in open_ones} if any(op.end_ns <= stalled_ns for op in others) else set()


# --- when


def windows(run: RunView) -> list[Window]:
    """The periods of partial faults, without those in which nodes were dead, frozen or cut off."""
    excused = list(_excused(run))
    found = []
    for step, planned in enumerate(run.plan.steps):
        begin_ns = _begin_ns(run, step)
        if begin_ns and row_of(planned.fault).excused == "one client":
            found += _without(Window(step, begin_ns, _end_ns(run, step)), excused)
    return found


def _begin_ns(run: RunView, step: int) -> int:
    """When the fault began; 0 if it never did."""
    times = [moment.t_ns for moment in run.record.moments if moment.step == step]
    times += [receipt.begun_ns for receipt in run.receipts if receipt.step == step and receipt.proves]
    return min(times, default=0)


def _end_ns(run: RunView, step: int) -> int:
    """When the step's fault ended: by itself, at its `until`, or when everything was healed.

    A stalled workload is healed, so later answers may be due to the healing.
    """
    over_ns = run.record.stalled_ns or run.record.healed_ns
    ends = [r.t_ns for r in run.receipts if r.step == step and r.action == END]
    row = row_of(run.plan.steps[step].fault)
    if row.duration and not row.kills:  # then the receipt is written when it ends
        ends += [r.t_ns for r in run.receipts if r.step == step and r.proves]
    return min([*ends, over_ns])


def _excused(run: RunView) -> Iterable[tuple[int, int]]:
    """Periods in which operations may stay open by the table in `allowed`: until the nodes serve again."""
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
    """The parts of the window that lie outside all excused periods."""
    left = [window]
    for begin_ns, end_ns in excused:
        pieces = []
        for piece in left:
            pieces.append(Window(piece.step, piece.begin_ns, min(piece.end_ns, begin_ns)))
            pieces.append(Window(piece.step, max(piece.begin_ns, end_ns), piece.end_ns))
        left = pieces
    return [piece for piece in left if piece.begin_ns < piece.end_ns]


# --- the nodes' own reports


def _judge(run: RunView, outage: Outage) -> Verdict:
    """Fail if all nodes concerned said they were healthy, or if other clients were served and no node was asked."""
    nodes = _concerned(run, outage.sufferers)
    samples = [
        sample
        for sample in run.record.health
        if sample.node in nodes and outage.since_ns <= sample.t_ns <= outage.window.end_ns
    ]
    unwell = [sample for sample in samples if sample.answer]
    if unwell:
        return Verdict.ok(f"{_whose(outage)}, and {unwell[0].node} reported it: {unwell[0].answer[:200]}")
    if {sample.node for sample in samples} == set(nodes):
        return _failure(run, outage, samples, _say_healthy(run, nodes))
    if _others_went_on(run, outage):
        return _failure(run, outage, samples, _OTHERS)
    return Verdict.ok(f"{_whose(outage)}; it is unknown whether the nodes noticed, since not all of them were asked")


def _concerned(run: RunView, sufferers: Iterable[Op]) -> tuple[str, ...]:
    """The nodes that the operations were sent to; all nodes if clients choose by themselves."""
    bound = {op.node for op in sufferers}
    return run.nodes if not bound <= set(run.nodes) else tuple(node for node in run.nodes if node in bound)


def _others_went_on(run: RunView, outage: Outage) -> bool:
    """Did the workload stall on waiting clients although other clients had been served meanwhile?"""
    stalled_ns = run.record.stalled_ns
    if not outage.window.begin_ns <= stalled_ns <= outage.window.end_ns:
        return False
    waiting_clients = {op.client for op in outage.sufferers if op.status == "pending" or op.end_ns > stalled_ns}
    served = {op.client for op in run.history if op.status == "ok" and outage.since_ns < op.end_ns <= stalled_ns}
    return len(waiting_clients) > 1 and bool(served - set(outage.clients))


def _whose(outage: Outage) -> str:
    return f"{len(outage.clients)} clients got no answer to {', '.join(sorted({op.f for op in outage.sufferers}))}"


def _say_healthy(run: RunView, nodes: Sequence[str]) -> str:
    roles = sorted({run.role(node) for node in nodes})
    if len(nodes) == len(run.nodes) > 1:
        return "while all nodes say they are healthy"
    return f"while {roles[0]} says it is healthy" if len(roles) == 1 else "while the nodes say they are healthy"


# --- texts

_OTHERS = "while other clients are served"


def _failure(run: RunView, outage: Outage, samples: Sequence[HealthSample], how: str) -> Verdict:
    """Operations, nodes and blocked threads are only in the text, not in the symptom: they differ from run to run."""
    because = blocked_because(run.record.stacks)
    longest_s = max(outage.window.waited_ns(op) for op in outage.sufferers) / 1e9
    return Verdict.fail(
        f"{_whose(outage)} for up to {longest_s:.1f} s{f', {because}' if because else ''}, {how}; "
        f"the only fault: {_fault(run, outage.window)}",
        symptom=f"clients hang while {'other clients are served' if how == _OTHERS else 'nodes say they are healthy'}",
        evidence=[
            f"{_fault(run, outage.window)} at {_at(run, outage.window)}",
            *(_sufferer(op, outage.window) for op in outage.sufferers[:_SHOWN_MAX]),
            *_answers(samples, outage.window),
            *thread_lines(run.record.stacks),
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
    """The times at which each node said it was healthy."""
    for node in dict.fromkeys(sample.node for sample in samples):
        times = [(sample.t_ns - window.begin_ns) / 1e9 for sample in samples if sample.node == node]
        shown = ", ".join(f"{t:+.2f}" for t in times[:_SHOWN_MAX])
        more = ", …" if len(times) > _SHOWN_MAX else ""
        yield f"{node} said it was healthy at {shown}{more} s from the fault"
