"""Gray failures: clients get no answer, or only errors, while the nodes that they depend on say they are healthy.

Only faults that leave all nodes running are judged: a slow, failed or lost operation, and the control without a fault. Such
a fault has at most one direct victim: the client for which the operation was done. That client may wait as long as the fault
lasts, and so may its next requests, which queue behind. Two clients that get nothing are an outage. So is one client that is
bound to a node and cannot be the victim. It cannot be if none of its operations waited when the fault hit, or if that
operation succeeded while the fault was in force.

It is an outage only if no client gets an answer to that kind of operation from then on, or if the workload stalls while other
clients are served. An outage is gray if no node concerned admits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from undermine.checkers.base import BuiltinChecker
from undermine.checkers.blocked_threads import blocked_because, thread_lines
from undermine.model.faults import duration_s, restart_after_s, row_of
from undermine.model.injected import operations_open
from undermine.model.plan import fault_words
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
        return self.end_of(op) - max(op.start_ns, self.begin_ns)

    def ended(self, op: Op) -> bool:
        return op.status != "pending" and op.end_ns <= self.end_ns

    def served(self, op: Op) -> bool:
        """Did the operation succeed within this window, however late? An error is not an answer, however quick."""
        return op.status == "ok" and self.ended(op)

    def clip_ns(self, t_ns: int) -> int:
        return min(max(t_ns, self.begin_ns), self.end_ns)

    def end_of(self, op: Op) -> int:
        """When the operation ended; the end of the window if it was still open then."""
        return op.end_ns if self.ended(op) else self.end_ns


class Outage(msgspec.Struct, frozen=True):
    """Operations that failed or got no answer; `since_ns` is when it was certain that somebody other than the victim waits.

    Clients may wait for `patience_ns`.
    """

    window: Window
    since_ns: int
    patience_ns: int
    sufferers: tuple[Op, ...]

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(sorted({op.client for op in self.sufferers}))

    @property
    def over_ns(self) -> int:
        """When the last of the operations ended."""
        return max(map(self.window.end_of, self.sufferers))


class Gray(BuiltinChecker):
    """A partial fault must not deny operations to clients other than its victim while the nodes say they are healthy."""

    name = "gray"
    rank = Rank.GRAY
    summary = "under a fault that leaves all nodes running, clients other than its victim get no answer and no node admits it"

    def check(self, run: RunView) -> Verdict:
        outages = [outage for window in windows(run) for outage in self._outages(run, window)]
        verdicts = [_judge(run, outage) for outage in outages]
        telling = sorted(verdicts, key=lambda verdict: (verdict.answer != "fail", not verdict.text))
        return telling[0] if telling else Verdict.ok()

    def _outages(self, run: RunView, window: Window) -> Iterable[Outage]:
        """The operations that were denied in this window: all of them, then those at each node, which may admit it or not."""
        sufferers = self._sufferers(run, window)
        nodes = {op.node for op in sufferers}
        groups = [[op for op in sufferers if op.node == node] for node in run.nodes if node in nodes]
        for group in (sufferers, *(groups if len(nodes) > 1 else ())):
            since_ns = _since_ns(run, window, group)
            if since_ns is not None:
                yield Outage(window, since_ns, max(self._patience_ns(run, op) for op in group), tuple(group))

    def _sufferers(self, run: RunView, window: Window) -> list[Op]:
        ops = [op for op in run.history if op.phase == "workload"]
        waiting = [op for op in ops if self._waits_in_vain(run, window, op)]
        denied = {kind for kind in set(map(_kind, waiting)) if not _goes_on(window, kind, waiting, ops)}
        left = _left_behind(run, window, waiting)
        refused = {op.index for spell in self._refusals(run, window, ops) for op in spell}
        waiting_in_vain = {op.index for op in waiting if _kind(op) in denied or op.index in left}
        return [op for op in ops if op.index in waiting_in_vain | refused]

    def _waits_in_vain(self, run: RunView, window: Window, op: Op) -> bool:
        """Did the operation wait long and get no answer, or only a failure?"""
        return not window.served(op) and window.waited_ns(op) >= self._patience_ns(run, op)

    def _refusals(self, run: RunView, window: Window, ops: Sequence[Op]) -> Iterable[list[Op]]:
        """For each client at each node, the operations of a period in which it got only errors, however quick.

        The period counts if it is as long as a client may wait, and if nobody got an answer there to such an operation. An
        operation that never succeeds without a fault says nothing: the client may provoke its error.
        """
        for spell in _spells(window, [op for op in ops if window.served(op) or op.f in run.baseline.slowest_s]):
            begin_ns, end_ns = window.clip_ns(spell[0].start_ns), max(map(window.end_of, spell))
            kinds = set(map(_kind, spell))
            answered = any(window.served(op) and op.start_ns > begin_ns for op in ops if _kind(op) in kinds)
            if end_ns - begin_ns >= max(self._patience_ns(run, op) for op in spell) and not answered:
                yield spell

    def _patience_ns(self, run: RunView, op: Op) -> int:
        return run.record.true_ns(max(self._settings.gray_s, SLOWER_MAX * run.baseline.slowest_s.get(op.f, 0.0)))


def _spells(window: Window, ops: Sequence[Op]) -> Iterable[list[Op]]:
    """For each client at each node, its operations in this window, divided by those that were served."""
    spells: dict[tuple[str, str], list[Op]] = {}
    for op in sorted(ops, key=lambda op: op.start_ns):
        if window.waited_ns(op) < 0:
            continue
        if not window.served(op):
            spells.setdefault((op.client, op.node), []).append(op)
        elif spell := spells.pop((op.client, op.node), None):
            yield spell
    yield from spells.values()


def _goes_on(window: Window, kind: tuple[str, str], waiting: Sequence[Op], ops: Sequence[Op]) -> bool:
    """Was an operation of this kind served that began, during the fault, after the unanswered ones?

    The first waiting client may be the victim, so the second one counts if there are two.
    """
    since_ns = list(_first_waits(window, [op for op in waiting if _kind(op) == kind]).values())[:2][-1]
    return any(window.served(op) and since_ns < op.start_ns for op in ops if _kind(op) == kind)


def _first_waits(window: Window, sufferers: Sequence[Op]) -> dict[str, int]:
    """When each client began to wait, the first client first."""
    first: dict[str, int] = {}
    for op in sorted(sufferers, key=lambda op: op.start_ns):
        first.setdefault(op.client, window.clip_ns(op.start_ns))
    return first


def _since_ns(run: RunView, window: Window, sufferers: Sequence[Op]) -> int | None:
    """When it was certain that somebody other than the victim waits; None if that is not certain."""
    first = _first_waits(window, sufferers)
    victims = _possible_victims(run, window)
    bound = {op.client for op in sufferers if op.node in run.nodes}
    proofs = [since_ns for client, since_ns in first.items() if client in bound and client not in victims]
    return min([*list(first.values())[1:2], *proofs], default=None)


def _possible_victims(run: RunView, window: Window) -> set[str]:
    """The clients for which the slow, failed or lost operation may have been done: they waited when the fault hit, in vain."""
    hit_ns = _begin_ns(run, window.step)
    return {op.client for op in operations_open(run.history, hit_ns) if not window.served(op)}


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
    since_ns = list(_first_waits(window, open_ones).values())[1]
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
    fault = run.plan.steps[step].fault
    if duration_s(fault) is not None and not row_of(fault).kills:  # then the receipt is written when it ends
        ends += [r.t_ns for r in run.receipts if r.step == step and r.proves]
    return min([*ends, over_ns])


def _excused(run: RunView) -> Iterable[tuple[int, int]]:
    """Periods in which operations may stay open by the table in `allowed`: until the nodes serve again."""
    healed_ns = run.record.healed_ns
    recovery_ns = run.record.true_ns(run.baseline.recovery_s) or healed_ns
    for step, planned in enumerate(run.plan.steps):
        begin_ns = _begin_ns(run, step)
        if begin_ns and row_of(planned.fault).excused == "all clients":
            over_ns = _end_ns(run, step)
            if (down_s := restart_after_s(planned.fault)) is not None:
                over_ns = begin_ns + run.record.true_ns(down_s)
            yield begin_ns, min(over_ns + recovery_ns, healed_ns)
    for ended in run.record.exits:
        if not ended.expected and ended.t_ns < healed_ns:
            back_ns = ended.t_ns + int(1e9 * ended.restart_after_s) if ended.restart_after_s is not None else healed_ns
            yield ended.t_ns, min(back_ns + recovery_ns, healed_ns)


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
    nodes = _concerned(run, outage)
    samples = [
        sample
        for sample in run.record.health
        if sample.node in nodes and outage.since_ns <= sample.t_ns <= outage.window.end_ns
    ]
    unwell = [sample for sample in samples if sample.answer]
    if {sample.node for sample in samples} == set(nodes) and (not unwell or _insist(nodes, samples, outage)):
        return _failure(run, outage, [sample for sample in samples if not sample.answer], _say_healthy(run, nodes))
    if unwell:
        return Verdict.ok(f"{_whose(outage)}, and {unwell[0].node} reported it: {unwell[0].answer[:200]}")
    if _others_went_on(run, outage):
        return _failure(run, outage, samples, _OTHERS)
    return Verdict.ok(f"{_whose(outage)}; it is unknown whether the nodes noticed, since not all of them were asked")


def _insist(nodes: Sequence[str], samples: Iterable[HealthSample], outage: Outage) -> bool:
    """Did all these nodes still say they were healthy when clients had waited as long as they may, and no node had reported it?

    A node that reports it later, or only for a moment, has left its clients in the dark.
    """
    silent_since_ns, insisting = outage.since_ns, set[str]()
    for sample in sorted(samples, key=lambda sample: sample.t_ns):
        if sample.answer:
            silent_since_ns, insisting = sample.t_ns, set()
        elif silent_since_ns + outage.patience_ns <= sample.t_ns <= outage.over_ns:
            insisting.add(sample.node)
        if insisting == set(nodes):
            return True
    return False


def _concerned(run: RunView, outage: Outage) -> tuple[str, ...]:
    """The nodes that clients are bound to, and the node behind them that the fault hit; all nodes if a client isn't bound.

    The node behind counts only if it has a health check.
    """
    bound = {op.node for op in outage.sufferers}
    if not bound <= set(run.nodes):
        return run.nodes
    asked = {sample.node for sample in run.record.health}
    return tuple(node for node in run.nodes if node in bound or (node in asked & _hit(run, outage.window)))


def _hit(run: RunView, window: Window) -> set[str]:
    """The nodes that the fault hit."""
    claimed = {moment.node for moment in run.record.moments if moment.step == window.step}
    return claimed | {receipt.node for receipt in run.receipts if receipt.step == window.step and receipt.proves}


def _others_went_on(run: RunView, outage: Outage) -> bool:
    """Did the workload stall on waiting clients although other clients had been served meanwhile?"""
    stalled_ns = run.record.stalled_ns
    if not outage.window.begin_ns <= stalled_ns <= outage.window.end_ns:
        return False
    waiting_clients = {op.client for op in outage.sufferers if op.status == "pending" or op.end_ns > stalled_ns}
    served = {op.client for op in run.history if op.status == "ok" and outage.since_ns < op.end_ns <= stalled_ns}
    return len(waiting_clients) > 1 and bool(served - set(outage.clients))


def _whose(outage: Outage) -> str:
    clients = f"{len(outage.clients)} clients" if len(outage.clients) > 1 else f"client {outage.clients[0]}"
    what = "only errors in" if all(map(outage.window.ended, outage.sufferers)) else "no"
    return f"{clients} got {what} answer to {', '.join(sorted({op.f for op in outage.sufferers}))}"


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
    first = _first_waits(outage.window, outage.sufferers)
    longest_s = max(outage.window.end_of(op) - first[op.client] for op in outage.sufferers) / 1e9
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
    lasted = {one.step: one for one in run.record.timing.faults}.get(window.step)
    return fault_words(run.plan.steps[window.step].fault, lasted)


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
