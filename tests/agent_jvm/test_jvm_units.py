"""The JVM agent's own unit tests, which Maven runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from jdks import why_no_jvm
from waiting import HANG_S

AGENT = Path(__file__).resolve().parents[2] / "agents" / "jvm"


@pytest.mark.skipif(bool(why_no_jvm()), reason=why_no_jvm())
def test_the_agents_unit_tests_pass() -> None:
    command = ["mvn", "-B", "-Dstyle.color=never", "test"]
    done = subprocess.run(command, cwd=AGENT, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Tests run: " in done.stdout
