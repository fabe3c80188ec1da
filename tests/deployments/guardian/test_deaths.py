"""Whatever is killed when, no process and no scratch folder of ours stays behind."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from pathlib import Path

import pytest
from node_helpers import Nodes, Token, family, spawn_tool, whole_family
from waiting import wait_until
from watched_guardian import WatchedGuardian

from undermine.deployments.guardian import processes
from undermine.deployments.guardian_client.link import GuardianDied
from undermine.deployments.sweep import sweep

# Starts and kills nodes for ever; says so after the first of them.
TOOL = """
import itertools, os, sys
from pathlib import Path
from watched_guardian import WatchedGuardian

folder, scratch, script, forked = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "forked"
client = WatchedGuardian(campaign_dir=folder)
client.scratch(scratch)
scratch.mkdir(mode=0o700)
if forked and os.fork() == 0:
    import time
    time.sleep(20)
    os._exit(0)
env = {"PATH": os.environ["PATH"]}
for number in itertools.count():
    key = f"{number // 3}/s{number % 3}"
    client.start(key, ["/bin/sh", "-c", script], env, folder, folder / "out", folder / "err")
    (scratch / f"data-{number}").write_text("data")
    if number == 2:
        print(client.guardian_pid, client.keeper_pid(key), flush=True)
    if number >= 6:
        client.crash(f"{(number - 6) // 3}/s{(number - 6) % 3}")
"""


def _scratch() -> Path:
    path = Path(tempfile.mkdtemp(prefix="um-test-"))
    path.rmdir()
    return path


def test_the_tool_is_killed_at_random_moments(tmp_path: Path, token: Token) -> None:
    for round_number in range(15):
        scratch = _scratch()
        tool = spawn_tool(TOOL, str(tmp_path), str(scratch), family(token), "")
        if round_number % 3:  # else also while the tool, its guardian and its first nodes start
            assert tool.stdout is not None
            tool.stdout.readline()
        time.sleep(random.uniform(0, 0.3))
        tool.kill()
        tool.wait()
        token.until_none()
        wait_until(lambda path=scratch: not path.exists(), what="the scratch folder is removed")  # type: ignore[misc]
        assert tool.stdout is not None
        tool.stdout.close()


def test_a_fork_of_the_tool_that_lives_on_does_not_keep_the_nodes(tmp_path: Path, token: Token) -> None:
    scratch = _scratch()
    tool = spawn_tool(TOOL, str(tmp_path), str(scratch), f"sleep {token.text}", "forked")
    assert tool.stdout is not None
    guardian_pid = int(tool.stdout.readline().split()[0])
    command = Path(f"/proc/{tool.pid}/cmdline").read_bytes()
    tool.kill()
    tool.wait()
    wait_until(lambda: not processes.lives(guardian_pid), what="the guardian ends")
    wait_until(lambda: not scratch.exists(), what="the scratch folder is removed")
    forks = [pid for pid in token.pids() if Path(f"/proc/{pid}/cmdline").read_bytes() == command]
    assert len(forks) == 1  # it did live on
    os.kill(forks[0], signal.SIGKILL)
    token.until_none()


def test_signals_of_a_terminal_do_not_reach_the_guardian(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    keeper_of_nodes.start("7/s1", "sleep", token.text)
    keeper = g.keeper_pid("7/s1")
    assert keeper is not None
    for pid in (g.guardian_pid, keeper):
        assert os.getsid(pid) != os.getsid(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    assert g.alive("7/s1")
    assert len(token.pids()) == 1


def test_the_guardian_is_killed(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    scratch = _scratch()
    g.scratch(scratch)
    scratch.mkdir()
    keeper_of_nodes.shell("7/s1", family(token))
    keeper_of_nodes.shell("7/s2", "setsid sleep 3600 & exit 0")
    whole_family(token)
    os.kill(g.guardian_pid, signal.SIGKILL)
    with pytest.raises(GuardianDied):
        g.wait_exit("7/s1", 60)
    assert g.guardian_died
    for call in (g.alive, g.crash, g.freeze, g.pids):
        with pytest.raises(GuardianDied):
            call("7/s1")
    token.until_none()
    g.restart()
    assert not g.guardian_died
    assert scratch.exists()
    keeper_of_nodes.start("7/s1", "sleep", token.text)
    assert g.alive("7/s1")
    g.close()
    assert not scratch.exists()
    assert token.pids() == []


def test_a_client_without_its_guardian_still_cleans_up(tmp_path: Path, token: Token) -> None:
    scratch = _scratch()
    with WatchedGuardian(campaign_dir=tmp_path) as client:
        client.scratch(scratch)
        scratch.mkdir()
        Nodes(client, tmp_path).shell("7/s1", family(token))
        whole_family(token)
        os.kill(client.guardian_pid, signal.SIGKILL)
    assert token.pids() == []
    assert not scratch.exists()


def test_a_restart_returns_only_when_the_old_nodes_are_dead(keeper_of_nodes: Nodes, token: Token) -> None:
    keeper_of_nodes.shell("7/s1", family(token))
    whole_family(token)
    os.kill(keeper_of_nodes.client.guardian_pid, signal.SIGKILL)
    keeper_of_nodes.client.restart()
    assert token.pids() == []


def test_a_keeper_is_killed(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    other = Token()
    keeper_of_nodes.start("7/s2", "sleep", other.text)
    keeper_of_nodes.shell("7/s1", family(token))
    whole_family(token)
    keeper = g.keeper_pid("7/s1")
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    exited = g.wait_gone("7/s1", 60)
    assert exited is not None
    assert (exited.code, exited.crashed, exited.still_alive) == (-signal.SIGKILL, False, False)
    assert token.pids() == []
    assert not g.alive("7/s1")
    assert g.alive("7/s2")
    assert len(other.pids()) == 1
    assert g.crash("7/s2")


def test_a_keeper_is_killed_while_it_is_asked(keeper_of_nodes: Nodes, token: Token) -> None:
    g = keeper_of_nodes.client
    keeper_of_nodes.shell("7/s1", family(token))
    whole_family(token)
    keeper = g.keeper_pid("7/s1")
    assert keeper is not None
    os.kill(keeper, signal.SIGSTOP)  # so that the question is still open when it dies
    answer = g._link.send({"op": "crash", "node": g._nodes["7/s1"].number})
    os.kill(keeper, signal.SIGKILL)
    assert answer.result(10).get("left", []) == []  # or the guardian saw its death first
    assert token.pids() == []


def test_a_stopped_keeper_does_not_save_its_node(tmp_path: Path, token: Token) -> None:
    with WatchedGuardian() as client:
        Nodes(client, tmp_path).shell("7/s1", family(token))
        whole_family(token)
        keeper = client.keeper_pid("7/s1")
        assert keeper is not None
        os.kill(keeper, signal.SIGSTOP)
    assert token.pids() == []
    assert not processes.lives(keeper)


def test_guardian_and_tool_are_killed_together(tmp_path: Path, token: Token) -> None:
    for _ in range(3):
        scratch = _scratch()
        tool = spawn_tool(TOOL, str(tmp_path), str(scratch), family(token), "")
        assert tool.stdout is not None
        pids = [int(word) for word in tool.stdout.readline().split()]
        time.sleep(random.uniform(0, 0.1))
        os.kill(tool.pid, signal.SIGSTOP)  # else it would see the guardian's end, and that is another test
        os.kill(pids[0], signal.SIGKILL)
        tool.kill()
        tool.wait()
        tool.stdout.close()
        token.until_none()
        assert sweep(tmp_path) == [f"removed folder {scratch}"]
        assert not scratch.exists()


def test_tool_guardian_and_keeper_are_killed_together(tmp_path: Path, token: Token) -> None:
    scratch = _scratch()
    node = f"sleep {token.text} & setsid sleep {token.text} & sleep {token.text}"
    tool = spawn_tool(TOOL, str(tmp_path), str(scratch), node, "")
    assert tool.stdout is not None
    guardian_pid = int(tool.stdout.readline().split()[0])
    tool_and_others = [tool.pid, guardian_pid]
    for pid in tool_and_others:
        os.kill(pid, signal.SIGSTOP)
    tool_and_others += processes.children_by_file(guardian_pid)
    for pid in reversed(tool_and_others):
        os.kill(pid, signal.SIGKILL)
    tool.wait()
    tool.stdout.close()
    assert any(processes.lives(pid) for pid in token.pids())  # nobody was left to kill these
    done = sweep(tmp_path)
    assert any(line.startswith("killed process") for line in done)
    assert f"removed folder {scratch}" in done
    token.until_none()
    assert sweep(tmp_path) == []


def test_only_certain_folders_may_be_scratch(keeper_of_nodes: Nodes, tmp_path: Path) -> None:
    for path in (Path("/"), Path.home(), Path(tempfile.gettempdir()), tmp_path, Path("/etc/um-x")):
        with pytest.raises(ValueError, match="neither"):
            keeper_of_nodes.client.scratch(path)


def test_an_unscratched_folder_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "runs" / "1"
    dropped = tmp_path / "runs" / "2"
    with WatchedGuardian(campaign_dir=tmp_path) as client:
        for path in (kept, dropped):
            client.scratch(path)
            path.mkdir(parents=True)
        client.unscratch(kept)
    assert kept.is_dir()
    assert not dropped.exists()
    assert sweep(tmp_path) == []
    assert kept.is_dir()
