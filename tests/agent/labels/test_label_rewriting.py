"""Hooks of labels move no call site, and change nothing that a program computes."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest
from fake_tool import AGENT_DIR, REPOSITORY
from waiting import HANG_S

HELPER = Path(__file__).parents[1] / "heap" / "compare_places.py"
PROGRAM = Path(__file__).with_name("every_operation.py")


def corpus() -> dict[str, list[Path]]:
    library = Path(sysconfig.get_path("stdlib"))
    return {
        "examples": sorted(REPOSITORY.glob("examples/granary/**/*.py")),
        "library": sorted(path for name in ("asyncio", "http", "json") for path in library.glob(f"{name}/*.py")),
        "this": [PROGRAM],
    }


@pytest.mark.parametrize("name", corpus())
def test_call_sites_have_the_same_ordinals_lines_and_columns(any_python: str, name: str, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.write_text("\n".join(map(str, corpus()[name])))
    command = [any_python, str(HELPER), str(AGENT_DIR), str(files), "labels"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["moved"] == []
    assert result["hooks"] > result["functions"] / 4 > 0
    assert result["left_alone"] <= result["functions"] / 100


@pytest.mark.parametrize("mode", ["hooks", "labels"])
def test_a_program_with_hooks_says_the_same(any_python: str, mode: str, accelerators: str) -> None:
    """Values, types, identities, order of evaluation, and exceptions."""

    def said(mode: str) -> list[str]:
        command = [any_python, "-W", "ignore", str(PROGRAM), mode, str(AGENT_DIR), accelerators]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    plain = said("plain")
    assert said(mode) == plain
    assert len(plain) > 30
