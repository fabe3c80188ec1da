"""Power losses against programs that are known to be safe or unsafe: a hunt finds the bugs of the unsafe ones, and only those."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from integration_project import LOST, TARGET, TOML, Project

from undermine.config.load import load
from undermine.deployments.slow import disk as slow_disk
from undermine.model.faults import Kept, PowerLoss, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point
from undermine.model.run import RunView
from undermine.run.engine import Engine, open_engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(slow_disk.missing()), reason=slow_disk.missing() or "possible here"),
]

ANSWER = Point.of({"op": "net.send", "target": "accepted"})
RENAME = Point.of({"op": "file.rename"})


def prepare(project: Project, behaviour: str, faults: str = "") -> None:
    shutil.copy(TARGET / "durable_kv.py", project.folder)
    toml = TOML.replace("kv.py", "durable_kv.py").replace('behaviour = ""', f'behaviour = "{behaviour}"')
    project.write(toml + faults)


# --- single runs


class Runs:
    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self.last: Path

    def __call__(self, *steps: Step) -> RunView:
        self.last = self._folder / str(len(list(self._folder.iterdir())))
        return self._engine.runner.execute(self.last, 1, Plan(steps))


@pytest.fixture
def behaviour() -> str:
    return "plain"


@pytest.fixture
def mode() -> str:
    return ""


@pytest.fixture
def run(project: Project, behaviour: str, mode: str, tmp_path: Path) -> Iterator[Runs]:
    prepare(project, behaviour)
    (tmp_path / "runs").mkdir()
    with open_engine(load(project.folder, {"mode": mode}), project.results / "test") as engine:
        yield Runs(engine, tmp_path / "runs")


def lost(view: RunView) -> list[str]:
    """The keys that were acknowledged and are gone at the end."""
    acked = {op.args["key"] for op in view.history if op.f == "put" and op.status == "ok"}
    return sorted(op.args["key"] for op in view.history if op.f == "get" and op.value == "none" and op.args["key"] in acked)


@pytest.mark.parametrize("behaviour", ["file-sync"])
@pytest.mark.parametrize("restart", [True, False])
def test_a_node_loses_what_it_did_not_sync_and_comes_back(run: Runs, restart: bool) -> None:
    after_s = 0.1 if restart else 600.0  # then healing starts it
    view = run(Step(At(ANSWER, "after", 3), PowerLoss("none", after_s=after_s)))
    assert view.record.status == "fired", view.record.reason
    assert [(r.node, r.action, r.detail) for r in view.receipts] == [
        ("n1", "power", "lost: the entry of state; the removal of state.new")
    ]
    assert lost(view) == ["k2"], "each put but the last made the name of the one before durable"
    assert [end.expected for end in view.record.exits] == [True]
    assert not (run.last / "synced").exists(), "no copies are left"


@pytest.mark.parametrize("behaviour", ["safe"])
@pytest.mark.parametrize("kept", ["names", "none", "prefix", "reordered", "posix"])
def test_nothing_that_was_synced_is_lost(run: Runs, kept: Kept) -> None:
    view = run(Step(At(ANSWER, "after", 3), PowerLoss(kept)))
    assert view.receipts[0].detail == "lost: nothing, since everything was synced"
    assert lost(view) == []


@pytest.mark.parametrize("mode", ["slow"])
def test_a_reboot_keeps_what_is_not_synced_and_a_power_loss_after_it_does_not(run: Runs) -> None:
    reboot = Step(At(ANSWER, "after", 2), Reboot(0.1))
    assert lost(run(reboot)) == []
    view = run(reboot, Step(At(RENAME), PowerLoss("none")))
    assert lost(view)[:2] == ["k0", "k1"]


def test_a_power_loss_is_the_same_again(run: Runs) -> None:
    views = [run(Step(At(ANSWER, "after", 3), PowerLoss("prefix", 0.25))) for _ in range(2)]
    assert {view.receipts[0].detail for view in views} == {"lost: 36 bytes of state"}
    assert [end.code for view in views for end in view.record.exits if not end.expected] != [], "a quarter is not JSON"


# --- hunts


@pytest.mark.parametrize(
    ("behaviour", "faults", "symptom"),
    [
        ("plain", 'kinds = ["reboot"]\npower = true', r"ends by itself .*JSONDecodeError|does not serve again"),
        ("file-sync", 'kinds = ["power"]\npower_kept = ["none"]', LOST),
        ("sqlite-full", 'kinds = ["power"]\npower_kept = ["none"]', LOST),
    ],
)
def test_a_hunt_finds_what_an_unsafe_program_does_not_sync(
    project: Project, behaviour: str, faults: str, symptom: str
) -> None:
    prepare(project, behaviour, f"[faults]\n{faults}\n")
    done = project.run("hunt", "-s", "exhaustive", "--max-runs", "30", "--budget", "10m")
    assert done.returncode == 1, done.stdout + done.stderr
    findings = project.json("report")["findings"]
    assert any(re.search(symptom, finding["symptom"]) for finding in findings), findings
    assert "0/1 without the fault" in done.stdout
    assert "power loss" in done.stdout
    assert "lost: " in (project.results / "latest" / "report.html").read_text(), "the report shows the receipt"


@pytest.mark.parametrize("behaviour", ["safe", "sqlite-extra"])
def test_a_hunt_finds_nothing_in_a_safe_program(project: Project, behaviour: str) -> None:
    prepare(project, behaviour, '[faults]\nkinds = ["power"]\npower_kept = ["names", "none"]\n')
    done = project.run("hunt", "-s", "exhaustive", "--budget", "10m")
    assert done.returncode == 0, done.stdout + done.stderr
    records = [msgspec.json.decode(path.read_bytes()) for path in project.results.glob("latest/runs/*/record.json")]
    receipts = [receipt for record in records for receipt in record["receipts"]]
    assert {receipt["action"] for receipt in receipts} == {"power"}
    assert any("the entry of" in receipt["detail"] for receipt in receipts), "something was lost in some of these runs"
