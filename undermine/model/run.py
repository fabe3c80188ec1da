"""Run records, receipts, histories and verdicts: the facts of one run, and the checkers' answers."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from undermine.model.baseline import Baseline
from undermine.model.columns import Columns
from undermine.model.event import AgentInfo, Event, ProcessStacks, Trace
from undermine.model.faults import FAILURES, Fault, fault_kind, nodes_of
from undermine.model.injected import InjectedFault, Stage, injected_faults
from undermine.model.plan import At, HealReason, Lasted, Plan, Step
from undermine.model.point import Point, point_of

RunStatus = Literal["fired", "not_fired", "exhausted", "broken"]
END = "end"
"""The action of a receipt that proves that a step's `until` fired."""
PENDING = "pending"
"""The action of a receipt of a fault at a logical operation that still waits for a transfer at which it takes effect."""
OpStatus = Literal["ok", "fail", "unknown", "pending"]
Phase = Literal["workload", "final"]
Answer = Literal["pass", "fail", "unknown"]
Sabotage = Literal["", "dead-node", "hang", "lost-write"]


class Receipt(msgspec.Struct, frozen=True):
    """Proof that a step took effect on a node at `t_ns`; for a lasting fault, when it ended and how long it lasted (`held_ns`).

    The action is the kind of the fault, `pending` if it has not taken effect, or `end` if the step's `until` fired.
    """

    step: int
    """The number of the step in the plan, from 0."""
    node: str
    """The node that it hit."""
    action: str
    """The kind of the fault (`crash`, `delay`, …), or `end`."""
    t_ns: int
    """When it was written, by the machine's monotonic clock."""
    pid: int = 0
    """The process in which it fired; 0 if the tool hit the node from outside."""
    seq: int = 0
    """The number of the event in that process."""
    held_ns: int = 0
    """How long a lasting fault was in force."""
    detail: str = ""
    """More about it, in words."""

    @property
    def begun_ns(self) -> int:
        """When the fault began: the receipt of a lasting fault is written at its end."""
        return self.t_ns - max(0, self.held_ns)

    @property
    def proves(self) -> bool:
        """Does it prove the fault, rather than its end?"""
        return self.action not in (END, PENDING)


class Moment(msgspec.Struct, frozen=True):
    """Where a step fired: the operation that claimed it. If a step has several, the first one began the fault."""

    step: int
    node: str
    t_ns: int
    point: Point
    resource: str = ""
    seq: int = 0
    pid: int = 0


class HealthSample(msgspec.Struct, frozen=True):
    """A node's answer to a health question while the workload ran: "" means healthy, else why it isn't."""

    node: str
    t_ns: int
    answer: str = ""


class LogLine(msgspec.Struct, frozen=True):
    """One line that a node wrote."""

    node: str
    """The node that wrote it."""
    source: str
    """`err`, `out` or the name of its log file."""
    text: str
    """The line without its end."""
    incarnation: int = 0
    """The number of the node's start; 0 for a log file that outlives restarts."""


class Conditions(msgspec.Struct, frozen=True):
    """How a plan is run. Confirmations and tests of the checkers differ from usual runs here, not in the plan."""

    patience_s: float = 0.0
    """The limit of the long wait after healing, past the target's own timers; 0: the usual limits."""
    observe_all: bool = False
    """Agents also record locks and waits, so that a hang can be explained."""
    heap: bool = False
    """Agents also record accesses to the heap in handlers. Use it with `observe_all`, which shows where handlers begin."""
    content: bool = False
    """Agents also record tokens of the bytes that operations move."""
    labels: bool = False
    """Python agents also follow data through the program, and record which bytes the data of operations was made from."""
    survey: bool = False
    """Agents also look for attributes that could be variables, and record their values."""
    slow_s: float = 0.0
    """From each hold that replaces a delay until healing, the device below is slower by these seconds."""
    speed: int = 1
    """How much faster than true time the clocks of nodes and clients run. A plan names seconds of their time."""
    at: str = ""
    """The worker that runs it, if the hunt has several and this one is still there."""
    not_at: str = ""
    """A worker that does not run it, if there is another one."""
    sabotage: Sabotage = ""
    """The defect that the tool causes without a receipt, to show that checkers can fail."""


class AwaitedRequest(msgspec.Struct, frozen=True):
    """The request that a receive may answer: the `nth` occurrence of this point, as a step before the receive counts it. The
    receive is then the `then_nth` occurrence of its own point."""

    point: Point
    nth: int = 1
    then_nth: int = 1


class SlowOp(msgspec.Struct, frozen=True):
    """How long the operation of a step took while the device below it was slow."""

    step: int
    device: str
    delay_s: float
    op: str = ""
    took_s: float = 0.0
    """Seconds until it ended or everything was healed."""
    ended: bool = True
    error: str = ""
    """The error that ended it ("" if it succeeded)."""
    waited: tuple[str, ...] = ()
    """The operations that waited at the device meanwhile."""
    polled: bool = False
    """Had its thread already waited for the data in a poll?"""
    unblocked: bool | None = False
    """Is its connection non-blocking, as far as the trace shows: does the thread or an event loop poll for it? None: unknown."""
    lead: AwaitedRequest | None = None
    cached: bool = False
    """Did its own process create the file? Then the system's cache holds its content."""
    unknown: str = ""
    """Why its time proves nothing ("" if it does)."""


class Op(msgspec.Struct, frozen=True):
    """One operation of a client, as `s.attempt` recorded it."""

    index: int
    """Its number in the run, in the order of the starts."""
    client: str
    """The client that made it."""
    f: str
    """Its name: the first argument of `s.attempt`."""
    node: str = ""
    """The node that it was sent to; "" if the workload didn't say."""
    args: dict[str, Any] = {}
    """The arguments that the workload recorded."""
    status: OpStatus = "pending"
    """`ok`; `fail`: it certainly did not happen; `unknown`: it may take effect at any time; `pending`: it never ended."""
    value: Any = None
    """The answer, if it is `ok`. It went through JSON: a tuple is a list, and other objects are texts."""
    error: str = ""
    """The class and text of the exception."""
    phase: Phase = "workload"
    """`workload` or `final`."""
    start_ns: int = 0
    """When it began, by the machine's monotonic clock."""
    end_ns: int = 0
    """When it ended; 0 if it never did."""


class NodeExit(msgspec.Struct, frozen=True):
    """The end of a node's main process, before the end of the run."""

    node: str
    """The node."""
    incarnation: int
    """The number of the node's start, from 1."""
    code: int
    """Its exit code; negative for a signal, as in `subprocess`."""
    started_ns: int
    """When that start began."""
    t_ns: int
    """When it ended."""
    expected: bool
    """Did the tool kill it for an injected fault?"""
    log_tail: str = ""
    """The last lines of its output."""
    restart_after_s: float | None = None
    """The time after which its supervisor starts it again; None if nobody does."""

    @property
    def restarts(self) -> bool:
        """Does a supervisor start it again?"""
        return self.restart_after_s is not None


class NodeInfo(msgspec.Struct, frozen=True):
    """Where a node of this run listens and keeps its data."""

    id: str
    """Its name, such as `store1`."""
    role: str
    """The name of its role."""
    host: str
    """The address on which it listens."""
    port: int
    """Its first port; 0 if it has none."""
    ports: dict[str, int]
    """All its ports by name."""
    dir: str
    """Its own folder, which was empty when the run began."""


class Timing(msgspec.Struct, frozen=True):
    """How long each phase took, in seconds; `own_s` is the time that the tool itself spent.

    `late_ms_max` and `late_ms_p95`: the scheduling delay of the machine, measured with short sleeps.
    """

    start_s: float = 0.0
    workload_s: float = 0.0
    settle_s: float = 0.0
    teardown_s: float = 0.0
    check_s: float = 0.0
    total_s: float = 0.0
    own_s: float = 0.0
    late_ms_max: float = 0.0
    late_ms_p95: float = 0.0
    faults: tuple[Lasted, ...] = ()
    """How long delays and pauses really lasted."""


class WorkloadResult(msgspec.Struct, frozen=True):
    """How the workload function ended: `ok`, `raised` (with the traceback) or `not_run`; `cut` if it exceeded its time limit
    although every client got its answers; `hung` if a client never got one, not even after healing."""

    outcome: Literal["ok", "raised", "cut", "hung", "not_run"] = "not_run"
    """How it ended."""
    detail: str = ""
    """The traceback, or the operations without an answer."""
    duration_s: float = 0.0
    """How long it took."""


class Settling(msgspec.Struct, frozen=True):
    """The state after everything was healed."""

    unready: dict[str, str] = {}
    """The nodes that did not serve again, each with the reason."""
    final: Literal["ok", "failed", "hung", "none"] = "none"
    """How the last try of the final reads ended; `none` if there are no final reads."""
    detail: str = ""
    """The error of the last try."""
    duration_s: float = 0.0
    """How long settling took."""


class RunRecord(msgspec.Struct, frozen=True):
    """Everything about a run except its trace, history and verdicts: one JSON file in its folder."""

    id: int
    """Its number in the campaign."""
    plan: Plan
    """As it ran: with the nodes for which it fired, if nodes may take each other's place."""
    status: RunStatus
    """`fired`: all faults took effect; `not_fired`; `exhausted`: no unseen point was left; `broken`: the run itself failed."""
    reason: str = ""
    """Why it is broken, or did not fire."""
    nodes: tuple[NodeInfo, ...] = ()
    """The nodes of the cluster."""
    isolation: str = ""
    """How the nodes were isolated from each other, and why not in the other way."""
    receipts: tuple[Receipt, ...] = ()
    """The proofs that faults took effect."""
    exits: tuple[NodeExit, ...] = ()
    """The ends of nodes' processes."""
    workload: WorkloadResult = WorkloadResult()
    """How the workload ended."""
    settling: Settling = Settling()
    """The state after everything was healed."""
    started_ns: int = 0
    """When the run began, by the machine's monotonic clock."""
    healed_ns: int = 0
    """When everything was healed."""
    heal_reason: HealReason = ""
    """Why it was healed then."""
    settled_ns: int = 0
    """When settling was over: all nodes served and the final reads had succeeded; 0: that never happened."""
    left_alone_ns: int = 0
    """How long nodes were then left alone, until they agreed again or the time was over."""
    timing: Timing = Timing()
    """How long each phase took."""
    moments: tuple[Moment, ...] = ()
    """Where each fired step fired."""
    ended: tuple[Moment, ...] = ()
    """Where each `until` that was reached was reached: the operation before which the fault of the step ended."""
    stalled_ns: int = 0
    """When the workload stalled with the fault still in force; 0: it never did."""
    health: tuple[HealthSample, ...] = ()
    """The nodes' answers to health questions while clients waited suspiciously long."""
    stacks: tuple[ProcessStacks, ...] = ()
    """The stacks of every thread and task of the nodes when a hang was declared."""
    conditions: Conditions = Conditions()
    """How the plan was run: a re-run waits longer."""
    slow_ops: tuple[SlowOp, ...] = ()
    """The operations below which a device was slow."""
    port_taken: bool = False
    """A node could not start, since another process had its port."""
    skipped: bool = False
    """The plan cannot be carried out here, so nothing was started."""
    exchanged: dict[str, str] = {}
    """By node of the stored plan: the node that took its place, if it is another one."""
    tries: int = 1
    """The number of this try: in all tries before it, the plan did not fire."""
    worker: str = ""
    """The worker of a cluster that ran it; "" for the tool's own machine."""

    @property
    def speed(self) -> int:
        """How much faster than true time the clocks of nodes and clients ran. All times of a record are true."""
        return self.conditions.speed

    def target_s(self, ns: int) -> float:
        """A length of true time, in nanoseconds, as seconds of the target's time."""
        return ns * self.speed / 1e9

    def true_ns(self, target_s: float) -> int:
        """A length of the target's time, in seconds, as nanoseconds of true time."""
        return int(1e9 * target_s / self.speed)


def as_if(record: RunRecord, faults: Sequence[tuple[Fault, Event]]) -> RunRecord:
    """A copy of the record as if these faults had fired, each before its operation. For runs that never happened."""
    return msgspec.structs.replace(
        record,
        plan=msgspec.structs.replace(record.plan, steps=tuple(Step(At(point_of(e)), fault) for fault, e in faults)),
        moments=tuple(
            Moment(step, e.node, e.t_ns, point_of(e), e.resource, e.seq, e.pid) for step, (_, e) in enumerate(faults)
        ),
        receipts=tuple(
            Receipt(step, node, fault_kind(fault), e.t_ns, e.pid, e.seq)
            for step, (fault, e) in enumerate(faults)
            for node in nodes_of(fault) or (e.node,)
        ),
    )


class RunView:
    """A run as checkers see it. Files are read on first use."""

    def __init__(
        self,
        record: RunRecord,
        history: tuple[Op, ...],
        load_trace: Callable[[], Trace],
        load_logs: Callable[[], tuple[LogLine, ...]] = tuple,
        load_baseline: Callable[[], Baseline] = Baseline,
        load_columns: Callable[[], Columns] | None = None,
    ) -> None:
        self.record: RunRecord = record
        """Everything else that is known about the run."""
        self.history: tuple[Op, ...] = history
        """The operations of all clients, in the order of their starts."""
        self._load_trace = load_trace
        self._load_logs = load_logs
        self._load_baseline = load_baseline
        self._load_columns = load_columns

    @cached_property
    def trace(self) -> Trace:
        """The events that agents observed, in the order of time: `for event in run.trace`."""
        return self._load_trace()

    def trace_of(self, *ops: str) -> Trace:
        """The trace with nothing but these operations. If the run is stored, this takes a small part of the time of `trace`."""
        if self._load_columns is None or "trace" in self.__dict__:
            return Trace(tuple(e for e in self.trace if e.op in ops), self.trace.agents, self.trace.problems)
        return self._load_columns().trace_of_nodes(ops)

    @property
    def agents(self) -> tuple[AgentInfo, ...]:
        """The processes with an agent."""
        return self.trace_of().agents

    @cached_property
    def logs(self) -> tuple[LogLine, ...]:
        """The lines that the nodes wrote, file by file."""
        return self._load_logs()

    @cached_property
    def baseline(self) -> Baseline:
        """How fault-free and benign runs behave; empty while the campaign learns it."""
        return self._load_baseline()

    @cached_property
    def faults(self) -> tuple[InjectedFault, ...]:
        """The faults that took effect, in the order of the plan."""
        return injected_faults(self)

    def faults_in(self, where: Stage | str, *failures: str) -> tuple[InjectedFault, ...]:
        """The faults that fired in this stage, or while this function ran; only these failure classes, if any are named."""
        if unknown := [failure for failure in failures if failure not in FAILURES]:
            raise ValueError(f"{unknown[0]!r} is not a failure class; they are {', '.join(FAILURES)}")
        wanted = failures or FAILURES
        return tuple(fault for fault in self.faults if fault.failure in wanted and fault.during(where))

    def with_record(self, record: RunRecord) -> RunView:
        """A copy with another record, for tests of checkers."""
        return RunView(
            record, self.history, lambda: self.trace, lambda: self.logs, lambda: self.baseline, self._load_columns
        )

    @property
    def plan(self) -> Plan:
        """The plan that was run: `run.plan.steps`, `str(run.plan)`."""
        return self.record.plan

    @property
    def speed(self) -> int:
        """How much faster than true time the clocks of nodes and clients ran. Times of a run are true: multiply a duration by
        this to compare it with a time limit of the target."""
        return self.record.speed

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The proofs that faults took effect; empty in a fault-free run."""
        return self.record.receipts

    @property
    def nodes(self) -> tuple[str, ...]:
        """The ids of all nodes."""
        return tuple(info.id for info in self.record.nodes)

    def role(self, node: str) -> str:
        """The role of a node."""
        return next((info.role for info in self.record.nodes if info.id == node), node)


class Rank(enum.Enum):
    """How bad a symptom is, worst first. The worst one titles a finding, and reports list findings in this order. Verdicts store
    the value.

    A broken promise, such as an acknowledged write that is lost, cannot be repaired. A cluster that never recovers and a
    client that waits forever need a person. Nodes that disagree for good may serve wrong answers later, but nobody promised that
    they agree. A dead thread leaves a node that looks alive; a node that exits can be started
    again. A workload that raises may be too strict. A gray failure ends with its fault. Log output may be harmless.
    """

    PROMISE = "promise"
    """The default: the user's own checkers and ledgers, and checkers of other packages that have no rank."""
    RECOVERY = "recovery"
    HANG = "hang"
    DISAGREEMENT = "disagreement"
    DEATH = "death"
    EXIT = "exit"
    WORKLOAD = "workload"
    GRAY = "gray"
    LOGS = "logs"

    @property
    def order(self) -> int:
        """The position in this list: 0 is worst."""
        return list(Rank).index(self)


class Symptom(msgspec.Struct, frozen=True):
    """A short text that recurs in the failing runs of one bug, and how bad it is."""

    text: str
    rank: Rank = Rank.PROMISE
    frame: str = ""
    """The frame of the target in which it arose in this run, if that isn't part of the text."""


class Verdict(msgspec.Struct, frozen=True):
    """A checker's answer. Create it with `Verdict.ok`, `Verdict.fail` or `Verdict.unknown`."""

    answer: Answer
    """`pass`, `fail` or `unknown`."""
    text: str = ""
    """One sentence for people."""
    symptom: str = ""
    """A short text that recurs in all runs of one bug: findings are grouped by it. Keep ids and numbers out of it."""
    evidence: tuple[str, ...] = ()
    """Lines that show it."""
    checker: str = ""
    """The name of the checker; the tool sets it."""
    lasting: bool = False
    """A promise is broken for good: waiting longer would not help, so a single run that shows it counts."""
    notes: tuple[str, ...] = ()
    """Facts that a person should know although the run passes. Equal notes of a campaign are listed once."""
    rank: str = ""
    """The value of the checker's `Rank`; "" for the user's own checkers, and in older campaigns."""
    frame: str = ""
    """The frame of the target in which it failed this time, if other runs of the same bug may fail elsewhere."""
    operations: tuple[int, ...] = ()
    """The numbers of the few client operations that show it. The report draws them."""

    @staticmethod
    def ok(text: str = "", notes: Sequence[str] = ()) -> Verdict:
        """The run keeps the promise. `notes` are listed in the report."""
        return Verdict("pass", text, notes=tuple(notes))

    @staticmethod
    def fail(
        text: str,
        symptom: str = "",
        evidence: tuple[str, ...] | list[str] = (),
        *,
        lasting: bool = False,
        frame: str = "",
        operations: Sequence[int] = (),
    ) -> Verdict:
        """The run breaks the promise. Without a symptom, the text is the symptom."""
        shown = tuple(operations)
        return Verdict("fail", text, symptom or text, tuple(evidence), lasting=lasting, frame=frame, operations=shown)

    @staticmethod
    def unknown(text: str) -> Verdict:
        """The run doesn't tell, and the text says why."""
        return Verdict("unknown", text)
