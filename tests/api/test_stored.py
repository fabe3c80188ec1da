"""A stored campaign: its findings, regrouped by today's rules, with their logs and bundles."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import pytest

from undermine import api
from undermine.api import stored
from undermine.cli import report
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.exchange import suppressions as suppression_file
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step
from undermine.model.run import RunRecord, Verdict
from undermine.store import campaign_dirs
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, save_record
from undermine.testing import point

TOML = """
[campaign]
plugins = "hunt.py"
[roles.kv]
nodes = ["n1"]
command = "{python} -c pass"
"""
PLAN = Plan((Step(At(point()), Crash()),))
FOUND = Finding("F1", "lost 3 writes", "lost", PLAN, (1,), ("random",), (), 3, 3, shown_by=1)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "undermine.toml").write_text(TOML)
    (tmp_path / "hunt.py").write_text("import undermine\n\n@undermine.workload\ndef workload(s): ...\n")
    return load(tmp_path)


@pytest.fixture
def folder(config: Config) -> Path:
    """A campaign with one finding, which one run shows."""
    folder = campaign_dirs.new_campaign_dir(config)
    store = CampaignStore(folder)
    store.set_meta("identity", {"significant": config.significant(), "fingerprint": config.fingerprint()})
    (slot,) = store.write_round("random", [PLAN])
    run = store.begin_run(slot)
    record = RunRecord(run, PLAN, "fired")
    verdicts = (
        Verdict("fail", "text", "lost 3 writes", (), "mine"),
        Verdict("pass", "", "", ("n1: odd",), "logs"),
    )
    store.finish_run(slot, record, verdicts, "lost 3 writes", (), ())
    place = RunDir(folder / "runs" / f"{run:06d}")
    place.create()
    save_record(place, record)
    place.log("n1", 1, "err").write_text("hello")
    store.write_findings([FOUND])
    store.close()
    campaign_dirs.point_latest(config, folder)
    return folder


def on_day(monkeypatch: pytest.MonkeyPatch, day: datetime.date) -> None:
    monkeypatch.setattr(stored, "today", lambda: day)


def test_a_suppressed_finding_is_stored_as_such_and_reported_again_when_that_is_over(
    config: Config, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_day(monkeypatch, datetime.date(2026, 11, 16))
    entry = api.suppress(config, "f1", "issue 12", lasts_s=86_400)
    assert entry.until == datetime.date(2026, 11, 17)
    with api.open_store(folder) as store:
        (found,) = store.findings()
    assert found.suppressed == "until 2026-11-17: issue 12"
    assert api.remarks(config, [found]) == {}
    on_day(monkeypatch, datetime.date(2026, 11, 18))
    assert api.findings(config) == (FOUND,)
    assert api.remarks(config, [FOUND]) == {"F1": "was suppressed until 2026-11-17: issue 12"}


def test_what_is_not_suppressed_any_more_is_reported_at_once(config: Config, folder: Path) -> None:
    entry = api.suppress(config, "F1", "issue 12", until="never")
    assert api.suppressions(config) == (entry,)
    assert api.unsuppress(config, entry.id) == entry
    with api.open_store(folder) as store:
        assert store.findings() == (FOUND,)


def test_findings_can_be_read_while_somebody_hunts(config: Config, folder: Path) -> None:
    suppression_file.add(suppression_file.path_of(config), suppression_file.Suppression("lost 9 writes", "r", None))
    with campaign_dirs.locked(folder):
        assert api.findings(config)[0].suppressed == "forever: r"
        with api.open_store(folder) as store:
            assert store.findings() == (FOUND,), "whoever works on the campaign writes them"
    api.findings(config)
    with api.open_store(folder) as store:
        assert store.findings()[0].suppressed == "forever: r"


def test_nothing_is_suppressed_by_mistake(config: Config, folder: Path) -> None:
    with pytest.raises(UserError, match="there is no finding 'F2' in this campaign; its findings are: F1"):
        api.suppress(config, "F2", "r")
    with pytest.raises(UserError, match="needs a reason"):
        api.suppress(config, "F1", "")
    assert not suppression_file.path_of(config).exists()


def test_new_log_lines_are_those_of_the_run_that_shows_it_best(config: Config, folder: Path) -> None:
    with api.open_store(folder) as store:
        assert api.new_logs(store, [FOUND]) == {"F1": ("n1: odd",)}
        assert api.new_logs(store, [msgspec.structs.replace(FOUND, shown_by=7)]) == {}


def test_logs_are_found_by_finding_and_by_run(config: Config, folder: Path) -> None:
    assert [path.name for path in api.log_files(config, "F1")] == ["n1.1.err"]
    assert api.log_files(config, "1", "n1") == api.log_files(config, "F1")
    with pytest.raises(UserError, match="has no logs of 'n2'"):
        api.log_files(config, "1", "n2")


def test_a_finding_is_bundled_from_its_campaign(config: Config, folder: Path, tmp_path: Path) -> None:
    written = api.bundle(config, "F1", tmp_path / "b.undermine")
    assert "evidence/logs/n1.1.err" in written.files
    assert written.warnings == ()
    with pytest.raises(UserError, match="there is no finding 'F7'"):
        api.bundle(config, "F7", tmp_path / "c.undermine")


def test_a_bundle_whose_configuration_is_wrong_here_says_so(config: Config, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "undermine.toml").write_text(TOML.replace("{python}", "no-such-program"))
    api.bundle(load(tmp_path, programs=False), "F1", tmp_path / "b.undermine")
    with pytest.raises(UserError, match=r"the bundle cannot run here: .*undermine\.toml:6: .*no-such-program"):
        api.replay_bundle(tmp_path / "b.undermine", folder=tmp_path / "there")


def test_a_bug_report_is_written_for_a_finding(config: Config, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = api.issue(config, "F1", options=" -c here")
    assert text.startswith("# Lost 3 writes if a server is killed before writing to `data`")
    assert "undermine replay F1 -c here" in text
    assert report.issue("F1", config=Path(config.path)) == 0
    assert capsys.readouterr().out.startswith("# Lost 3 writes")
    place = folder / "bug.md"
    assert report.issue("F1", output=place, config=Path(config.path)) == 0
    assert place.read_text().startswith("# Lost 3 writes")
    with pytest.raises(UserError, match="F2"):
        api.issue(config, "F2")
