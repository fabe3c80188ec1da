"""What the agent does when a step is reached: crash, hold, or answer with an error. And the errors that last.

A crash lets no other thread run between its receipt and its end, as far as the interpreter allows:
everything is prepared before the tool is asked, and none of the calls used gives up the interpreter.
"""

from __future__ import annotations

import errno
import os
import sys
from time import monotonic_ns, sleep

HOLD_STEP_S = 0.02
SIGKILL, SIGUSR1 = 9, 10
# ENOSPC is for what needs space; other disk errors for what reaches the device; closing always works.
_NEEDS_SPACE = frozenset({"file.write", "file.create", "file.mkdir"})
_NEVER_LASTING = frozenset({"file.close", "file.stat", "net.close"})

_kill, _killpg, _getpid, _getpgid, _strerror = os.kill, os.killpg, os.getpid, os.getpgid, os.strerror


def make_error(name: str) -> OSError:
    """The exception that the operating system's answer becomes in Python."""
    number = getattr(errno, name, errno.EIO)
    return OSError(number, _strerror(number))


class Lasting:
    """The errors in force, kept up to date by the generation in the shared state."""

    def __init__(self, state, link):
        self.state = state
        self.link = link
        self.generation = 0
        self.entries: tuple = ()

    def welcome(self, generation: int, answer) -> None:
        entries = answer.get("lasting") if isinstance(answer, dict) else None
        self.generation = generation
        self.entries = tuple(entries or ())

    def refresh(self) -> None:
        generation = self.state.generation
        answer = self.link.ask({"type": "lasting"})
        if isinstance(answer, dict) and answer.get("type") == "lasting":
            self.welcome(generation, answer)
        else:
            self.generation = generation

    def add(self, step: int, name: str, scope: str, subject) -> None:
        value = {"file": subject.resource, "peer": subject.target}.get(scope, "")
        self.entries += ({"step": step, "error": name, "scope": scope, "value": value},)

    def error_of(self, op: str, subject) -> str:
        """The name of the error that lasts on what this operation is about to do, or nothing."""
        if op in _NEVER_LASTING or self.state.healed:
            return ""
        is_file = op.startswith("file.")
        for entry in self.entries:
            scope, value, name = entry["scope"], entry["value"], entry["error"]
            if name == "ENOSPC" and op not in _NEEDS_SPACE:
                continue
            if scope == "peer":
                hit = not is_file and value == subject.target
            elif scope == "disk":
                hit = is_file and subject.on_disk
            else:
                hit = is_file and value in (subject.resource, *subject.resource.split(" -> "))
            if hit:
                return name
        return ""


class Faults:
    """Claims steps and carries out what the tool agrees to."""

    def __init__(self, agent):
        self.agent = agent
        self.keeper = _number("UNDERMINE_KEEPER")
        self.group = _number("UNDERMINE_PGID")

    def claim(self, step, call, place: str) -> str:
        """Returns the name of the error the operation must be answered with, or nothing."""
        agent, fault = self.agent, step.fault
        kind = fault.get("fault", "")
        detail = "%s %s %s" % (place, call.operation.name, call.subject.target)
        if kind == "error":
            detail += ": %s %s" % (fault.get("error", "EIO"), fault.get("scope", "once"))
        cursor = call.cursor
        receipt = agent.writer.string(cursor, kind), agent.writer.string(cursor, detail)
        answer = agent.link.ask(agent.claim_of(step.index, call))
        if not isinstance(answer, dict) or answer.get("type") != "go" or answer.get("external"):
            return ""
        if kind in ("crash", "reboot"):
            agent.writer.receipt(cursor, call.seq, monotonic_ns(), step.index, 0, *receipt)
            self._die()
        elif kind == "delay":
            self._hold(step, call, float(fault.get("delay_s", 0)), receipt)
        elif kind == "error":
            agent.writer.receipt(cursor, call.seq, monotonic_ns(), step.index, 0, *receipt)
            name, scope = fault.get("error", "EIO"), fault.get("scope", "once")
            if scope != "once":
                agent.lasting.add(step.index, name, scope, call.subject)
            return name
        return ""

    def _hold(self, step, call, delay_s: float, receipt) -> None:
        start = monotonic_ns()
        end = start + int(delay_s * 1e9)
        self.agent.writer.receipt(call.cursor, call.seq, start, step.index, 0, *receipt)
        try:
            while not self.agent.state.healed:
                left = end - monotonic_ns()
                if left <= 0:
                    break
                sleep(min(HOLD_STEP_S, left / 1e9))
        finally:
            now = monotonic_ns()
            self.agent.writer.receipt(call.cursor, call.seq, now, step.index, now - start, *receipt)

    def _die(self) -> None:
        sys.setswitchinterval(100)
        if self.keeper:
            try:
                _kill(self.keeper, SIGUSR1)
            except OSError:
                pass
        try:
            if self.group and _getpgid(0) == self.group:
                _killpg(self.group, SIGKILL)
        finally:
            _kill(_getpid(), SIGKILL)


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() else 0
