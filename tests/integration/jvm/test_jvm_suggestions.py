"""The survey of a cluster of JVMs finds the leader, which its nodes agree about, without being told where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from jdks import compile_java

from undermine import api
from undermine.config.load import load
from undermine.config.schema import Config

TOML = """
[campaign]
plugins = "hunt.py"
[roles.store]
nodes = ["s1", "s2", "s3"]
peers = "{id}={host}:{port}"
command = "{java} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {project} app.Members {id} {host} {port} {all.store}"
packages = ["app"]
[variables]
led_by = "app:Members.leeder"
"""
HUNT = """
import socket
import time
import undermine

def talk(node, line):
    with socket.create_connection((node.host, node.port), timeout=2) as sock:
        sock.sendall(line + b"\\n")
        if sock.recv(3) != b"ok\\n":
            raise ConnectionError("hung up")

@undermine.workload
def workload(s):
    for leader in s.nodes:
        s.attempt("lead", lambda: talk(leader, b"lead"), node=leader.id)
        for _ in range(5):
            time.sleep(0.05)  # a survey pauses between two readings
            for node in s.nodes:
                s.attempt("ask", lambda: talk(node, b"ask"), node=node.id)
"""


@pytest.fixture
def project(jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("UNDERMINE_JVM_AGENT", str(jar))
    compile_java(tmp_path, Path(__file__).with_name("Members.java"))
    (tmp_path / "undermine.toml").write_text(TOML)
    (tmp_path / "hunt.py").write_text(HUNT)
    return load(tmp_path)


def test_check_suggests_the_leader_and_names_the_part_of_a_path_that_fails(project: Config) -> None:
    result = api.check(project, suggest=True)
    assert result.suggestions is not None
    assert result.suggestions.best[0].path == "app:Members.leader"
    (unmatched,) = result.unmatched
    assert unmatched.why == "s1: Members (Members) has no field leeder (but leader)"
