"""The agents that the suite runs on, each with all its runtimes on this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance_bench import HERE, Bench, Kind, jvm_kind, python_kind
from jdks import compile_java, jdks
from waiting import HANG_S

KINDS = ["python-pure", "python-fast", *([f"jvm-{major}" for major in sorted(jdks())] or ["jvm"])]


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_java(tmp_path_factory.mktemp("classes"), HERE / "Driver.java")


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    name = str(request.param)
    if not name.startswith("jvm"):
        return python_kind(name == "python-fast")
    jar_path = request.getfixturevalue("jar")
    return jvm_kind(int(name.removeprefix("jvm-")), request.getfixturevalue("classes"), jar_path)


@pytest.fixture
def make_bench(tmp_path: Path, kind: Kind) -> Iterator[Any]:
    made: list[Bench] = []

    def make() -> Bench:
        folder = tmp_path / f"run{len(made)}"
        folder.mkdir()
        made.append(Bench(folder, kind))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make_bench: Any) -> Bench:
    one: Bench = make_bench()
    return one


@pytest.fixture
def mailbox(bench: Bench) -> Iterator[socket.socket]:
    """The peer's datagram socket, at the port of its listener."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", bench.peer_port))
        made.settimeout(HANG_S)
        yield made


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new key with a self-signed certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        ["openssl", *made.split(), "-keyout", path, "-out", path.with_name("c.pem")], check=True, capture_output=True
    )
    path.write_text(path.read_text() + path.with_name("c.pem").read_text())
    return path
