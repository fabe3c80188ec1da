"""A node is a process and all its descendants: started, frozen, killed and reported as one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from node_helpers import Nodes, Token, family, whole_family
from waiting import wait_until
from watched_guardian import WatchedGuardian

from undermine.deployments.guardian import processes
from undermine.deployments.guardian_client.client import Exit
from undermine.model.errors import UserError


def test_crash_kills_the_whole_family(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    main = keeper_of_nodes.shell("7/s1", family(token))
    pids = whole_family(token)
    assert main in pids
    assert set(pids) <= set(g.pids("7/s1"))
    assert g.alive("7/s1")
    assert g.crash("7/s1") is True
    assert token.pids() == []  # at once: crash returns when nothing is left
    assert not g.alive("7/s1")
    assert g.pids("7/s1") == []
    exited = g.wait_exit("7/s1", 0)
    assert exited is not None
    assert (exited.code, exited.crashed, exited.still_alive) == (-signal.SIGKILL, True, False)
    assert g.crash("7/s1") is False


def test_family_dies_by_the_agents_signal(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    keeper_of_nodes.shell("7/s1", family(token))
    whole_family(token)
    seen: list[Exit] = []
    g.subscribe("7/", seen.append)
    keeper = g.keeper_pid("7/s1")
    assert keeper is not None
    os.kill(keeper, signal.SIGUSR1)
    exited = g.wait_gone("7/s1", 60)
    assert exited is not None
    assert (exited.code, exited.crashed, exited.still_alive) == (-signal.SIGKILL, True, False)
    assert token.pids() == []
    wait_until(lambda: seen == [exited], what="the subscriber hears of it")


def test_an_agent_that_kills_itself_right_after_its_signal_is_reported_as_crashed(
    keeper_of_nodes: Nodes, token: Token
) -> None:
    script = "setsid sleep {0} & sleep 0.02; kill -USR1 $UNDERMINE_KEEPER; kill -9 -$UNDERMINE_PGID"
    for number in range(20):
        keeper_of_nodes.shell(f"7/{number}", script.format(token.text))
        exited = keeper_of_nodes.client.wait_gone(f"7/{number}", 60)
        assert exited is not None
        assert exited.crashed
        assert token.pids() == []


def test_a_daemon_whose_main_process_has_ended_is_still_the_node(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    keeper_of_nodes.shell("7/s1", f"setsid sleep {token.text} & exit 3")
    seen: list[Exit] = []
    g.subscribe("7/s1", seen.append)
    first = g.wait_exit("7/s1", 60)
    assert first is not None
    assert (first.code, first.still_alive) == (3, True)
    assert g.alive("7/s1")
    with pytest.raises(ValueError, match="still alive"):
        g.forget("7/s1")
    with pytest.raises(ValueError, match="still alive"):
        keeper_of_nodes.shell("7/s1", "exit 0")
    token.until_count(1)
    assert g.crash("7/s1") is True
    last = g.wait_gone("7/s1", 0)
    assert last is not None
    assert (last.code, last.crashed, last.still_alive) == (3, True, False)
    assert token.pids() == []
    wait_until(lambda: last in seen, what="the subscriber hears the last")


def test_a_node_that_ignores_signals(keeper_of_nodes: Nodes, token: Token) -> None:
    keeper_of_nodes.shell("7/s1", f"trap '' TERM INT HUP QUIT USR1 USR2; sleep {token.text} & sleep {token.text}")
    token.until_count(3)
    assert keeper_of_nodes.client.crash("7/s1")
    assert token.pids() == []


HOPPERS = """
import os, sys
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
os.execv("/bin/sleep", ["sleep", sys.argv[1]])
"""

BREEDER = """
import os, sys, time
while True:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.2)
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("script", [HOPPERS, BREEDER], ids=["hops-from-pid-to-pid", "breeds-daemons"])
def test_a_node_that_forks_all_the_time(keeper_of_nodes: Nodes, token: Token, script: str) -> None:
    keeper_of_nodes.python("7/s1", script, token.text, "3")
    seen: set[int] = set()

    def has_forked() -> bool:
        seen.update(token.pids())
        return len(seen) > 20

    wait_until(has_forked, what="it forks all the time")
    assert keeper_of_nodes.client.crash("7/s1")
    assert token.pids() == []


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 41", 41), ("kill -11 $$", -11)])
def test_exit_codes(keeper_of_nodes: Nodes, script: str, code: int) -> None:
    before_ns = time.monotonic_ns()
    keeper_of_nodes.shell("7/s1", script)
    exited = keeper_of_nodes.client.wait_exit("7/s1", 60)
    assert exited is not None
    assert (exited.code, exited.crashed, exited.still_alive) == (code, False, False)
    assert before_ns < exited.t_ns < time.monotonic_ns()


def test_output_is_appended_to_private_files(keeper_of_nodes: Nodes) -> None:
    for _ in range(2):
        keeper_of_nodes.shell("7/s1", "echo one; echo two >&2; cat; umask")
        assert keeper_of_nodes.client.wait_gone("7/s1", 60)
    umask = os.umask(0o22)
    os.umask(umask)
    assert (keeper_of_nodes.folder / "out").read_text() == f"one\n{umask:04o}\n" * 2
    assert (keeper_of_nodes.folder / "err").read_text() == "two\n" * 2
    assert (keeper_of_nodes.folder / "out").stat().st_mode & 0o777 == 0o600


FACTS = """
import os, signal
print(sorted(map(int, os.listdir("/proc/self/fd")))[:3], len(os.listdir("/proc/self/fd")))
print(os.getpgid(0) == os.getsid(0) == os.getpid() == int(os.environb[b"UNDERMINE_PGID"]))
print(os.getppid() == int(os.environ["UNDERMINE_KEEPER"]), os.readlink("/proc/self/fd/0"))
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
print(int(status["SigBlk"], 16), int(status["SigIgn"], 16) & 0x7FFFFFFF & ~(1 << 12 | 1 << 24))
print(os.environb[b"NAME"], os.getcwd())
"""


def test_what_a_node_finds(keeper_of_nodes: Nodes) -> None:
    env = {"NAME": os.fsdecode(b"gr\xc3\xbc\xff\xdf"), "PATH": os.environ["PATH"]}
    keeper_of_nodes.start("7/s1", sys.executable, "-S", "-c", FACTS, env=env)
    assert keeper_of_nodes.client.wait_gone("7/s1", 60)
    assert (keeper_of_nodes.folder / "err").read_text() == ""
    assert (keeper_of_nodes.folder / "out").read_text().splitlines() == [
        "[0, 1, 2] 4",  # and the listing itself
        "True",
        "True /dev/null",
        "0 0",  # but SIGPIPE and SIGXFSZ, which Python ignores by itself
        f"{env['NAME'].encode(errors='surrogateescape')!r} {keeper_of_nodes.folder}",
    ]


def test_freeze_and_thaw(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    out = keeper_of_nodes.folder / "out"
    ticker = "while :; do echo x; sleep 0.01; done"
    keeper_of_nodes.shell("7/s1", f"setsid sh -c '{ticker}' & sleep {token.text} & kill -STOP $!; {ticker}")
    wait_until(lambda: out.exists() and out.stat().st_size > 20, what="it runs")
    assert g.freeze("7/s1")
    assert g.freeze("7/s1")
    halted = {b"T", b"D"}  # D: the parent of a `vfork` whose child was stopped before its `exec`
    wait_until(lambda: all(processes.thread_states(pid) <= halted for pid in g.pids("7/s1")), what="all threads are stopped")
    size = out.stat().st_size
    time.sleep(0.1)  # ten times as long as it would be silent if it ran
    assert out.stat().st_size == size
    assert g.alive("7/s1")
    assert g.thaw("7/s1")
    wait_until(lambda: out.stat().st_size > size + 20, what="it runs on")
    [sleeper] = [pid for pid in token.pids() if pid != g.main_pid("7/s1")]
    assert processes.thread_states(sleeper) == {b"T"}  # the node had stopped it, so it stays stopped
    assert g.freeze("7/s1")
    assert g.crash("7/s1")
    assert token.pids() == []


def test_a_dead_key_can_be_started_again_and_forgotten(keeper_of_nodes: Nodes) -> None:
    g = keeper_of_nodes.client
    for code in (1, 2):
        keeper_of_nodes.shell("7/s1", f"exit {code}")
        exited = g.wait_gone("7/s1", 60)
        assert exited is not None
        assert exited.code == code
    g.forget("7/s1")
    g.forget("7/s1")
    assert not g.crash("7/s1")
    assert not g.alive("7/s1")
    with pytest.raises(KeyError):
        g.wait_exit("7/s1", 0)


def test_wait_exit_times_out(keeper_of_nodes: Nodes) -> None:
    keeper_of_nodes.start("7/s1", "sleep", "3600")
    assert keeper_of_nodes.client.wait_exit("7/s1", 0.01) is None


def _start_fails(nodes: Nodes, *argv: str) -> str:
    with pytest.raises(UserError) as raised:
        nodes.start("7/s1", *argv)
    assert not nodes.client.alive("7/s1")
    return str(raised.value)


def test_commands_that_cannot_be_executed(keeper_of_nodes: Nodes) -> None:
    folder = keeper_of_nodes.folder
    (folder / "text").write_text("echo hello\n")
    assert "'no-such-command' was not found in PATH=" in _start_fails(keeper_of_nodes, "no-such-command", "-x")
    assert "/no/such does not exist" in _start_fails(keeper_of_nodes, "/no/such").replace("'", "")
    assert "chmod +x" in _start_fails(keeper_of_nodes, "./text")
    (folder / "text").chmod(0o755)
    assert "#!/bin/sh" in _start_fails(keeper_of_nodes, "./text")
    assert "empty" in _start_fails(keeper_of_nodes)
    (folder / "text").write_text("#!/bin/sh\nexit 5\n")
    keeper_of_nodes.start("7/s1", "./text")
    exited = keeper_of_nodes.client.wait_exit("7/s1", 60)
    assert exited is not None
    assert exited.code == 5


def test_folders_that_are_missing(keeper_of_nodes: Nodes, tmp_path: Path) -> None:
    g = keeper_of_nodes.client
    files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
    with pytest.raises(UserError, match=r"working folder .*/absent cannot be used \(No such file"):
        g.start("7/s1", ["true"], {}, tmp_path / "absent", **files)
    files["stderr"] = tmp_path / "absent" / "err"
    with pytest.raises(UserError, match=r"file for its stderr .*/absent/err cannot be used"):
        g.start("7/s1", ["true"], {}, tmp_path, **files)


def test_parallel_starts_and_a_crash_of_one_run_only(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    failures: list[BaseException] = []

    def work(run: int) -> None:
        try:
            for number in range(4):
                keeper_of_nodes.shell(f"{run}/s{number}", f"sleep {token.text} & setsid sleep {token.text}")
            assert g.crash(f"{run}/s0")
            assert not g.alive(f"{run}/s0")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(run,)) for run in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    g.crash_all("3/")
    alive = {f"{run}/s{number}" for run in range(8) for number in range(4) if g.alive(f"{run}/s{number}")}
    assert alive == {f"{run}/s{number}" for run in range(8) if run != 3 for number in (1, 2, 3)}
    g.crash_all()
    assert token.pids() == []


def test_subscribers(keeper_of_nodes: Nodes) -> None:
    g = keeper_of_nodes.client
    seen: list[str] = []

    def restart_once(exited: Exit) -> None:
        seen.append(f"{exited.key} {exited.code}")
        if len(seen) == 1:
            keeper_of_nodes.shell(exited.key, "exit 2")  # a callback may use the client
            raise RuntimeError("a subscriber's defect")

    unsubscribe = g.subscribe("7/", restart_once)
    keeper_of_nodes.shell("8/s1", "exit 9")
    keeper_of_nodes.shell("7/s1", "exit 1")
    wait_until(lambda: len(seen) == 2, what="both exits")
    unsubscribe()
    keeper_of_nodes.shell("7/s2", "exit 3")
    assert g.wait_gone("7/s2", 60)
    assert seen == ["7/s1 1", "7/s1 2"]


def test_close_kills_all(tmp_path: Path, token: Token) -> None:
    with WatchedGuardian() as client:
        Nodes(client, tmp_path).shell("7/s1", family(token))
        whole_family(token)
        pid = client.guardian_pid
    assert token.pids() == []
    assert not processes.lives(pid)
    client.close()


def test_descendants_are_found_without_the_kernels_children_files(
    keeper_of_nodes: Nodes, token: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper_of_nodes.shell("7/s1", family(token))
    whole_family(token)
    keeper_of_nodes.client.freeze("7/s1")  # so that both ways see the same
    keeper = keeper_of_nodes.client.keeper_pid("7/s1")
    assert keeper is not None
    by_file = processes.descendants(keeper)
    monkeypatch.setattr(processes, "_HAS_CHILDREN_FILES", False)
    assert sorted(processes.descendants(keeper)) == sorted(by_file)
    assert len(by_file) >= 5
