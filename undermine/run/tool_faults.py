"""Carries out the faults that agents cannot: begins and ends them on nodes and network, and writes their receipts.

Never decides when a fault fires: the controller does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from undermine.deployments.abilities import Breakable, Cluster, Partition
from undermine.inject.controller import (
    CutNetwork,
    CutPower,
    EndFault,
    EndInTime,
    ExpectCrash,
    FreezeNodes,
    KillNodes,
    LoseMessages,
    Note,
    StartNodes,
)
from undermine.model.faults import fault_kind
from undermine.model.plan import Plan
from undermine.model.run import END, Receipt, Sabotage

UNTIL, HEALED, TIME_OVER = "ended by its until", "ended by healing", "ended after its time"
NOTHING = "nothing, since everything was synced"


class _Ongoing:
    """A fault that is in force on some nodes."""

    def __init__(self, nodes: tuple[str, ...], finish: Callable[[], None]) -> None:
        self.nodes = nodes
        self.finish = finish
        self.begun_ns = time.monotonic_ns()
        self.timer: threading.Timer | None = None


class ToolFaults:
    """Carries out the faults of one run that agents cannot. Instructions run one at a time; after healing no fault begins.
    `held` is called at each hold, before the operation continues."""

    def __init__(self, plan: Plan, cluster: Cluster, held: Callable[[Note], None] = lambda _: None) -> None:
        self._held = held
        self._kinds = [fault_kind(step.fault) for step in plan.steps]
        self._cluster = cluster
        self._lock = threading.RLock()
        self._ongoing: dict[int, _Ongoing] = {}
        self._healed = False
        self.receipts: list[Receipt] = []
        self.missed: set[int] = set()
        """Steps that were granted, but had no living node left to hit."""

    def expect(self, instruction: ExpectCrash) -> None:
        self._cluster.expect_crash(instruction.node, instruction.reboot_after_s)

    def kill(self, instruction: KillNodes) -> None:
        """Kill nodes. Freeze all before killing the first one, so that they fail at the same moment."""
        with self._lock:
            alive = [] if self._healed else self._cluster.freeze(instruction.nodes)
            killed = [node for node in alive if self._cluster.crash(node, instruction.reboot_after_s)]
            self._note(instruction.step, killed, time.monotonic_ns())

    def cut_power(self, instruction: CutPower) -> None:
        """Kill nodes as `kill` does, and let each lose data. Their receipts say what was lost."""
        kept, at, after_s = instruction.kept, instruction.at, instruction.reboot_after_s
        with self._lock:
            alive = [] if self._healed else self._cluster.freeze(instruction.nodes)
            t_ns = time.monotonic_ns()
            lost = {node: self._cluster.lose_power(node, kept, at, after_s) for node in alive}
            for node, words in lost.items():
                if words is not None:
                    self._note(instruction.step, [node], t_ns, why="lost: " + ("; ".join(words) or NOTHING))
            if not any(words is not None for words in lost.values()):
                self.missed.add(instruction.step)

    def start(self, instruction: StartNodes) -> None:
        with self._lock:
            if not self._healed:
                self._cluster.start_again(instruction.nodes)

    def freeze(self, instruction: FreezeNodes) -> None:
        with self._lock:
            nodes = () if self._healed else tuple(self._cluster.freeze(instruction.nodes))
            self._begin(instruction.step, nodes, lambda: self._thaw(nodes))
            if nodes:
                timer = threading.Timer(instruction.for_s, self._finish, (instruction.step, TIME_OVER))
                timer.daemon = True
                self._ongoing[instruction.step].timer = timer
                timer.start()

    def cut(self, instruction: CutNetwork) -> None:
        with self._lock:
            partition = self._partition()
            if not self._healed:
                partition.cut(instruction.step, instruction.cuts)
            nodes = () if self._healed else instruction.nodes
            self._begin(instruction.step, nodes, lambda: partition.join(instruction.step))

    def _partition(self) -> Partition:
        found = self._cluster.partition
        if found is None:
            raise ValueError("these nodes cannot be partitioned at the network")
        return found

    def lose(self, instruction: LoseMessages) -> None:
        with self._lock:
            self._begin(instruction.step, () if self._healed else instruction.nodes, lambda: None)

    def note(self, instruction: Note) -> None:
        with self._lock:
            if self._healed:
                self.missed.add(instruction.step)
                return
            self._held(instruction)
            step, kind = instruction.step, self._kinds[instruction.step]
            self.receipts.append(
                Receipt(step, instruction.node, kind, time.monotonic_ns(), instruction.pid, instruction.seq)
            )

    def end(self, instruction: EndFault) -> None:
        self._finish(instruction.step, UNTIL)
        self.receipts.append(Receipt(instruction.step, instruction.node, END, time.monotonic_ns()))

    def end_in_time(self, instruction: EndInTime) -> None:
        self._finish(instruction.step, TIME_OVER)

    def heal(self) -> None:
        """End all faults that are in force. May be called again."""
        with self._lock:
            self._healed = True
            for step in list(self._ongoing):
                self._finish(step, HEALED)

    def _begin(self, step: int, nodes: tuple[str, ...], finish: Callable[[], None]) -> None:
        if nodes:
            self._ongoing[step] = _Ongoing(nodes, finish)
        else:
            self.missed.add(step)

    def _finish(self, step: int, why: str) -> None:
        with self._lock:
            ongoing = self._ongoing.pop(step, None)
            if ongoing is None:
                return
            if ongoing.timer is not None:
                ongoing.timer.cancel()
            ended_ns = time.monotonic_ns()
            ongoing.finish()
            self._note(step, ongoing.nodes, ended_ns, ended_ns - ongoing.begun_ns, why)

    def _thaw(self, nodes: Iterable[str]) -> None:
        """Let nodes continue, except those that another step froze."""
        held = {node for other in self._ongoing.values() if other.timer is not None for node in other.nodes}
        self._cluster.thaw([node for node in nodes if node not in held])

    def _note(self, step: int, nodes: Iterable[str], t_ns: int, held_ns: int = 0, why: str = "") -> None:
        found = [Receipt(step, node, self._kinds[step], t_ns, held_ns=held_ns, detail=why) for node in nodes]
        self.receipts += found
        if not found:
            self.missed.add(step)


class Saboteur:
    """Breaks a run without a receipt. A checker that passes such a run cannot fail."""

    def __init__(self, kind: Sabotage, cluster: Breakable) -> None:
        self._kind = kind
        self._cluster = cluster
        self._done = False

    @property
    def in_force(self) -> bool:
        """Does the sabotage last until the run ends?"""
        return self._done and self._kind != "lost-write"

    def within_workload(self) -> None:
        """Kill the first node of the last role permanently, or freeze all nodes."""
        if self._done or self._kind not in ("dead-node", "hang"):
            return
        self._done = True
        nodes = [info.id for info in self._cluster.nodes]
        if self._kind == "hang":
            self._cluster.freeze(nodes)
        else:
            last = self._cluster.nodes[-1].role
            self._cluster.kill_unseen([next(info.id for info in self._cluster.nodes if info.role == last)])

    def after_workload(self) -> dict[str, str]:
        """Delete the data of all nodes; return the nodes that do not get ready after that, and why."""
        if self._done or self._kind != "lost-write":
            return {}
        self._done = True
        nodes = [info.id for info in self._cluster.nodes]
        self._cluster.kill_unseen(nodes)
        self._cluster.empty(nodes)
        return self._cluster.start_all(lambda: False)
