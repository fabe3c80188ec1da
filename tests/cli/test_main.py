"""The command from its first moment: it may be interrupted while it is being loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]

SLOW = """
import os
print(os.getpid(), flush=True)
try:
    input()
except BaseException as error:
    raise ImportError("the library says something else") from error
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_while_libraries_are_loaded_has_its_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "msgspec.py").write_text(SLOW)  # in the place of one that the tool imports
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    process = subprocess.Popen(
        [sys.executable, "-m", "undermine", "trace"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline(), "it is not being loaded"
    process.send_signal(number)
    _, said = process.communicate(timeout=HANG_S)
    assert (process.returncode, said) == (130, "interrupted\n")


def test_the_installed_command_begins_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"undermine": "undermine.__main__:main"}
