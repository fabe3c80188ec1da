"""Bad input: one clear sentence, the right exit code, and no stored run is lost."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess

import pytest
from integration_project import TOML

from undermine.campaign.running import ATTEMPTS_MAX

pytestmark = pytest.mark.slow


def sentence(done) -> str:
    lines = [line for line in done.stderr.splitlines() if line]
    assert lines, done
    assert lines[0].startswith("error: "), done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(lines)


def test_malformed_toml_names_the_line(project) -> None:
    project.write('[campaign]\nplugins = "hunt.py"\n[roles.kv\n')
    done = project.run("hunt")
    assert done.returncode == 2
    assert "undermine.toml:3" in sentence(done)


def test_no_config_says_what_to_do(project) -> None:
    (project.folder / "undermine.toml").unlink()
    done = project.run("check")
    assert done.returncode == 2
    assert "undermine init" in sentence(done)


def test_a_variable_that_no_node_has_names_the_part_that_leads_nowhere(project) -> None:
    paths = 'variables = {path = "__main__:CampaignStore.path", pth = "__main__:CampaignStore.pth", gone = "no.module:x"}'
    project.write(TOML.replace("[roles.kv]", f"[roles.kv]\n{paths}"))
    done = project.run("check")
    assert done.returncode == 2
    told = " ".join(done.stdout.split())
    assert "n1 path /" in told, "the value of the one that it has"
    assert "error: the variable pth of the role kv matched nothing: n1: CampaignStore (CampaignStore) has no plain" in told
    assert "matched nothing: n1: the module no.module isn't imported (path no.module:x)" in told
    assert "the variable path" not in told


def test_unknown_strategy_names_the_known_ones(project) -> None:
    done = project.run("hunt", "-s", "psychic")
    assert done.returncode == 2
    assert "random" in sentence(done)


@pytest.mark.parametrize("command", ["check", "plan", "hunt"])
def test_an_unknown_policy_is_refused_before_anything_runs(project, command) -> None:
    project.write(TOML + '[strategies.prefail]\npolicies = ["crash_before_writes", "any_node"]\n')
    done = project.run(command)
    assert done.returncode == 2
    assert f"undermine.toml:{len(TOML.splitlines()) + 2}: " in sentence(done)
    assert "did you mean any_nodes" in sentence(done)
    assert not (project.results / "latest").exists()
    assert not list(project.results.rglob("runs/*"))


@pytest.mark.parametrize("command", ["check", "plan", "hunt"])
def test_a_loss_that_is_not_possible_here_is_refused_before_anything_runs(project, command) -> None:
    text = TOML.replace("[run]", '[run]\nisolation = "ports"') + '[strategies.cofi]\nloss = "network"\n'
    project.write(text)
    done = project.run(command)
    assert done.returncode == 2
    assert f"undermine.toml:{len(text.splitlines())}: network partitions need network namespaces" in sentence(done)
    assert not list(project.results.rglob("runs/*"))


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("hunt", "--budget", "soon"), '--budget "soon" is not a time like "90s"'),
        (("hunt", "--budget", "0"), "--budget must be greater than zero"),
        (("hunt", "--jobs", "0"), "'--jobs'"),
        (("hunt", "--set", "x"), "--set 'x' is not NAME=VALUE"),
        (("frobnicate",), "No such command 'frobnicate'"),
    ],
)
def test_a_bad_argument_is_named(project, args, part) -> None:
    done = project.run(*args)
    assert done.returncode == 2
    assert part in sentence(done)


def test_a_node_that_never_gets_ready_is_exit_code_3(project) -> None:
    project.write(TOML.replace("timeout_s = 60", "timeout_s = 1"))
    done = project.run("hunt", "--set", "behaviour=never-ready")
    assert done.returncode == 3
    assert "n1 did not get ready" in sentence(done)
    project.wait_until_nothing_runs()


def test_the_error_for_a_node_that_exits_has_its_output(project) -> None:
    done = project.run("hunt", "--set", "behaviour=exits")
    assert done.returncode == 3
    assert "no licence" in sentence(done)
    assert len(list((project.results / "latest" / "runs").iterdir())) == 1, "the next run would fail too"


def project_with_port(project, port: int, ready: str) -> None:
    """Give the node this port. It is ready when it has logged `ready`."""
    toml = (project.folder / "undermine.toml").read_text()
    toml = toml.replace("{host} {port} {dir}", f"{{host}} {port} {{dir}}").replace('{tcp = "main"', f'{{log = "{ready}"')
    project.write(toml.replace("[run]", '[run]\nisolation = "ports"'))


def test_a_port_in_use_is_named(project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        project_with_port(project, taken.getsockname()[1], "ready")
        done = project.run("hunt")
    assert done.returncode == 3
    assert "in use" in sentence(done)


def test_a_node_that_lacks_its_port_is_started_again(project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        project_with_port(project, taken.getsockname()[1], "logged after binding")
        done = project.run("hunt")
    assert done.returncode == 3
    assert "n1 did not get ready" in sentence(done)
    assert len(list((project.results / "latest" / "runs").iterdir())) == ATTEMPTS_MAX


def test_a_workload_that_raises_without_faults(project) -> None:
    done = project.run("hunt", "--set", "mode=raises")
    assert done.returncode == 3
    assert "the workload is broken" in sentence(done)


def test_a_workload_that_hangs_without_faults(project) -> None:
    done = project.run("hunt", "--set", "mode=hangs")
    assert done.returncode == 3
    assert "never answered" in sentence(done)
    project.wait_until_nothing_runs()


def test_a_plugin_file_that_cannot_be_loaded(project) -> None:
    text = "import undermine\n@undermine.workload\ndef workload(s): pass\nraise ValueError('oops')\n"
    (project.folder / "hunt.py").write_text(text)
    done = project.run("hunt")
    assert done.returncode == 2
    assert "oops" in sentence(done)


@pytest.mark.parametrize("command", ["check", "trace"])
def test_a_plugin_file_without_a_workload_is_refused_before_anything_runs(project, command) -> None:
    (project.folder / "hunt.py").write_text("def workload(s): pass\n")
    done = project.run(command)
    assert done.returncode == 2
    assert "hunt.py has 0 functions marked @undermine.workload" in sentence(done)
    assert not list(project.results.rglob("runs/*"))


def test_a_truncated_trace_file_does_not_stop_a_recheck(project) -> None:
    project.run("hunt", "-s", "random", "--max-runs", "2", "--set", "behaviour=sound")
    files = sorted(project.results.glob("campaigns/*/runs/*/trace/*.events.gz"))
    assert files
    for number, path in enumerate(files):
        os.truncate(path, path.stat().st_size // 2 if number else 0)
    done = project.run("report", "--recheck")
    assert done.returncode in (0, 1), done.stderr
    assert "the verdicts of " in done.stdout
    assert "Traceback" not in done.stderr


def test_resume_refuses_a_changed_config_and_says_what_changed(project) -> None:
    project.run("hunt", "-s", "random", "--max-runs", "1", "--set", "behaviour=sound")
    done = project.run("hunt", "--resume", "-s", "random", "--max-runs", "1")
    assert done.returncode == 2
    assert "behaviour" in sentence(done)
    done = project.run(
        "hunt", "--resume", "--accept-changes", "-s", "random", "--max-runs", "1", "--set", "behaviour=sound"
    )
    assert done.returncode == 0, done.stderr


def test_resume_without_a_campaign(project) -> None:
    done = project.run("hunt", "--resume")
    assert done.returncode == 2
    assert "undermine hunt" in sentence(done)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root to make a small disk")
def test_a_full_disk_loses_nothing(project) -> None:
    project.results.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "none", project.results], check=False).returncode:
        pytest.skip("cannot mount a small disk here")
    try:
        done = project.run("hunt", "-s", "random", "--max-runs", "200", "--set", "behaviour=sound")
        assert done.returncode == 2, done.stdout + done.stderr
        assert "free some space" in sentence(done)
        project.wait_until_nothing_runs()
        subprocess.run(["mount", "-o", "remount,size=40m", project.results], check=True)
        done = project.run("hunt", "--resume", "-s", "random", "--max-runs", "1", "--set", "behaviour=sound")
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        subprocess.run(["umount", "-l", project.results], check=True)
