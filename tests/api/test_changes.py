"""`--changed-since` in a real git repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from undermine import api
from undermine.api.changes import changed_since
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.errors import UserError

TOML = """
[roles.kv]
nodes = ["n1"]
command = "{python} {project}/kv.py"
[workload]
command = "true"
"""
SOURCE = "def put():\n    pass\n\n\ndef get():\n    pass\n"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A project in a folder of a repository with one commit, on a branch."""
    app = tmp_path / "app"
    (app / "lib").mkdir(parents=True)
    (app / "undermine.toml").write_text(TOML)
    (app / "kv.py").write_text(SOURCE)
    (app / "lib" / "disk.py").write_text(SOURCE)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "work")
    return load(app)


def edit(config: Config, name: str) -> None:
    path = Path(config.project, name)
    path.write_text(path.read_text().replace("def put():\n    pass", "def put():\n    return 1"))


def test_committed_changed_and_new_files_count(config: Config) -> None:
    assert len(changed_since(config, "main")) == 0
    edit(config, "kv.py")
    Path(config.project, "new.py").write_text(SOURCE)
    git(Path(config.project), "commit", "-qam", "second")
    edit(config, "lib/disk.py")
    changed = changed_since(config, "main")
    assert changed.scripts == {"kv": "app.kv"}
    names = ("app.kv:put", "disk:put", "new:get", "app.kv:get", "disk:get", "kv:get")
    assert [changed.has(name) for name in names] == [True, True, True, False, False, False]
    assert changed.has("kv:put")
    assert not changed_since(config, "HEAD").has("kv:put")


def test_changes_of_the_other_branch_do_not_count(config: Config) -> None:
    git(Path(config.project), "checkout", "-q", "main")
    edit(config, "kv.py")
    git(Path(config.project), "commit", "-qam", "elsewhere")
    git(Path(config.project), "checkout", "-q", "work")
    assert len(changed_since(config, "main")) == 0


@pytest.mark.parametrize("ref", ["nope", "--output=x", "", "HEAD^{tree}", "a b"])
def test_an_unknown_commit_is_a_mistake(config: Config, ref: str) -> None:
    with pytest.raises(UserError, match="git does not know this commit"):
        changed_since(config, ref)
    assert not Path(config.project, "x").exists()


def test_a_project_without_git_is_a_mistake_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "undermine.toml").write_text(TOML)
    (tmp_path / "kv.py").write_text(SOURCE)
    config = load(tmp_path)
    with pytest.raises(UserError, match="--changed-since needs a git checkout"):
        api.hunt(config, changed_since="main")
    assert not config.dir.exists()
