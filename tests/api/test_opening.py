"""A campaign resumes only under the conditions that it began with: the isolation of nodes, the speed of clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.api import opening
from undermine.config.load import load
from undermine.deployments.isolation import IsolationChoice
from undermine.model.errors import UserError
from undermine.store.database import CampaignStore

TOML = """
[roles.server]
nodes = 1
command = "true {port}"
[workload]
command = "true"
"""


def test_other_isolation_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "undermine.toml").write_text(TOML)
    config = load(tmp_path)
    choice = IsolationChoice("namespaces", "each node has an address of its own")
    monkeypatch.setattr(opening, "choose", lambda wanted: choice)
    store = CampaignStore(tmp_path / "campaign")
    store.set_meta("identity", opening.identity(config))
    opening.refuse_changes(store, config)
    choice = IsolationChoice("ports", "no namespaces: not root")
    with pytest.raises(UserError, match=r"isolated by namespaces and now would be by ports \(no namespaces: not root\)"):
        opening.refuse_changes(store, config)
    store.close()


def test_another_speed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "undermine.toml").write_text(TOML)
    store = CampaignStore(tmp_path / "campaign")
    store.set_meta("identity", opening.identity(load(tmp_path)))
    (tmp_path / "undermine.toml").write_text(f"{TOML}[run]\nspeed = 10\n")
    with pytest.raises(UserError, match=r"run\.speed was added"):
        opening.refuse_changes(store, load(tmp_path))
    store.close()


def test_the_source_is_found_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report shows the source beside the configuration, even if it is written from another folder than the hunt's."""
    (tmp_path / "undermine.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    identity = opening.identity(load(Path("undermine.toml")))
    monkeypatch.chdir("/")
    assert Path(identity["config"]) == tmp_path / "undermine.toml"
