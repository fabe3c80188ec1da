"""What tests of the loop share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from undermine.store.database import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "campaign")
    yield opened
    opened.close()
