"""The limit for log files: while nodes write, and after they have ended. Lines that report a port in use."""

from __future__ import annotations

from pathlib import Path

import pytest
from tables import for_each
from waiting import wait_until

from undermine.config.load import load
from undermine.deployments.node_logs import LogLimit, NodeLogs, says_port_is_taken
from undermine.store.rundir import RunDir

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


def test_of_very_many_log_files_the_first_by_name_count(tmp_path: Path) -> None:
    (tmp_path / "undermine.toml").write_text('[roles.a]\nnodes = ["n1"]\ncommand = "x"\n[workload]\ncommand = "x"\n')
    run = RunDir(tmp_path / "run")
    run.create()
    run.node("n1").mkdir()
    for number in range(300):
        (run.node("n1") / f"{number:03}.log").touch()
    files = NodeLogs(load(tmp_path, programs=False), run).role_files("n1")
    assert [path.name for path in files] == [f"{number:03}.log" for number in range(200)]


@for_each(
    ("line", "taken"),
    [
        ("OSError: [Errno 98] Address already in use", True),
        ("OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', 80): [errno 98]", True),
        ("java.net.BindException: Address already in use", True),
        ("io.netty.channel.unix.Errors$NativeIoException: bind(..) failed with error(-98): Address already in use", True),
        ("bind: errno=98", True),
        ("RuntimeError: the lock file is in use by another node", False),
        ("OSError: [Errno 99] Cannot assign requested address", False),
        ("job 98 failed with errno 9", False),
        ("", False),
    ],
)
def test_only_the_operating_systems_own_words_report_a_port_in_use(line: str, taken: bool) -> None:
    assert says_port_is_taken(line) == taken
