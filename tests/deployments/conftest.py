"""Fixtures for tests with real nodes; what they make is in `node_helpers.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from node_helpers import Nodes, Token
from watched_guardian import WatchedGuardian


@pytest.fixture
def token() -> Iterator[Token]:
    token = Token()
    yield token
    token.kill_all()


@pytest.fixture
def keeper_of_nodes(tmp_path: Path) -> Iterator[Nodes]:
    with WatchedGuardian() as client:
        yield Nodes(client, tmp_path)
