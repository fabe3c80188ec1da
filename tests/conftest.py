"""Fixtures and settings that tests of several rooms share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from jdks import why_no_jvm

from undermine.runtimes import jvm_agent
from undermine.store.database import CampaignStore

settings.register_profile(
    "same-everywhere",
    derandomize=True,  # every run tries the same examples, so CI is deterministic
    deadline=None,  # machines are slow at times
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same-everywhere")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CampaignStore]:
    opened = CampaignStore(tmp_path / "campaign")
    yield opened
    opened.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take minutes, so that the others run beside them and not before; then with the longest files."""
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: ("first" not in item.keywords, -counts[item.path], item.path))


@pytest.fixture(scope="session")
def jar() -> Path:
    """The JVM agent's jar, built if it is missing. The tests fail, not skip, if it cannot be built."""
    if why := why_no_jvm():
        pytest.skip(why)
    return jvm_agent.agent_jar()
