"""Real targets run under the Python agent, with the fake tool."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_tool import MINORS, FakeTool, interpreters
from free_ports import free_port
from waiting import wait_until

from undermine.runtimes import accelerator


@pytest.fixture(scope="session")
def accelerators() -> str:
    """The user's folder of accelerators, with those of all interpreters here."""
    for python in {sys.executable, *interpreters().values()}:
        built = accelerator.ensure(python)
        assert built.file is not None, built
    return str(accelerator.folder())


@pytest.fixture(params=["pure", "fast"])
def agent_kind(request: pytest.FixtureRequest) -> str:
    """Every test of the agent runs with the accelerator and without it."""
    return str(request.param)


@pytest.fixture
def make_tool(tmp_path: Path, agent_kind: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    tools: list[FakeTool] = []
    accelerators = request.getfixturevalue("accelerators") if agent_kind == "fast" else ""

    def make() -> FakeTool:
        folder = tmp_path / f"run{len(tools)}"
        folder.mkdir()
        tools.append(FakeTool(folder))
        tools[-1].accelerators = accelerators
        return tools[-1]

    yield make
    for tool in tools:
        tool.close()


@pytest.fixture
def tool(make_tool: Any) -> FakeTool:
    made: FakeTool = make_tool()
    return made


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new key with a self-signed certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("tls")
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(["openssl", *request.split(), *names], cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return both


@pytest.fixture(params=MINORS)
def any_python(request: pytest.FixtureRequest) -> str:
    path = interpreters().get(request.param)
    if path is None:
        pytest.skip(f"no Python {request.param} here")
    return path


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """An empty Redis server."""
    pytest.importorskip("redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server here")
    port = free_port()
    folder = tmp_path_factory.mktemp("redis")
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: not socket.create_connection(("127.0.0.1", port)).close(), "Redis listens", meanwhile=(OSError,))
        yield port
    finally:
        server.terminate()
        server.wait()
