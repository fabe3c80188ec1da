"""Carries out a step when it is reached, and finds the lasting fault that applies to an operation.

In a crash, no other thread runs between the receipt and the end, as far as the interpreter allows: everything is
prepared before the tool is asked, and no call after that releases the interpreter.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys
from time import monotonic_ns

from undermine_agent.faults.changes import Delay, SilentDrop
from undermine_agent.faults.table import MAPPED, TRANSFERS
from undermine_agent.faults.wire_faults import LostArrival, WireFault, may_lose_arrival, may_wait, scope_of, with_place
from undermine_agent.interpreter import fast, forks, native

SIGKILL, SIGUSR1 = 9, 10
# ENOSPC applies to operations that need space, other disk errors to those that reach the device. Closing always
# works, and mapped memory cannot report an error.
NEEDS_SPACE = frozenset({"file.write", "file.create", "file.mkdir", "db.write", "db.commit"})
SPARED = frozenset({"file.close", "file.stat", "net.close", *MAPPED})
# Marks that connections are impaired by this agent itself.
IMPAIRMENTS = {"step": -1, "kind": "impairments"}
OWN = ("impairments", "wire")  # the kinds of entries that the tool doesn't know of

_kill, _killpg, _getpid, _getpgid, _strerror = os.kill, os.killpg, os.getpid, os.getpgid, os.strerror


def make_error(name: str, subject):
    """The exception for an error of the operating system: an OSError, or one of the subject's library."""
    own = getattr(subject, "error", None)
    if own is not None:
        return own(name)
    number = getattr(errno, name, errno.EIO)
    return OSError(number, _strerror(number))


def error_of(entries, op: str, subject) -> str:
    """The name of the error with which a lasting fault answers this operation, or ""."""
    if op in SPARED:
        return ""
    for entry in entries:
        kind = entry.get("kind")
        if kind == "partition":
            if cuts(entry, op, subject) and (entry["loss"] == "error" or op == "net.connect"):
                return "EHOSTUNREACH" if op == "net.connect" else "ECONNRESET"
        elif kind == "error" and _hit_by_error(entry, op, subject):
            return entry["error"]
    return ""


def silenced_by(entries, op: str, subject) -> bool:
    """True if a silent partition withholds the bytes of this operation."""
    return any(
        entry.get("kind") == "partition" and entry["loss"] == "silent" and cuts(entry, op, subject) for entry in entries
    )


def refused_by(entries, op: str, subject) -> bool:
    """True if a partition with errors applies to this operation."""
    return any(
        entry.get("kind") == "partition" and entry["loss"] == "error" and cuts(entry, op, subject) for entry in entries
    )


def cuts(entry, op: str, subject) -> bool:
    """True if this partition applies to this operation. Connecting needs both directions."""
    if not subject.target.startswith("peer:") or subject.target[5:] not in entry["peers"]:
        return False
    if op == "net.connect":
        return entry["out"] or entry["in"]
    return entry["out"] if op == "net.send" else entry["in"] if op == "net.recv" else False


def _hit_by_error(entry, op: str, subject) -> bool:
    scope, value = entry["scope"], entry["value"]
    if entry["error"] == "ENOSPC" and op not in NEEDS_SPACE:
        return False
    if scope == "peer":
        return not op.startswith("file.") and value == subject.target
    if not op.startswith(("file.", "db.")):
        return False
    path = resource_of(subject)
    return subject.on_disk if scope == "disk" else value in (path, *path.split(" -> "))


def resource_of(subject) -> str:
    """The raw name of the file that the subject is part of; for a statement, its database."""
    return getattr(subject, "path", subject.resource)


class Lasting(fast.base("Lasting", object)):  # type: ignore[misc]
    """The lasting faults in force, kept up to date by the generation number in the shared state."""

    def __init__(self, state, link):
        self.state = state
        self.link = link
        self.generation = 0
        self.entries: tuple = ()
        self.reset_connections = None  # with the hooks of sockets: resets all connections with these nodes
        self.resets: set = set()  # the steps whose connections have been reset
        self.after_fork()

    def after_fork(self) -> None:
        """The child does not carry out the logical operations of its parent."""
        self.entries = tuple(entry for entry in self.entries if entry["kind"] != "wire")
        self.lock = _thread.RLock()
        self.resetting = _thread.RLock()

    def welcome(self, generation: int, answer) -> None:
        entries = answer.get("lasting") if isinstance(answer, dict) else None
        entries = entries or ()
        self._reset([entry for entry in entries if entry.get("kind") == "reset"])
        with self.lock:
            if generation < self.generation:
                return  # another thread has a newer answer
            self.generation = generation
            lasting = (entry for entry in entries if entry.get("kind") != "reset")
            self.entries = (*lasting, *(entry for entry in self.entries if entry["kind"] in OWN and not self._is_over(entry)))

    def _is_over(self, entry) -> bool:
        return entry is not IMPAIRMENTS and self.state.over(entry["step"])

    def _reset(self, entries) -> None:
        """Reset the connections of partitions that have ended, once for each. No operation sees the end before that."""
        with self.resetting:
            for entry in entries:
                if entry["step"] not in self.resets:
                    if self.reset_connections is not None:
                        self.reset_connections(entry["peers"])
                    self.resets.add(entry["step"])

    def refresh(self) -> None:
        """Ask the tool if the generation changed. The agent must be at work in this thread."""
        generation = self.state.generation
        if generation == self.generation:
            return
        answer = self.link.ask({"type": "lasting"})
        if isinstance(answer, dict) and answer.get("type") == "lasting":
            self.welcome(generation, answer)
        else:
            self.generation = generation

    def add(self, step: int, name: str, scope: str, subject, peer: str = "") -> None:
        """Let an error last. `peer` is the target of the transfers that it hits, if it is at the wire."""
        value = {"file": resource_of(subject), "peer": peer or subject.target}.get(scope, "")
        with self.lock:
            self.entries += ({"step": step, "kind": "error", "error": name, "scope": scope, "value": value},)

    def wait_for_transfer(self, fault: WireFault) -> None:
        with self.lock:
            self.entries += ({"step": fault.step.index, "kind": "wire", "fault": fault},)

    def begin(self, seq: int, logical_call) -> None:
        """The logical operation with this number is under way."""
        for entry in self.entries:
            if entry["kind"] == "wire" and entry["fault"].seq == seq:
                entry["fault"].begin(logical_call)

    def take_wire_fault(self, call, logical_call):
        """The fault that waits for this transfer, or None. It waits no longer."""
        with self.lock:
            for entry in self.entries:
                if entry["kind"] == "wire" and not self._is_over(entry) and entry["fault"].hits(call, logical_call):
                    self.entries = tuple(other for other in self.entries if other is not entry)
                    return entry["fault"]
        return None

    def mark_impairments(self, any_impaired: bool) -> None:
        with self.lock:
            rest = tuple(entry for entry in self.entries if entry is not IMPAIRMENTS)
            self.entries = (*rest, IMPAIRMENTS) if any_impaired else rest

    def error_of(self, op: str, subject) -> str:
        return "" if self._healed() else error_of(self.entries, op, subject)

    def refuses(self, op: str, subject) -> bool:
        return not self._healed() and refused_by(self.entries, op, subject)

    def _healed(self) -> bool:
        """True if everything is healed, and connections have been reset for that."""
        return self.state.healed and self.state.generation == self.generation

    def silences(self, op: str, subject) -> bool:
        return not self._healed() and silenced_by(self.entries, op, subject)


class Injector:
    """Claims steps, and carries out those that the tool grants."""

    def __init__(self, agent):
        self.agent = agent
        self.keeper = _number("UNDERMINE_KEEPER")
        self.group = _number("UNDERMINE_PGID")
        self.cgroup = agent.config.get("cgroup", "")

    def before(self, call) -> None:
        """Decide about an operation before it; sets `error` or `change` of the call."""
        agent, lasting = self.agent, self.agent.lasting
        for part, state in agent.table.reached(call.operation.before, call) if call.operation.before else ():
            self._claim(part, call, "before", state)
        lasting.refresh()  # a claim may have started or ended a lasting fault
        if lasting.entries and call.error is None and call.change is None:
            self._strike(call)
        if call.error is None and lasting.entries:
            name = lasting.error_of(call.operation.name, call.subject)
            if name:
                call.error = make_error(name, call.subject)
            elif call.change is None and agent.impairments is not None:
                call.change = agent.impairments.change_for(call.operation, call.subject)

    def after(self, call) -> None:
        """Decide about an operation after it."""
        for part, state in self.agent.table.reached(call.operation.after, call):
            self._claim(part, call, "after", state)

    def _claim(self, part, call, place: str, state: str) -> None:
        if part.late:
            if call.change is None:
                call.change = self._corruption(part, call, state)
            return
        step, kind = part.step, part.step.kind
        text = _told(call, place, _detail(step.fault))
        is_logical = (kind in ("error", "drop") or "logical" in step.fault) and hasattr(call.subject, "peer")
        at_wire = is_logical and place == "before" and may_wait(self.agent, step, call)
        receipt = self._receipt(step, call, with_place(text, step, "at the call") if is_logical else text)
        if not self._agreed(part, call, state, at_wire) or part.claimed_as == "until":
            return
        if at_wire:
            self._wait_for_transfer(step, call, text)
            return
        if kind == "delay":
            self._delay(step, call, receipt, place)
            return
        if kind not in ("crash", "reboot", "error", "drop"):
            return
        if is_logical and place == "before" and may_lose_arrival(self.agent, step, call):
            call.change = LostArrival(self.agent, step, call, text)
            call.change.note(self.agent, call.cursor)
            return
        self._write(step, call, receipt)
        if kind == "error":
            self._error(step, call)
        elif kind == "drop":
            raw = call.operation.name in TRANSFERS
            call.change = self.agent.impairments.drop(step.index, call) if raw else SilentDrop()
        else:
            self._die()

    def _wait_for_transfer(self, step, call, text: str) -> None:
        """Let a logical operation continue: its fault takes effect at a transfer."""
        lasting, fault = self.agent.lasting, WireFault(self.agent, step, call, text)
        fault.note(self.agent, call.cursor)
        lasting.wait_for_transfer(fault)
        if fault.is_lasting:
            lasting.add(step.index, step.fault.get("error", "EIO"), scope_of(step), call.subject, fault.peer)

    def _strike(self, call) -> None:
        """Hit this transfer if a fault of a logical operation waits for it. An error also resets the connection."""
        agent = self.agent
        fault = agent.lasting.take_wire_fault(call, agent.thread_state().logical_call)
        if fault is None:
            return
        place = "at %s %s" % (call.operation.name, call.subject.target)
        if fault.step.kind == "delay":
            receipt = self._receipt(fault.step, call, with_place(fault.text, fault.step, place))
            call.change = agent.impairments.delay(Delay(agent, fault.step, call.cursor, fault.seq, receipt), call, is_late=True)
            return
        fault.note(agent, call.cursor, place)
        if fault.step.kind == "drop":
            call.change = agent.impairments.drop(fault.step.index, call)
        else:
            call.error = make_error(fault.step.fault.get("error", "EIO"), call.subject)
            agent.impairments.reset_connection(call.subject)

    def _agreed(self, part, call, state: str, at_wire: bool = False) -> bool:
        """Claim the step; false also if the tool carries it out itself."""
        claim = self.agent.claim_of(part, call, state)
        if at_wire:
            claim["peer"] = call.subject.peer
        answer = self.agent.link.ask(claim)
        return isinstance(answer, dict) and answer.get("type") == "go" and not answer.get("external")

    def _receipt(self, step, call, text: str):
        writer, cursor = self.agent.writer, call.cursor
        return writer.string(cursor, step.kind), writer.string(cursor, text)

    def _write(self, step, call, receipt) -> None:
        self.agent.writer.receipt(call.cursor, call.seq, monotonic_ns(), step.index, 0, *receipt)

    def _delay(self, step, call, receipt, place: str) -> None:
        """Delay the thread now or, in mode `operation`, let only the operation wait."""
        name = call.operation.name
        delay = Delay(self.agent, step, call.cursor, call.seq, receipt)
        if step.fault.get("mode") != "operation" or name.startswith("file."):
            delay.wait()
        elif name in TRANSFERS and place == "before":
            call.change = self.agent.impairments.delay(delay, call)
        elif name.startswith("net.") and not (name == "net.connect" and place == "before"):
            delay.wait()
        else:
            call.change = delay

    def _error(self, step, call) -> None:
        name, scope = step.fault.get("error", "EIO"), step.fault.get("scope", "once")
        if scope != "once":
            self.agent.lasting.add(step.index, name, scope, call.subject)
        call.error = make_error(name, call.subject)

    def _corruption(self, part, call, state: str):
        corruption = forks.load("undermine_agent.faults.corruption", "Corruption")

        def claim(detail: str) -> bool:
            if next(part.counter) != part.nth:
                return False
            call.cursor = self.agent.thread_state().cursor
            receipt = self._receipt(part.step, call, _told(call, "before", detail))
            if not self._agreed(part, call, state):
                return False
            self._write(part.step, call, receipt)
            return True

        return corruption(self.agent, call.operation.name, part.step.fault, claim)

    def _die(self) -> None:
        if fast.module is not None:
            fast.module.die(self.keeper, self.group, self.cgroup and self.cgroup + "/cgroup.kill")
        sys.setswitchinterval(100)
        if self.keeper:
            try:
                _kill(self.keeper, SIGUSR1)
            except OSError:
                pass
        if self.cgroup:
            native.write_at_once(self.cgroup + "/cgroup.kill", b"1")
        try:
            if self.group and _getpgid(0) == self.group:
                _killpg(self.group, SIGKILL)
        finally:
            _kill(_getpid(), SIGKILL)


def _told(call, place: str, detail: str) -> str:
    """The place of a fault, for its receipt."""
    text = "%s %s %s" % (place, call.operation.name, call.subject.target)
    return text + (": " + detail if detail else "")


def _detail(fault: dict) -> str:
    if fault.get("fault") == "error":
        return "%s %s" % (fault.get("error", "EIO"), fault.get("scope", "once"))
    return "this operation only" if fault.get("mode") == "operation" and "logical" not in fault else ""


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else 0
