"""The helper process that loads the user's plug-in file and forks a child for each call into it.

User code can hang, raise, print or exit. In a forked child none of that reaches the tool, and forking a process that has
everything imported takes milliseconds. The helper itself is single-threaded and never runs user code after loading the
file. Requests and answers are JSON lines on file descriptors 0 and 1 of this program:

    {"id": 1, "call": "workload" | "final" | "ready" | "health" | "check" | "prune", …}   ->  {"id": 1, "exit": code}
    {"kill": 1}

`netns` in a request is the path of the network namespace that the child enters before anything else. `agent` is the path of
the configuration of an agent, for a client that is observed like a node: the child loads the agent, the helper never does.
`clock` is the clock of the child, if it is faster than the true one.
The child writes the result of its call to the JSON file `out`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from undermine import target_files
from undermine.deployments import netns
from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.run import NodeInfo, RunView, Verdict
from undermine.policies.library import parse_policy
from undermine.policies.plan_view import CampaignProfiles, StoredProfiles, using
from undermine.policies.pruning import Policy, cluster_policy, compose, filter_policy, refusals
from undermine.resources import python_agent_dir
from undermine.runtimes import clock
from undermine.runtimes.table import PYTHON
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, load_view, read_history
from undermine.userland import registry
from undermine.userland.workloads import Session, SessionFile, encodable

_TEXT_MAX = 4000
_SESSION_BYTES_MAX = 64 << 20
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(plugins: str) -> None:
    """Load the file, report its declarations, then serve requests until the tool closes the input."""
    answers = os.dup(1)
    os.dup2(2, 1)  # user code's output must not be mistaken for answers
    try:
        declared = registry.load(Path(plugins)) if plugins else None
        _own_policies(declared)  # raises now if a policy cannot be used
    except UserError as error:
        _say(answers, {"error": str(error)})
        return
    _say(answers, {"loaded": _names(declared)})
    Forks(declared, answers).serve()


def _names(declared: registry.Declared | None) -> dict[str, list[Any]]:
    """The names of everything that the file declares, and its stages in full."""
    kinds = ("workloads", "finals", "checkers", "filters", "clusters")
    names = {kind: list(getattr(declared, kind, ())) for kind in kinds}
    return {**names, "stages": msgspec.to_builtins(declared.stages if declared else [])}


def _say(fd: int, message: dict[str, Any]) -> None:
    os.write(fd, json.dumps(message).encode() + b"\n")


class Forks:
    """The children of this process, by call."""

    def __init__(self, declared: registry.Declared | None, answers: int) -> None:
        self._declared = declared
        self._answers = answers
        self._pids: dict[int, int] = {}
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # processes that outlive a call become our children
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        selector.register(self._wake_r, selectors.EVENT_READ)
        buffer = b""
        while True:
            for key, _ in selector.select():
                if key.fd == self._wake_r:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_r, 4096)
                    self._reap()
                    continue
                data = os.read(0, 65536)
                if not data:
                    self._kill_all()
                    return
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    self._request(json.loads(line))

    def _request(self, request: dict[str, Any]) -> None:
        if "kill" in request:
            self._kill(request["kill"])
            return
        pid = os.fork()
        if pid:
            self._pids[pid] = request["id"]
            return
        code = 1
        try:
            os.setsid()
            if path := request.get("netns"):
                netns.enter(path)
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # exec keeps this: a command reaps its own daemons
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            devnull = os.open(os.devnull, os.O_RDONLY)
            os.dup2(devnull, 0)
            os.close(self._answers)
            if log := request.get("log"):
                fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
            code = call(self._declared, request)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _strays(self) -> list[int]:
        """The children that aren't calls: processes that ended calls left behind, also in sessions of their own."""
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return [int(pid) for pid in children if int(pid) not in self._pids]

    def _kill_strays(self) -> None:
        for pid in self._strays():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while True:
            self._kill_strays()
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (call_id := self._pids.pop(pid, None)) is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # processes that the user's code left behind
                _say(self._answers, {"id": call_id, "exit": os.waitstatus_to_exitcode(status)})

    def _kill(self, call_id: int) -> None:
        for pid, id_of_pid in self._pids.items():
            if id_of_pid == call_id:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # it may not have a group of its own yet

    def _kill_all(self) -> None:
        for call_id in list(self._pids.values()):
            self._kill(call_id)
        deadline = time.monotonic() + 3
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                self._kill_strays()
                pid, _ = os.waitpid(-1, os.WNOHANG)
                self._pids.pop(pid, None)
                time.sleep(0 if pid else 0.005)


def carry_agent(config: str, *, load: bool) -> None:
    """In a child: let an agent observe the programs that it starts. With `load`, the agent observes the child itself too.

    The agent never raises: operations that it cannot observe run without it.
    """
    os.environ["UNDERMINE_AGENT"] = config
    os.environ.update(PYTHON.environment(os.environ))
    if load:
        folder = str(python_agent_dir())
        sys.path.insert(0, folder)
        agent = importlib.import_module("undermine_agent")
        sys.path.remove(folder)
        agent.load(config)


def call(declared: registry.Declared | None, request: dict[str, Any]) -> int:
    """Make one call into the user's file, in its own process; return the exit code, 0 if the call returned."""
    kind = request["call"]
    session_file = None
    if "session" in request:
        session_file = msgspec.json.decode(target_files.read(Path(request["session"]), _SESSION_BYTES_MAX), type=SessionFile)
    command = session_file.command if session_file is not None and kind == "workload" else ()
    if faster := request.get("clock"):
        clock.use(msgspec.convert(faster, clock.TargetClock))
    if agent := request.get("agent"):
        carry_agent(agent, load=not command)
    if command and session_file is not None:
        os.environ["UNDERMINE_SESSION"] = request["session"]
        os.chdir(session_file.cwd or ".")
        os.execvp(command[0], command)
    if declared is None:
        raise UserError("undermine.toml names no plug-in file; set campaign.plugins")
    if kind == "prune":
        return _prune(declared, request)
    if kind == "check":
        return _check(declared, request)
    if kind in ("ready", "health"):
        return _poll(declared.function(request["function"]), request)
    assert session_file is not None
    if kind == "workload":
        function = declared.the_workload(request.get("function", ""))
        return _result_of(lambda: function(Session(session_file, "workload")), Path(request["out"]))
    return _final(declared, session_file, request)


def _result_of(function: Callable[[], Any], out: Path) -> int:
    """Run the function and write `{"ok": …, "detail": …}` to `out`; return 0 if the function returned, else 1."""
    try:
        function()
        result = {"ok": True, "detail": ""}
    except SystemExit as error:
        result = {"ok": error.code in (None, 0), "detail": f"it ended with code {error.code}"}
    except Exception as error:
        text = registry.described(error)
        result = {
            "ok": False,
            "detail": encodable(text[:_TEXT_MAX]),
            "trace": encodable(_users_part(error)[-_TEXT_MAX:]),
        }
    out.write_text(json.dumps(result))
    return 0 if result["ok"] else 1


def _users_part(error: Exception) -> str:
    """The traceback of an exception, without the frames of this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
    return "\n".join(line for line in lines if line.strip(" ^~"))


def _final(declared: registry.Declared, session_file: SessionFile, request: dict[str, Any]) -> int:
    """Repeat the final reads until they succeed and all declared conditions hold, or the time is over.

    If a condition still doesn't hold then, the checkers judge what was read.
    """
    deadline = time.monotonic() + request["timeout_s"]
    out = Path(request["out"])
    pause_s = 0.05
    nth_try = 0
    while True:
        nth_try += 1
        session = Session(session_file, "final", nth_try)
        code = _result_of(lambda: [f(session) for f in declared.finals.values()], out)  # noqa: B023
        if time.monotonic() > deadline or (code == 0 and not _unsettled(declared, Path(session_file.history))):
            return code
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.5)


def _unsettled(declared: registry.Declared, history: Path) -> str:
    """Why a declared condition does not hold yet; "" if all hold. A condition that raises is ignored."""
    ops = read_history(history) if declared.settled else ()
    for condition in declared.settled.values():
        with contextlib.suppress(Exception):
            if why := condition(ops):
                return why
    return ""


def _poll(function: Callable[..., Any], request: dict[str, Any]) -> int:
    """Call a readiness or health function until it answers true or the time is over."""
    node = msgspec.convert(request["node"], NodeInfo)
    deadline = time.monotonic() + request["timeout_s"]
    why = "it answered no"
    while True:
        try:
            if function(node):
                return 0
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if time.monotonic() > deadline:
            Path(request["out"]).write_text(json.dumps({"ok": False, "detail": why[:_TEXT_MAX]}))
            return 1
        time.sleep(0.02)


def _check(declared: registry.Declared, request: dict[str, Any]) -> int:
    """Judge one stored run with the user's checkers; each has its own time limit."""
    verdicts = [
        msgspec.to_builtins(judge(name, function, load_view(RunDir(Path(request["run"]))), request["timeout_s"]))
        for name, function in declared.checkers.items()
    ]
    Path(request["out"]).write_text(json.dumps(verdicts))
    return 0


def _prune(declared: registry.Declared, request: dict[str, Any]) -> int:
    """Write, for each plan, which policy drops it and which plan represents it. Uses the policies that the request names,
    or all of the user's."""
    plans = msgspec.json.decode(Path(request["plans"]).read_bytes(), type=list[Plan])
    out = Path(request["out"])
    campaign = Path(request.get("campaign", "")) / "campaign.db"
    stored = cache(lambda: CampaignStore(campaign.parent, read_only=True)) if campaign.is_file() else None
    try:
        policies = _policies(declared, request)
        names = {plan.strategy for plan in plans}
        earlier = [run.plan for name in names for run in stored().past_runs(name)] if stored else []
        with using(StoredProfiles(stored) if stored else CampaignProfiles()):
            pruned = compose(policies, plans, request.get("seed", 0), earlier, dropped_max=len(plans))
    except UserError as error:
        traceback.print_exc()
        out.write_text(json.dumps({"error": str(error)}))
        return 1
    out.write_text(json.dumps({"refusals": refusals(pruned, plans)}))
    return 0


def _own_policies(declared: registry.Declared | None) -> dict[str, Policy]:
    """The user's policies, in the order in which they were declared."""
    if declared is None:
        return {}
    return {
        name: filter_policy(declared.filters[name]) if kind == "filter" else cluster_policy(declared.clusters[name])
        for name, kind in declared.policies.items()
    }


def _policies(declared: registry.Declared, request: dict[str, Any]) -> list[Policy]:
    """The policies that the request names, in that order; without names, all of the user's. The user's own policy takes
    precedence over a shipped one of the same name."""
    own = _own_policies(declared)
    groups = {name: tuple(nodes) for name, nodes in request.get("groups", {}).items()}
    wanted = request.get("policies") or own
    return [own[name] if name in own else parse_policy(name, groups) for name in wanted]


def judge(name: str, function: Callable[[RunView], Verdict | None], view: RunView, timeout_s: float) -> Verdict:
    """Return the checker's verdict on this run; `unknown` if it crashes, runs out of time or returns no verdict."""

    def expire(*_: Any) -> None:
        raise TimeoutError(f"no answer within {timeout_s:g} s")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        answer = function(view)
        verdict = Verdict.ok() if answer is None else answer
        if not isinstance(verdict, Verdict):
            verdict = Verdict.unknown(f"the checker answered {answer!r:.80}, not a Verdict")
        verdict = msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict)  # refuses wrong types
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        verdict = Verdict.unknown(f"the checker raised {type(error).__name__}: {error} (line {where.lineno})")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return msgspec.structs.replace(verdict, checker=name)


if __name__ == "__main__":
    main(sys.argv[1])
