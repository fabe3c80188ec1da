"""The limit for log files: while nodes write, and after they have ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from waiting import wait_until

from undermine.deployments.node_logs import LogLimit

MIB = 1 << 20
LINE = b"x" * 1023 + b"\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "n1.1.out"


def test_a_log_that_grows_takes_little_space(log: Path) -> None:
    limit = LogLimit(log.parent, MIB)
    limit.start()
    with open(log, "ab", buffering=0) as stream:
        stream.write(b"first\n" + LINE * 4096)
        wait_until(lambda: log.stat().st_blocks * 512 < 2 * MIB)
        stream.write(LINE * 4096 + b"last\n")
        wait_until(lambda: log.stat().st_blocks * 512 < 2 * MIB)
    limit.close()
    content = log.read_bytes()
    assert content.startswith(b"first\n")
    assert content.endswith(b"last\n")
    left_out = 8192 * len(LINE) + len(b"first\nlast\n") - MIB
    assert b"\n... %d bytes left out ...\n" % left_out in content
    assert len(content) < MIB + 100


def test_a_short_log_stays_as_it_is(log: Path) -> None:
    log.write_bytes(LINE * 1024)
    LogLimit(log.parent, MIB).close()
    assert log.read_bytes() == LINE * 1024
