"""The results of a stored campaign: findings at source lines, and known findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from report_campaigns import CampaignMaker, event

from undermine import api
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.exchange import suppressions
from undermine.model.errors import UserError
from undermine.model.event import Event
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step
from undermine.model.point import point_of
from undermine.model.run import Verdict
from undermine.protocols import PointSeen
from undermine.report.ci.results import Place, Site, fails
from undermine.store import campaign_dirs

TOML = """
[roles.store]
nodes = ["s1"]
command = "{python} {project}/kv.py"
[workload]
command = "true"
"""
SOURCE = "import os\n\n\ndef put(key):\n    os.write(key)\n\n\nclass Store:\n    def get(self):\n        pass\n"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "undermine.toml").write_text(TOML)
    (tmp_path / "kv.py").write_text(SOURCE)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "disk.py").write_text(SOURCE)
    return load(tmp_path)


def at(loc: str, line: int = 0, *callers: str) -> Event:
    return event("s1", 1, 0.0, "file.write", loc, line=line, stack=(loc, *callers))


def finding(number: int, where: Event, **more: Any) -> Finding:
    plan = Plan((Step(At(point_of(where)), Crash()),))
    verdict = Verdict("fail", f"title {number}", f"symptom {'x' * number}", (), "ledger")
    return Finding(f"F{number}", verdict.symptom, verdict.text, plan, (1,), ("random",), (verdict,), 3, 3, **more)


def stored(config: Config, *where: Event) -> None:
    """A campaign with a finding at each of these operations."""
    folder = campaign_dirs.new_campaign_dir(config)
    made = CampaignMaker(folder)
    shown = [
        PointSeen(point_of(one), 1, 1, order, one.line, frames=tuple(loc.partition("#")[0] for loc in one.stack))
        for order, one in enumerate(where)
    ]
    made.run("baseline", Plan(), points=shown)
    made.findings(*(finding(number, one) for number, one in enumerate(where, 1)))
    made.close()
    campaign_dirs.point_latest(config, folder)


@pytest.mark.parametrize(
    ("where", "function", "place"),
    [
        (at("__main__:put#1", 5), "__main__:put", Place("kv.py", 5)),
        (at("disk:put#1", 5), "disk:put", Place("lib/disk.py", 5)),
        (at("redis.connection:send#1", 77, "disk:Store.get#2"), "redis.connection:send", Place("lib/disk.py", 9)),
        (at("redis.connection:send#1", 77, "disk:gone#2"), "redis.connection:send", Place("lib/disk.py", 1)),
        (at("redis.connection:send#1", 77), "redis.connection:send", None),
        (at("put", 0), "", None),
    ],
)
def test_a_finding_is_at_the_source_line_of_its_fault(config: Config, where: Event, function: str, place: Place | None) -> None:
    stored(config, where)
    results = api.results(config)
    assert results.sites["F1"] == Site(function, place)
    assert results.place(results.findings[0]) == (place or Place("undermine.toml"))
    assert results.title(results.findings[0]) == results.explanations["F1"].title


def test_results_name_the_system_and_the_campaign(config: Config, tmp_path: Path) -> None:
    stored(config, at("disk:put#1", 5))
    results = api.results(config, options=" -c x")
    assert results.name == "granary"  # its stored identity names that configuration
    assert results.campaign == campaign_dirs.campaign_dir(config).name
    assert results.replay_command(results.findings[0]) == "undermine replay F1 -c x"
    assert results.duration_s == pytest.approx(4.3)


def test_a_baseline_has_the_findings_of_a_campaign_and_only_new_ones_are_reported(config: Config, tmp_path: Path) -> None:
    stored(config, at("disk:put#1", 5), at("disk:put#2", 5))
    known = tmp_path / "known.toml"
    assert api.write_baseline(config, known) == 2
    written = known.read_text()
    assert written.startswith("# A baseline")
    assert written.count("[[suppression]]") == 2
    assert api.write_baseline(config, known) == 0, "it has them"
    assert known.read_text() == written
    stored(config, at("disk:put#1", 5), at("disk:put#2", 5), at("disk:put#3", 5))
    assert [fails(f) for f in api.findings(config)] == [True, True, True]
    now = api.findings(config, baseline=known)
    assert [fails(f) for f in now] == [False, False, True]
    assert now[0].suppressed.startswith("forever: known since campaign 20")
    assert [f.id for f in api.results(config, baseline=known).failing] == ["F3"]


def test_an_empty_baseline_is_a_file_too(config: Config, tmp_path: Path) -> None:
    stored(config)
    assert api.write_baseline(config, tmp_path / "known.toml") == 0
    assert suppressions.read_baseline(tmp_path / "known.toml") == ()


@pytest.mark.parametrize("content", [None, "[[suppresion]]\n", "symptom = 1\n", "\0"])
def test_a_baseline_that_is_missing_or_wrong_is_a_mistake(config: Config, tmp_path: Path, content: str | None) -> None:
    stored(config)
    if content is not None:
        (tmp_path / "known.toml").write_text(content)
    with pytest.raises(UserError, match=r"known\.toml"):
        api.findings(config, baseline=tmp_path / "known.toml")


def test_a_hunt_refuses_a_missing_baseline_before_it_creates_a_campaign(config: Config, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no baseline"):
        api.hunt(config, baseline=tmp_path / "known.toml")
    assert not config.dir.exists()


def test_results_can_be_stored_as_json(config: Config) -> None:
    stored(config, at("disk:put#1", 5))
    assert b"lib/disk.py" in msgspec.json.encode(api.results(config))
