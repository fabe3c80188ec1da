"""Nodes that run as an unprivileged user: faults work as usual, and a node reaches nothing of the campaign but its own files."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration_project import LOST, TARGET, TOML, Project

from undermine.config.load import load
from undermine.deployments import cgroups
from undermine.deployments.guardian_client import accounts
from undermine.deployments.guardian_client.accounts import Accounts
from undermine.deployments.slow import disk as slow_disk
from undermine.findings.realism import probe
from undermine.model.errors import UserError
from undermine.model.faults import Crash, Delay, Fault, Kept, Pause, PowerLoss, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.model.run import Conditions, RunView
from undermine.run.engine import Engine, open_engine
from undermine.store.database import CampaignStore

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run nodes as another user")]

USER = "nobody"
PYTHON = "/usr/bin/python3"
"""The Python that runs the tests may be in a home folder that no other user can enter."""
WRITE = Point.of({"op": "file.write", "target": "log.txt"})


def toml_for(user: str) -> str:
    toml = TOML.replace("{python} {project}/kv.py", f"{PYTHON} {{project}}/witness.py")
    return toml.replace("[run]", f'[run]\nuser = "{user}"')


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that everybody can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="undermine-user-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def new_project(folder: Path, name: str, toml: str) -> Project:
    made = folder / name
    made.mkdir()
    project = Project(made)
    shutil.copy(Path(__file__).parent / "target" / "witness.py", made)
    project.write(toml)
    return project


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    project = new_project(folder, "project", toml_for(USER))
    with open_engine(load(project.folder, {"behaviour": "sound"}), project.results / "test") as opened:
        yield opened
    project.wait_until_nothing_runs()


class Runs:
    """Executes plans one after the other. The first run has the number 1 and no fault."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.folder = engine.config.dir / "test" / "runs"
        self.last = Path()
        if not self.folder.exists():
            CampaignStore(self.folder.parent).close()
            self()

    def __call__(self, *faults: Fault, conditions: Conditions = Conditions()) -> RunView:  # noqa: B008 - frozen
        number = len(list(self.folder.iterdir())) + 1
        self.last = self.folder / str(number)
        steps = tuple(Step(At(WRITE, "before", 3), fault) for fault in faults)
        return self.engine.runner.execute(self.last, number, Plan(steps), conditions=conditions)

    def witness(self, node: str = "n1", incarnation: int = 1) -> dict[str, Any]:
        return json.loads((self.last / "logs" / f"{node}.{incarnation}.out").read_text().splitlines()[0])


@pytest.fixture
def run(engine: Engine) -> Runs:
    return Runs(engine)


def puts(view: RunView) -> list[str]:
    return [op.status for op in view.history if op.f == "put"]


def test_a_node_has_the_ids_the_groups_and_the_home_of_its_user(run: Runs) -> None:
    view = run()
    assert view.record.status == "fired", view.record.reason
    assert puts(view) == ["ok"] * 6
    user, said = pwd.getpwnam(USER), run.witness()
    assert said["ids"] == [user.pw_uid] * 3 + [user.pw_gid] * 3
    assert set(said["groups"]) > set(os.getgrouplist(USER, user.pw_gid))
    assert 0 not in said["groups"]
    assert said["home"] == user.pw_dir
    assert said["user"] == [USER, USER]
    assert said["child"] == user.pw_uid
    assert [agent.agent for agent in view.trace.agents] == ["python-fast/1"]


def test_a_node_can_change_its_own_files_and_nothing_else_of_the_campaign(run: Runs) -> None:
    run()
    said = run.witness()
    number = run.last.name
    assert said["own"] == [f"runs/{number}/nodes/n1", f"runs/{number}/trace"]
    assert said["others"] == [f"runs/{number}/state.bin"]
    assert said["agent"]
    assert said["stdout"]
    assert not said["may_kill_keeper"]
    assert not said["left_cgroup"]


def test_when_a_run_is_over_no_user_can_enter_its_folder(run: Runs) -> None:
    run()
    assert run.last.stat().st_mode & 0o777 == 0o700
    assert (run.last / "trace").stat().st_mode & 0o7777 == 0o700


def test_the_witness_of_these_tests_notices_what_it_can_change(folder: Path) -> None:
    project = new_project(folder, "root", toml_for("root"))
    with open_engine(load(project.folder), project.results / "test") as opened:
        run = Runs(opened)
        run()
        assert len(run.witness()["others"]) == 13
        assert run.witness()["others"][1] == "campaign.db"
        assert run.witness()["may_kill_keeper"]


def test_a_strict_umask_of_the_tool_does_not_hide_the_agent_from_nodes(folder: Path) -> None:
    project = new_project(folder, "umask", toml_for(USER))
    given = os.umask(0o077)
    try:
        with open_engine(load(project.folder), project.results / "test") as opened:
            run = Runs(opened)
            view = run(Reboot(0.1))
    finally:
        os.umask(given)
    assert view.record.status == "fired", (view.record.reason, puts(view), view.trace.agents, view.trace.problems)
    assert [agent.agent for agent in view.trace.agents] == ["python-fast/1"] * 2


@pytest.mark.parametrize("fault", [Crash(), Reboot(0.1)])
def test_a_node_that_starts_again_has_the_same_user(run: Runs, fault: Fault) -> None:
    view = run(fault)
    assert view.record.status == "fired", view.record.reason
    (exited,) = view.record.exits
    assert exited.expected
    assert run.witness(incarnation=2)["ids"] == run.witness()["ids"]
    assert view.record.settling.final == "ok"


def test_a_crash_takes_a_child_in_another_session_along_without_cgroups_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent of an unprivileged node cannot signal its keeper: the tool must kill the rest."""
    monkeypatch.setattr(cgroups, "missing", lambda: "for this test")
    project = new_project(folder, "without-cgroups", toml_for(USER))
    with open_engine(load(project.folder, {"behaviour": "setsid-child"}), project.results / "test") as opened:
        run = Runs(opened)
        view = run(Crash())
        assert view.record.status == "fired", view.record.reason
        both = ([int(beat) for beat in path.read_text().split()] for path in (run.last / "nodes" / "n1").glob("beats.*"))
        (before, after) = sorted(both)
        assert before[-1] < after[0]
    project.wait_until_nothing_runs()


def test_a_node_can_be_paused_and_delayed(run: Runs) -> None:
    for fault in (Pause(0.3), Delay(0.3)):
        view = run(fault)
        assert view.record.status == "fired", view.record.reason
        assert view.receipts[0].held_ns >= 0.3e9


def test_a_hanging_node_shows_its_stacks(run: Runs) -> None:
    view = run(Delay(60))
    (stacks,) = view.record.stacks
    assert not stacks.problem
    assert any("put" in frame for thread in stacks.doing for frame in thread.stack)


needs_disks = pytest.mark.skipif(bool(slow_disk.missing()), reason=slow_disk.missing() or "possible here")


@needs_disks
@pytest.mark.parametrize(("kept", "lost"), [("none", "the entry of log.txt"), ("names", "12 bytes of log.txt")])
def test_after_a_power_loss_the_node_owns_its_files_and_starts_again(run: Runs, kept: Kept, lost: str) -> None:
    view = run(PowerLoss(kept))
    assert lost in view.receipts[0].detail
    assert view.record.status == "fired", view.record.reason
    assert run.witness(incarnation=2)["ids"] == run.witness()["ids"]
    assert {path.stat().st_uid for path in (run.last / "nodes" / "n1").rglob("*")} == {pwd.getpwnam(USER).pw_uid}
    assert view.record.settling.final == "ok"


@needs_disks
def test_a_disk_can_be_slow(folder: Path) -> None:
    project = new_project(folder, "slow", toml_for(USER).replace("witness.py", "durable_kv.py"))
    shutil.copy(TARGET / "durable_kv.py", project.folder)
    with open_engine(load(project.folder, {"behaviour": "safe"}), project.results / "test") as opened:
        plan = probe(Plan((Step(At(Point.of({"op": "file.fsync"}), "before", 3), Delay(1.0)),)))
        folder_of_run = opened.config.dir / "test" / "runs" / "1"
        view = opened.runner.execute(folder_of_run, 1, plan, conditions=Conditions(slow_s=1.0))
    assert view.record.status == "fired", view.record.reason
    (slowed,) = view.record.slow_ops
    assert (slowed.device, slowed.unknown) == ("disk", "")
    assert slowed.took_s >= 1.0


@pytest.mark.skipif(not shutil.which("javac") or not shutil.which("mvn"), reason="needs a JDK and Maven")
def test_a_java_node_loads_its_agent_and_keeps_its_user(folder: Path) -> None:
    toml = toml_for(USER).replace(f"{PYTHON} {{project}}/witness.py", "{java} -cp {project} Kv")
    project = new_project(folder, "java", toml)
    source = Path(__file__).parent / "target" / "Kv.java"
    subprocess.run(["javac", "-d", str(project.folder), str(source)], check=True)
    with open_engine(load(project.folder), project.results / "test") as opened:
        run = Runs(opened)
        view = run(Reboot(0.1))
        assert view.record.status == "fired", view.record.reason
        assert [(agent.agent, agent.why_slow) for agent in view.trace.agents] == [("jvm/1", "")] * 2
        for incarnation in (1, 2):
            assert (run.last / "logs" / f"n1.{incarnation}.out").read_text().splitlines() == [USER]
        assert puts(view).count("ok") >= 2
        assert view.record.settling.final == "ok"
        # The agent keeps woven classes there, if the node lives for long enough.
        assert stat.S_IMODE((opened.runner._agent_copies / "written").stat().st_mode) == 0o1730
    project.wait_until_nothing_runs()


def test_nodes_with_different_users_cannot_change_each_others_folders(folder: Path) -> None:
    role = "[roles.{0}]\nnodes = ['{1}']\ncommand = '{2} {{project}}/witness.py {{host}} {{port}} {{dir}}'\n"
    roles = "".join(role.format(user, node, PYTHON) for user, node in (("nobody", "n1"), ("daemon", "n2")))
    toml = toml_for("{role}")
    project = new_project(folder, "two-users", toml[: toml.index("[roles")] + roles + toml[toml.index("[workload") :])
    with open_engine(load(project.folder), project.results / "test") as opened:
        run = Runs(opened)
        view = run()
        assert view.record.status == "fired", view.record.reason
        for node, user in (("n1", "nobody"), ("n2", "daemon")):
            assert run.witness(node)["user"] == [user, user]
            assert run.witness(node)["neighbours"] == []
        assert {agent.node for agent in view.trace.agents} == {"n1", "n2"}


# --- mistakes


def test_an_unknown_user_is_refused(folder: Path) -> None:
    project = new_project(folder, "unknown", toml_for("nobody-at-all"))
    done = project.run("check")
    assert done.returncode == 2
    assert "run.user names 'nobody-at-all', which is not a user of this machine" in done.stderr


def test_a_user_needs_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = new_project(folder, "not-root", toml_for(USER))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="needs root, to start nodes as nobody"):
        Accounts(load(project.folder))


def test_a_container_without_other_groups_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `unshare --user --map-root-user`."""
    (tmp_path / "gid_map").write_text("         0          0          1\n")
    monkeypatch.setattr(accounts, "_GROUPS", tmp_path / "gid_map")
    project = new_project(folder, "container", toml_for(USER))
    with pytest.raises(UserError, match=r"undermine.toml:\d+: run.user needs other users and groups"):
        Accounts(load(project.folder))


def test_an_unknown_placeholder_in_the_user_is_refused(folder: Path) -> None:
    project = new_project(folder, "placeholder", toml_for("{nobody}"))
    with pytest.raises(UserError, match=r"run.user has an unknown placeholder \{nobody\}"):
        load(project.folder)


@pytest.mark.parametrize("hidden", ["python3", "server.py"])
def test_a_file_that_the_user_cannot_reach_is_named_with_the_folder_that_stops_it(folder: Path, hidden: str) -> None:
    private = folder / f"private-{hidden}"
    (private / "below").mkdir(parents=True)
    (private / "below" / "python3").symlink_to(PYTHON)
    shutil.copy(TARGET / "kv.py", private / "below" / "server.py")
    private.chmod(0o700)
    needed = private / "below" / hidden
    program, script = (needed, "{project}/kv.py") if hidden == "python3" else (PYTHON, needed)
    toml = toml_for(USER).replace(f"{PYTHON} {{project}}/witness.py", f"{program} {script}")
    project = new_project(folder, f"hidden-{hidden}", toml)
    done = project.run("check")
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"node n1 runs as nobody and needs {needed}, but nobody may not enter {private}" in said
    assert f"chmod o+x {private}" in said


def test_a_project_that_the_user_cannot_enter_is_refused(folder: Path) -> None:
    project = new_project(folder, "locked", toml_for(USER).replace("{project}/", f"{folder}/project/"))
    project.folder.chmod(0o700)
    done = project.run("check")
    assert done.returncode == 2
    assert f"nobody may not enter {project.folder}" in " ".join(done.stderr.split())


# --- commands


def test_a_hunt_finds_the_bug_and_check_names_the_user(folder: Path) -> None:
    project = new_project(folder, "hunted", toml_for(USER))
    done = project.run("check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nodes run as: nobody" in done.stdout
    done = project.run("hunt", "-s", "exhaustive", "--max-runs", "3", "--budget", "10m")
    assert done.returncode == 1, done.stdout + done.stderr
    assert LOST in done.stdout
    project.wait_until_nothing_runs()


@pytest.mark.parametrize(
    ("misdeed", "code"),
    [("removes_run", 0), ("replaces_history", 0), ("replaces_state", 0), ("kills_keeper", 0), ("cuts_events", 3)],
)
def test_a_node_that_damages_files_of_the_tool_fails_unless_they_are_its_own(folder: Path, misdeed: str, code: int) -> None:
    project = new_project(folder, f"hunted-{misdeed}", toml_for(USER).replace("witness.py", "misbehaving.py"))
    shutil.copytree(Path(__file__).parent / "target", project.folder, dirs_exist_ok=True)
    done = project.run("check", "--set", f"behaviour={misdeed},always")
    assert done.returncode == code, done.stdout + done.stderr
    assert ("broke" in done.stdout) == (code != 0)
    project.wait_until_nothing_runs()
