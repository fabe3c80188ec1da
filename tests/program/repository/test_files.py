"""The file of a module and the functions of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from undermine.program.repository.files import Repository, functions_in, line_of

TEXT = """\
import os

def plain():
    pass

class Store:
    @staticmethod
    @other
    def put():
        def inner():
            pass
        return inner

if os:
    async def late(): ...
"""


def made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(TEXT)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A project in a folder of a git repository."""
    (tmp_path / ".git").mkdir()
    made(tmp_path, "lib/shared/log.py", "app/src/granary/store.py", "app/src/granary/__init__.py", "lib/other/store.py")
    made(tmp_path, "app/java/com/example/Node.java", "app/.venv/secret.py", "app/node_modules/x.py")
    return Repository(tmp_path / "app")


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("granary.store", "app/src/granary/store.py"),
        ("store", "app/src/granary/store.py"),
        ("granary", "app/src/granary/__init__.py"),
        ("other.store", "lib/other/store.py"),
        ("shared.log", "lib/shared/log.py"),
        ("com.example.Node$Worker", "app/java/com/example/Node.java"),
        ("secret", ""),
        ("x", ""),
        ("ary.store", ""),
        ("", ""),
        ("../../etc/passwd", ""),
    ],
)
def test_a_module_is_found_by_the_end_of_its_path(repository: Repository, module: str, file: str) -> None:
    found = repository.file_of(module)
    assert (repository.name_of(found) if found else "") == file


def test_without_version_control_the_project_is_the_repository(tmp_path: Path) -> None:
    made(tmp_path, "app/kv.py")
    repository = Repository(tmp_path / "app")
    assert repository.name_of(tmp_path / "app" / "kv.py") == "kv.py"
    assert repository.name_of(tmp_path / "elsewhere.py") == ""


def test_functions_have_their_qualified_names_and_lines() -> None:
    assert functions_in(TEXT) == [
        ("plain", 3, 4),
        ("Store.put", 7, 12),
        ("Store.put.<locals>.inner", 10, 11),
        ("late", 15, 15),
    ]
    assert line_of(TEXT, "Store.put") == 7
    assert line_of(TEXT, "gone") == 0


@pytest.mark.parametrize("text", ["def f(:", "\0", "(" * 5000])
def test_a_file_that_cannot_be_parsed_has_no_functions(text: str) -> None:
    assert functions_in(text) == []


def test_a_link_that_leads_out_of_the_repository_has_no_name_in_it(repository: Repository, tmp_path: Path) -> None:
    os.symlink("/etc/hostname", tmp_path / "app" / "link.py")
    assert repository.name_of(tmp_path / "app" / "link.py") == ""
