"""What travels: the files of a project, and those of a run. Neither side writes outside of its folder."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest
from integration_project import Project
from tables import for_each

from undermine.config.load import load
from undermine.exchange.safe_zip import Damaged
from undermine.fleet import bundles, results
from undermine.fleet.results import TooLarge
from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.run import RunRecord
from undermine.store.rundir import RunDir, load_view, save_record


def finished(folder: Path) -> RunDir:
    """The folder of a run that has ended."""
    run = RunDir(folder)
    run.create()
    save_record(run, RunRecord(7, Plan(), "fired"))
    run.history.write_bytes(b"")
    (run.trace / "n1.1.9.events.gz").write_bytes(b"trace")
    run.log("n1", 1, "err").write_bytes(b"hello\n")
    (run.nodes / "n1").mkdir()
    (run.nodes / "n1" / "data").write_bytes(b"data")
    return run


def forged(*members: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in (("record.json", b"{}"), *members):
            archive.writestr(name, data)
    return stream.getvalue()


def test_a_run_comes_back_without_the_data_of_its_nodes(tmp_path: Path) -> None:
    files = results.pack(finished(tmp_path / "there"))
    here = RunDir(tmp_path / "here")
    here.create()
    results.unpack(files, here)
    assert load_view(here).record.id == 7
    assert (here.trace / "n1.1.9.events.gz").read_bytes() == b"trace"
    assert here.log("n1", 1, "err").read_bytes() == b"hello\n"
    assert not list(here.nodes.iterdir())


def test_links_and_pipes_of_a_target_are_not_read(tmp_path: Path) -> None:
    run = finished(tmp_path / "there")
    (run.logs / "n1.passwd.log").symlink_to("/etc/passwd")
    os.mkfifo(run.trace / "n1.1.8.events.gz")
    names = zipfile.ZipFile(io.BytesIO(results.pack(run))).namelist()
    assert names == ["record.json", "history.jsonl", "trace/n1.1.9.events.gz", "logs/n1.1.err"]


def test_of_a_large_log_the_end_comes_back(tmp_path: Path) -> None:
    run = finished(tmp_path / "there")
    run.log("n1", 1, "err").write_bytes(b"x" * results.LOG_BYTES_MAX + b"last\n")
    with zipfile.ZipFile(io.BytesIO(results.pack(run))) as archive:
        log = archive.read("logs/n1.1.err")
    assert len(log) == results.LOG_BYTES_MAX
    assert log.endswith(b"last\n")


def test_files_that_are_too_large_are_refused_on_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished(tmp_path / "there")
    monkeypatch.setattr(results, "TOTAL_BYTES_MAX", 20_000)
    (run.trace / "n1.1.9.events.gz").write_bytes(os.urandom(30_000))
    with pytest.raises(TooLarge, match=r"trace/n1\.1\.9\.events\.gz"):
        results.pack(run)


@for_each("name", ["../x", "/etc/x", "trace/../../x", "trace/a/b", "nodes/n1/x", "trace\\x", "x"])
def test_a_result_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    here = RunDir(tmp_path / "here")
    here.create()
    with pytest.raises(Damaged):
        results.unpack(forged((name, b"bad")), here)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@for_each("files", [b"", b"no zip file", forged()[:40]])
def test_a_damaged_result_is_refused(tmp_path: Path, files: bytes) -> None:
    with pytest.raises(Damaged):
        results.unpack(files, RunDir(tmp_path))


def test_equal_projects_have_equal_digests_and_other_ones_differ(tmp_path: Path) -> None:
    Project(tmp_path)
    one, other = (bundles.pack(load(tmp_path, {"mode": mode}), "a") for mode in ("x", "y"))
    assert one.project.digest == other.project.digest
    assert one.project.config != other.project.config
    (tmp_path / "kv.py").write_text("changed")
    assert bundles.pack(load(tmp_path), "a").project.digest != one.project.digest


def test_a_project_is_unpacked_as_it_was_and_its_configuration_moves_along(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    made = Project(tmp_path / "client")
    config = load(made.folder, {"mode": "safe"})
    bundle = bundles.pack(config, "a")
    folder = tmp_path / "worker"
    bundles.unpack(bundle.files, bundle.project.digest, folder)
    assert (folder / "kv.py").read_bytes() == (made.folder / "kv.py").read_bytes()
    moved = bundles.moved(bundle.project, folder, tmp_path / "results")
    assert (moved.path, moved.project) == (str(folder / "undermine.toml"), str(folder))
    assert moved.dir == tmp_path / "results"
    assert moved.params["mode"] == "safe"
    assert moved.significant() == config.significant()


def test_a_project_that_was_damaged_on_its_way_is_refused(tmp_path: Path) -> None:
    Project(tmp_path)
    bundle = bundles.pack(load(tmp_path), "a")
    with pytest.raises(UserError, match="damaged on its way"):
        bundles.unpack(bundle.files + b"x", bundle.project.digest, tmp_path / "there")
    assert not (tmp_path / "there").exists()
