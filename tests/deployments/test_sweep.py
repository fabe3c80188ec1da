"""The sweep removes what dead tools left, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_helpers import Nodes, Token

from undermine.deployments.guardian import processes
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.sweep import REGISTRY, note_scratch, removable, sweep

DEAD_TOOL = {"pid": 2**22 + 1, "start": 1}  # no such pid can be


@pytest.fixture
def planted(token: Token) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def _plant(processes: list[subprocess.Popen[bytes]], token: Token, campaign: str) -> subprocess.Popen[bytes]:
    command = ["/bin/sh", "-c", f"env -i sleep {token.text} & sleep {token.text}"]
    env = {"PATH": os.environ["PATH"], "UNDERMINE_CAMPAIGN": campaign}
    processes.append(subprocess.Popen(command, env=env))
    return processes[-1]


def test_marked_processes_and_their_descendants_die(
    tmp_path: Path, token: Token, planted: list[subprocess.Popen[bytes]]
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "mine2"
    marked = _plant(planted, token, str(mine))
    token.until_count(3)
    stranger = Token()
    spared = _plant(planted, stranger, str(other))
    stranger.until_count(3)
    done = sweep(mine)
    assert marked.wait(10) == -9
    token.until_none()
    assert any(f"killed process {marked.pid} " in line for line in done)
    assert len(done) == 3
    assert spared.poll() is None
    assert len(stranger.pids()) == 3
    stranger.kill_all()


def test_the_caller_and_its_ancestors_are_spared(tmp_path: Path) -> None:
    script = "from pathlib import Path; from undermine.deployments.sweep import sweep; import sys; " \
             "print(sweep(Path(sys.argv[1])))"  # fmt: skip
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "UNDERMINE_CAMPAIGN": str(tmp_path), "PYTHONPATH": root}
    command = ["/bin/sh", "-c", f'{sys.executable} -c "{script}" {tmp_path}; echo alive']
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert out.stdout == "[]\nalive\n"


def test_nodes_of_a_living_tool_are_spared(tmp_path: Path, token: Token) -> None:
    with GuardianClient(campaign_dir=tmp_path) as client:
        nodes = Nodes(client, tmp_path)
        nodes.shell("7/s1", f"sleep {token.text} & setsid sleep {token.text}; sleep 1")
        before = sorted(token.until_count(3))
        assert f"UNDERMINE_CAMPAIGN={tmp_path}" in Path(f"/proc/{before[0]}/environ").read_text().split("\0")
        assert sweep(tmp_path) == []
        assert sorted(token.pids()) == before


def _register(campaign: Path, *paths: Path, **more: object) -> None:
    with open(campaign / REGISTRY, "a") as file:
        file.writelines(json.dumps({"path": str(path), **DEAD_TOOL, **more}) + "\n" for path in paths)


def test_folders_of_dead_tools_are_removed(tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    short = Path(tempfile.mkdtemp(prefix="um-"))
    run = campaign / "runs" / "3" / "s1"
    kept = campaign / "runs" / "4"
    living = campaign / "runs" / "5"
    unregistered = campaign / "runs" / "6"
    for path in (run, kept, living, unregistered):
        path.mkdir(parents=True)
        (path / "data").write_text("x")
    note_scratch(campaign, living, wanted=False)
    _register(campaign, short, run, kept)
    _register(campaign, kept, kept=True)
    with open(campaign / REGISTRY, "a") as file:
        file.write('{"path": "/tmp/um-half')  # a tool killed while it wrote
    note_scratch(campaign, living, wanted=False)  # a line of its own all the same
    assert sorted(sweep(campaign)) == sorted([f"removed folder {short}", f"removed folder {run}"])
    assert not short.exists()
    assert not run.exists()
    assert all((path / "data").exists() for path in (kept, living, unregistered))
    [line] = (campaign / REGISTRY).read_text().splitlines()
    assert json.loads(line)["path"] == str(living)
    assert (campaign / REGISTRY).stat().st_mode & 0o077 == 0
    assert sweep(campaign) == []


def test_dangerous_registry_lines_do_nothing(tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    (campaign / "runs").mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.mkdir()
    link = campaign / "runs" / "link"
    link.symlink_to(precious)
    (campaign / "runs" / "up").symlink_to(tmp_path)
    dangerous = [
        precious, campaign, campaign / "runs", link, campaign / "runs" / ".." / ".." / "precious",
        campaign / "runs" / "up" / "precious", Path("um-relative"), Path(tempfile.gettempdir()), Path("/"),
    ]  # fmt: skip
    assert not any(removable(path, campaign) for path in dangerous)
    _register(campaign, *dangerous)
    (campaign / REGISTRY).open("a").write('[]\n{"path": 1}\nnull\n{"path": "/tmp/um-x", "pid": "a", "start": 1}\n')
    assert sweep(campaign) == []
    assert precious.is_dir()
    assert link.is_symlink()


def test_start_time_tells_a_reused_pid(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "1"
    path.mkdir(parents=True)
    start = processes.start_time(os.getpid())
    assert start is not None
    _register(tmp_path, path, pid=os.getpid(), start=start - 1)
    assert sweep(tmp_path) == [f"removed folder {path}"]


def test_a_campaign_without_anything(tmp_path: Path) -> None:
    assert sweep(tmp_path) == []
    assert sweep(tmp_path / "absent") == []
