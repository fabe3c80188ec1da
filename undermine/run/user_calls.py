"""Calls the user's plug-in file for one run: the workload, final reads, ready and health functions."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import msgspec

from undermine import target_files
from undermine.model.errors import UserError
from undermine.model.run import NodeInfo
from undermine.runtimes.clock import TRUE, TargetClock
from undermine.store.rundir import RunDir
from undermine.userland.client import Call, UserlandClient

_ASK_SLACK_S = {"ready": 5.0, "health": 0.5}
"""Extra time beyond a user function's own limit, by kind: its process must be started first."""
_RESULT_BYTES_MAX = 64 << 20


def helper_died(name: str) -> UserError:
    """The error for a killed helper of the tool. Every later run would break too, so the tool stops."""
    return UserError(f"{name} was killed; nothing stored is lost: run `undermine hunt --resume`")


def exit_code(call: Call) -> int:
    """The exit code of a call that has ended."""
    if call.code is None:
        raise helper_died("the helper that runs your plug-in file")
    return call.code


class UserCalls:
    """Starts calls in the clients' network namespace. With `client_agent`, workloads carry that agent. Workloads and final reads
    have this clock."""

    def __init__(
        self, userland: UserlandClient, run: RunDir, netns: str, client_agent: str = "", clock: TargetClock = TRUE
    ) -> None:
        self._userland = userland
        self._run = run
        self._netns = netns
        self._client_agent = client_agent
        self._clock = clock
        self._numbers = itertools.count(1)

    def has_final_reads(self) -> bool:
        return bool(self._userland.declared["finals"])

    def start(self, kind: str, **parameters: Any) -> Call:
        """Start a call that has a session: `workload` or `final`."""
        agent = {"agent": self._client_agent} if self._client_agent else {}
        clock = {"clock": msgspec.to_builtins(self._clock)} if self._clock != TRUE else {}
        return self._call(kind, self._out(kind), session=str(self._run.session), **parameters, **agent, **clock)

    def result(self, kind: str) -> dict[str, Any]:
        """The result that a call of this kind wrote; empty if there is none, or it cannot be read."""
        return _read_result(self._out(kind))

    def ask_about_node(self, kind: str, function: str, node: NodeInfo, timeout_s: float) -> str:
        """Ask a `ready` or `health` function about a node; return "" or why not. Several threads may ask at the same time.

        A `ready` function is polled in its process, a `health` function is called once.
        """
        out = self._out(f"{kind}.{next(self._numbers)}")
        poll_s = min(timeout_s, 1.0) if kind == "ready" else 0.0
        call = self._call(kind, out, function=function, node=msgspec.to_builtins(node), timeout_s=poll_s)
        if not call.wait(timeout_s + _ASK_SLACK_S[kind]):
            call.kill()
            return f"{function} hangs"
        return "" if exit_code(call) == 0 else f"{function}: {_read_result(out).get('detail', 'it failed')}"

    def _call(self, kind: str, out: Path, **parameters: Any) -> Call:
        log = str(self._run.logs / f"{kind}.log")
        return self._userland.call(kind, out=str(out), log=log, netns=self._netns, **parameters)

    def _out(self, name: str) -> Path:
        return self._run.agents / f"{name}.result"


def _read_result(out: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(target_files.read(out, _RESULT_BYTES_MAX)))
    return {}
