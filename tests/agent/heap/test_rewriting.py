"""Hooks at accesses to the heap move no call site, and change nothing that a program computes."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from fake_tool import AGENT_DIR, REPOSITORY
from waiting import HANG_S

HELPER = Path(__file__).with_name("compare_places.py")
PROGRAM = Path(__file__).with_name("every_access.py")


def corpus() -> dict[str, list[Path]]:
    """The files of each folder whose programs are compared."""
    library = Path(sysconfig.get_path("stdlib"))
    folders = {
        "examples": [*REPOSITORY.glob("examples/*/*.py"), *REPOSITORY.glob("examples/granary/**/*.py")],
        "agent": list(AGENT_DIR.glob("**/*.py")),
        "library": [path for name in ("asyncio", "concurrent/futures", "http", "logging") for path in library.glob(f"{name}/*")],
        "this": [PROGRAM],
    }
    return {name: sorted(file for file in files if file.suffix == ".py") for name, files in folders.items() if files}


@pytest.mark.parametrize("name", corpus())
def test_call_sites_have_the_same_ordinals_lines_and_columns(any_python: str, name: str, tmp_path: Path) -> None:
    check_places(any_python, corpus()[name], tmp_path / "files")


@pytest.mark.slow
@pytest.mark.parametrize("package", ["distributed", "pysyncobj", "rq"])
def test_call_sites_of_the_packs_stay(package: str, tmp_path: Path) -> None:
    files = [path for path in REPOSITORY.glob(f"examples/*/versions/*/{package}/**/*.py") if "tests" not in path.parts]
    if not files:
        pytest.skip("no release of it is installed here")
    check_places(sys.executable, files, tmp_path / "files")


def check_places(python: str, paths: list[Path], files: Path) -> None:
    """Compare all call sites of these modules with those of the rewritten ones."""
    files.write_text("\n".join(map(str, paths)))
    done = subprocess.run([python, str(HELPER), str(AGENT_DIR), str(files)], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["moved"] == []
    assert result["functions"] > 0
    assert result["hooks"] > result["functions"] / 4
    assert result["left_alone"] <= result["functions"] / 100


@pytest.mark.parametrize("hooks", ["pass", "note"])
def test_a_program_with_hooks_says_the_same(any_python: str, hooks: str) -> None:
    """Values, order of evaluation, exceptions and tracebacks."""

    def said(mode: str) -> list[str]:
        command = [any_python, str(PROGRAM), mode, str(AGENT_DIR)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    plain = said("plain")
    assert said(hooks) == plain
    assert len(plain) > 40
