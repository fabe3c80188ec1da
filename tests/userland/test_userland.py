"""Calls into a user's plug-in file: whatever it does, the tool gets an answer and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import HANG_S, wait_until

from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.model.run import NodeInfo, RunRecord, Verdict
from undermine.store.rundir import RunDir, read_history, save_record
from undermine.testing import point
from undermine.userland.client import Call, UserlandClient
from undermine.userland.workloads import SessionFile

HEAD = """
    import os, signal, subprocess, sys, time
    from pathlib import Path
    import undermine
    from undermine import Verdict
"""


def alive(pid: int) -> bool:
    """False for a process that is gone or only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class World:
    """A helper process with a plug-in file, and the folder of one run."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.plugins = folder / "mine.py"
        self.plugins.write_text(textwrap.dedent(HEAD) + textwrap.dedent(text))
        self.log = folder / "call.log"
        self.out = folder / "result.json"
        self.history = folder / "history.jsonl"
        self.pids = folder / "pids"
        self.helper_log = folder / "helper.log"
        env = {"PIDS": str(self.pids), "FOLDER": str(folder)}
        self.client = UserlandClient(self.plugins, env, self.helper_log)

    @property
    def helper_pid(self) -> int:
        return self.client._process.pid

    def session(self, **more: Any) -> str:
        path = self.folder / "session.json"
        path.write_bytes(msgspec.json.encode(SessionFile((), 7, str(self.history), "none", "none", **more)))
        return str(path)

    def begin(self, kind: str = "workload", **more: Any) -> Call:
        return self.client.call(kind, out=str(self.out), log=str(self.log), **more)

    def work(self, **more: Any) -> Call:
        return self.begin(session=self.session(**more))

    def result(self) -> Any:
        return json.loads(self.out.read_text())

    def noted_pid(self) -> int:
        """The process id that user code wrote down, once it is there."""
        wait_until(lambda: self.pids.exists() and self.pids.read_text().endswith("\n"))
        return int(self.pids.read_text())


Make = Callable[[str], World]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    worlds: list[World] = []

    def build(text: str) -> World:
        worlds.append(World(tmp_path, text))
        return worlds[-1]

    yield build
    for world in worlds:
        world.client.close()


def ended(call: Call) -> int | None:
    assert call.wait(HANG_S), "the call never ended"
    return call.code


# --- loading


def test_what_the_file_declares_is_known_by_name(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s): ...
        @undermine.final
        def f(s): ...
        @undermine.checker
        def b(run): ...
        @undermine.checker
        def a(run): ...
        @undermine.filter
        def p(plan): return True
        @undermine.cluster
        def k(plan): return 1
        S = undermine.Stage("opening", functions=["open"])
    """)
    kinds = {"workloads": ["w"], "finals": ["f"], "checkers": ["b", "a"], "filters": ["p"], "clusters": ["k"]}
    stage = {"name": "opening", "functions": ["open"], "operations": []}
    assert world.client.declared == {**kinds, "stages": [stage]}


def test_without_a_file_nothing_is_declared_and_a_call_says_so(tmp_path: Path) -> None:
    session = tmp_path / "session.json"
    session.write_bytes(msgspec.json.encode(SessionFile((), 7, str(tmp_path / "h"), "none", "none")))
    with UserlandClient(None, {}, tmp_path / "helper.log") as client:
        assert set(map(tuple, client.declared.values())) == {()}
        call = client.call("workload", session=str(session), out=str(tmp_path / "o"), log=str(tmp_path / "l"))
        assert ended(call) == 1
    assert "campaign.plugins" in (tmp_path / "l").read_text()


def test_a_file_that_raises_is_the_users_mistake(make: Make) -> None:
    with pytest.raises(UserError, match="ZeroDivisionError"):
        make("1 / 0")


@pytest.mark.parametrize("line", ["sys.exit(0)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_file_that_ends_the_process_is_the_users_mistake(make: Make, line: str) -> None:
    with pytest.raises(UserError, match="ended the process or hung while it was loaded"):
        make(line)


def test_what_the_file_prints_while_it_is_loaded_is_not_taken_for_an_answer(make: Make) -> None:
    world = make("""
        print('{"error": "I am user code"}', flush=True)
        os.write(1, b'{"loaded": {}}\\n')
        @undermine.workload
        def w(s): ...
    """)
    assert world.client.declared["workloads"] == ["w"]
    assert "I am user code" in world.helper_log.read_text()


# --- workloads


def test_a_workload_that_returns_ends_with_0_and_its_operations_are_recorded(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s): s.attempt("put", lambda: s.params["n"] + 1)
    """)
    assert ended(world.work(params={"n": 4})) == 0
    assert world.result() == {"ok": True, "detail": ""}
    assert [(op.f, op.status, op.value) for op in read_history(world.history)] == [("put", "ok", 5)]


def test_a_workload_that_raises_ends_with_1_and_says_why(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s): raise AssertionError("lost k1")
    """)
    assert ended(world.work()) == 1
    result = world.result()
    assert (result["ok"], result["detail"]) == (False, "AssertionError: lost k1")
    assert "mine.py" in result["trace"]


def test_a_huge_exception_comes_out_short(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s): raise ValueError("x" * 1_000_000)
    """)
    assert ended(world.work()) == 1
    assert world.out.stat().st_size < 20_000


def test_what_a_workload_raises_can_be_stored(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s): raise ValueError("no such file: \\udcff")
    """)
    assert ended(world.work()) == 1
    assert msgspec.json.encode(world.result()["detail"])


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("os._exit(7)", 7),
        ("sys.exit(0)", 0),
        ("sys.exit(4)", 1),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    ],
)
def test_a_workload_that_ends_its_process_ends_its_call_only(make: Make, line: str, code: int) -> None:
    world = make(f"""
        @undermine.workload
        def w(s):
            if s.params:
                {line}
    """)
    assert ended(world.work(params={"die": True})) == code
    assert ended(world.work()) == 0


def test_a_workload_that_hangs_is_killed_with_all_it_started(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s):
            child = subprocess.Popen(["sleep", "1000"])
            Path(os.environ["PIDS"]).write_text(f"{child.pid}\\n")
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            s.attempt("wait", lambda: time.sleep(1000))
    """)
    call = world.work()
    child = world.noted_pid()
    wait_until(lambda: read_history(world.history))
    assert not call.wait(0)
    call.kill()
    assert call.code == -signal.SIGKILL
    wait_until(lambda: not alive(child))
    assert [op.status for op in read_history(world.history)] == ["pending"]


def test_what_a_workload_leaves_running_is_killed_when_it_returns(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s):
            child = subprocess.Popen(["sleep", "1000"])
            Path(os.environ["PIDS"]).write_text(f"{child.pid}\\n")
    """)
    assert ended(world.work()) == 0
    wait_until(lambda: not alive(world.noted_pid()))


def test_what_user_code_prints_goes_to_its_log(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s):
            print('{"id": 1, "exit": 99}')
            os.write(1, b'{"id": 1, "exit": 98}\\n')
            print("to stderr", file=sys.stderr)
            subprocess.run(["echo", "from a child"])
    """)
    assert ended(world.work()) == 0
    for text in ('"exit": 99', '"exit": 98', "to stderr", "from a child"):
        assert text in world.log.read_text()


def test_user_code_cannot_read_the_tools_requests(make: Make) -> None:
    world = make("""
        @undermine.workload
        def w(s): assert sys.stdin.read() == ""
    """)
    assert ended(world.work()) == 0


def test_calls_run_at_the_same_time(make: Make) -> None:
    world = make("""
        def gate(node):
            folder = Path(os.environ["FOLDER"])
            (folder / f"here-{node.id}").touch()
            return len(list(folder.glob("here-*"))) == 3
    """)
    calls = [
        world.client.call(
            "ready",
            function="gate",
            node=msgspec.to_builtins(NodeInfo(f"n{n}", "r", "h", 1, {}, "d")),
            timeout_s=HANG_S,
            out=str(world.folder / f"out{n}"),
            log=str(world.log),
        )
        for n in range(3)
    ]
    assert [ended(call) for call in calls] == [0, 0, 0]


def test_a_command_takes_the_place_of_the_function_and_finds_the_session(make: Make) -> None:
    world = make("")
    script = "import os, json; print(json.load(open(os.environ['UNDERMINE_SESSION']))['seed']); raise SystemExit(5)"
    assert ended(world.work(command=(sys.executable, "-c", script))) == 5
    assert world.log.read_text().strip() == "7"


def test_state_that_a_call_changes_is_gone_in_the_next_one(make: Make) -> None:
    world = make("""
        seen = []
        @undermine.workload
        def w(s):
            seen.append(1)
            assert seen == [1]
    """)
    assert [ended(world.work()) for _ in range(3)] == [0, 0, 0]


# --- final reads, readiness, policies


def test_final_reads_are_repeated_until_they_succeed(make: Make) -> None:
    world = make("""
        @undermine.final
        def f(s):
            tries = Path(os.environ["FOLDER"], "tries")
            tries.write_text((tries.read_text() if tries.exists() else "") + "x")
            assert len(tries.read_text()) == 3
            s.attempt("read", lambda: s.nth_try)
    """)
    assert ended(world.begin("final", session=world.session(), timeout_s=HANG_S)) == 0
    assert world.result()["ok"]
    assert [(op.f, op.phase, op.value) for op in read_history(world.history)] == [("read", "final", 3)]


def test_final_reads_that_never_succeed_say_why(make: Make) -> None:
    world = make("""
        @undermine.final
        def f(s): raise LookupError("no leader")
    """)
    assert ended(world.begin("final", session=world.session(), timeout_s=0)) == 1
    assert world.result()["detail"] == "LookupError: no leader"


NODE = msgspec.to_builtins(NodeInfo("n1", "store", "127.0.0.1", 5, {}, "d"))


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ("return node.port == 5", 0, ""),
        ("return False", 1, "it answered no"),
        ("raise OSError('refused')", 1, "OSError: refused"),
    ],
)
def test_a_readiness_function_answers_for_a_node(make: Make, body: str, code: int, why: str) -> None:
    world = make(f"""
        def ready(node):
            {body}
    """)
    assert ended(world.begin("ready", function="ready", node=NODE, timeout_s=0)) == code
    assert (world.result()["detail"] if code else "") == why


def test_a_function_that_is_not_there_is_told_in_the_log(make: Make) -> None:
    world = make("")
    assert ended(world.begin("ready", function="redy", node=NODE, timeout_s=0)) == 1
    assert "redy" in world.log.read_text()


def test_policies_name_the_first_that_refuses_each_plan(make: Make) -> None:
    world = make("""
        @undermine.filter
        def not_zero(plan): return plan.seed != 0
        @undermine.filter
        def small(plan): return plan.seed < 2
    """)
    plans = world.folder / "plans.json"
    plans.write_bytes(msgspec.json.encode([Plan((Step(At(point()), Crash()),), seed) for seed in range(4)]))
    assert ended(world.begin("prune", plans=str(plans))) == 0
    assert [rule for rule, _ in world.result()["refusals"]] == ["not_zero", "", "small", "small"]


# --- checkers


def verdicts(world: World, timeout_s: float = HANG_S) -> dict[str, Verdict]:
    run = RunDir(world.folder / "run")
    run.create()
    save_record(run, RunRecord(17, Plan(), "fired"))
    assert ended(world.begin("check", run=str(run.path), timeout_s=timeout_s)) == 0
    said = msgspec.json.decode(world.out.read_bytes(), type=list[Verdict])
    return {verdict.checker: verdict for verdict in said}


def test_checkers_answer_pass_fail_or_unknown_each_for_itself(make: Make) -> None:
    said = verdicts(
        make("""
        @undermine.checker
        def silent(run): assert run.record.id == 17
        @undermine.checker
        def fine(run): return Verdict.ok("all there")
        @undermine.checker
        def bad(run): return Verdict.fail("lost k1", "lost write", ["e1"])
        @undermine.checker
        def unsure(run): return Verdict.unknown("no data")
        @undermine.checker
        def liar(run): return Verdict("pass", checker="exits")
    """)
    )
    assert [(v.checker, v.answer) for v in said.values()] == [
        ("silent", "pass"),
        ("fine", "pass"),
        ("bad", "fail"),
        ("unsure", "unknown"),
        ("liar", "pass"),
    ]
    assert said["bad"] == Verdict("fail", "lost k1", "lost write", ("e1",), "bad")


def test_a_checker_that_raises_says_unknown_and_where(make: Make) -> None:
    said = verdicts(
        make("""
        @undermine.checker
        def bad(run): return {}["k"]
        @undermine.checker
        def fine(run): ...
    """)
    )
    assert said["bad"].answer == "unknown"
    assert "KeyError: 'k' (line " in said["bad"].text
    assert said["fine"].answer == "pass"


@pytest.mark.parametrize("nonsense", ["True", "'fail'", "0", "run", "[Verdict.ok()]"])
def test_a_checker_that_answers_nonsense_says_unknown(make: Make, nonsense: str) -> None:
    said = verdicts(
        make(f"""
        @undermine.checker
        def odd(run): return {nonsense}
    """)
    )
    assert said["odd"].answer == "unknown"
    assert "not a Verdict" in said["odd"].text


def test_a_checker_that_hangs_says_unknown_and_the_next_one_has_its_own_time(make: Make) -> None:
    said = verdicts(
        make("""
        @undermine.checker
        def slow(run): time.sleep(1000)
        @undermine.checker
        def busy(run):
            while True: pass
        @undermine.checker
        def fine(run): ...
    """),
        timeout_s=0.2,
    )
    assert {name: v.answer for name, v in said.items()} == {"slow": "unknown", "busy": "unknown", "fine": "pass"}
    assert "no answer within 0.2 s" in said["slow"].text


@pytest.mark.parametrize(
    "nonsense", ["Verdict.fail('x', evidence=[1, 2])", "Verdict('maybe')", "Verdict.fail('x', evidence=[run.record])"]
)
def test_a_verdict_with_nonsense_in_it_hurts_its_own_checker_only(make: Make, nonsense: str) -> None:
    said = verdicts(
        make(f"""
        @undermine.checker
        def odd(run): return {nonsense}
        @undermine.checker
        def fine(run): ...
    """)
    )
    assert (said["odd"].answer, said["fine"].answer) == ("unknown", "pass")


def test_a_checker_that_exits_hurts_itself_only(make: Make) -> None:
    said = verdicts(
        make("""
        @undermine.checker
        def quits(run): sys.exit("bye")
        @undermine.checker
        def fine(run): ...
    """)
    )
    assert (said["quits"].answer, said["fine"].answer) == ("unknown", "pass")


# --- the end of the helper

FOREVER = """
    @undermine.workload
    def w(s):
        Path(os.environ["PIDS"]).write_text(f"{os.getpid()}\\n")
        time.sleep(1000)
"""


def test_when_the_helper_is_killed_open_calls_end_without_a_code_and_their_processes_die(make: Make) -> None:
    world = make(FOREVER)
    call = world.work()
    child = world.noted_pid()
    os.kill(world.helper_pid, signal.SIGKILL)
    assert ended(call) is None
    wait_until(lambda: not alive(child))


def test_calls_to_a_dead_helper_end_at_once_without_a_code(make: Make) -> None:
    world = make(FOREVER)
    os.kill(world.helper_pid, signal.SIGKILL)
    wait_until(lambda: not alive(world.helper_pid))
    assert [ended(world.work()) for _ in range(3)] == [None] * 3


def test_closing_ends_the_helper_and_all_its_calls(make: Make) -> None:
    world = make(FOREVER)
    call = world.work()
    child = world.noted_pid()
    world.client.close()
    assert not alive(world.helper_pid)
    wait_until(lambda: not alive(child))
    assert ended(call) in (None, -signal.SIGKILL)


def test_closing_twice_and_calling_after_the_end_do_no_harm(make: Make) -> None:
    world = make(FOREVER)
    world.client.close()
    world.client.close()
    assert ended(world.work()) is None


def test_the_helper_ends_when_the_tool_is_killed(tmp_path: Path) -> None:
    tool = """
        import os, sys, time
        from pathlib import Path
        from undermine.userland.client import UserlandClient
        client = UserlandClient(None, {}, Path(sys.argv[1]))
        print(client._process.pid, flush=True)
        time.sleep(1000)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(tool), str(tmp_path / "log")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    helper = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: alive(helper) and os.kill(helper, signal.SIGKILL))
        wait_until(lambda: not alive(helper))


def test_a_call_can_be_killed_before_it_has_a_group_of_its_own() -> None:
    script = """
        import os, signal
        from undermine.userland.process import Forks
        forks = Forks(None, 1)
        pid = os.fork()
        if pid == 0:
            signal.pause()
        forks._pids[pid] = 1
        forks._kill(1)
        os.kill(pid, signal.SIGTERM)  # where the kill was sent, it comes first
        raise SystemExit(os.WTERMSIG(os.waitpid(pid, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, timeout=HANG_S)
    assert done.returncode == signal.SIGKILL
