"""Labels in the example: from the client's message to the files of several nodes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from undermine.analysis.common_data.labels import LABELS, labels_by_row
from undermine.analysis.common_data.moved_data import moved_data
from undermine.analysis.common_data.pairs import related
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.pipeline import analyse
from undermine.config.load import load
from undermine.model.codec import read_columns
from undermine.model.columns import Columns
from undermine.model.plan import Plan
from undermine.model.run import Conditions
from undermine.run.engine import open_engine

pytestmark = pytest.mark.slow
GRANARY = Path(__file__).resolve().parents[2] / "examples" / "granary"


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    project = tmp_path_factory.mktemp("granary") / "project"
    shutil.copytree(GRANARY, project, ignore=shutil.ignore_patterns(".undermine", "__pycache__"))
    folder = project / "run"
    with open_engine(load(project), project / "results") as engine:
        view = engine.runner.execute(folder, 1, Plan(), conditions=Conditions(observe_all=True, labels=True))
    assert {op.status for op in view.history} == {"ok"}
    assert view.trace.problems == ()
    assert not list((folder / "trace").glob("*.agent-error"))
    return read_columns(folder / "trace")


def test_most_writes_of_stores_come_from_messages(columns: Columns) -> None:
    found = labels_by_row(columns)
    writes = columns.find("file.write").tolist()
    assert sum(row in found for row in writes) > 0.8 * len(writes)
    sources = {columns.name(label.source) for labels in found.values() for label in labels}
    assert sources <= {"net.recv", "file.read"}
    assert not [row for row in found if columns.name(row) == LABELS]


def test_a_record_that_a_store_receives_goes_to_its_log_and_to_its_peers(columns: Columns) -> None:
    analysis = analyse(columns)
    pairs = related(Origins(analysis), moved_data(analysis))
    labelled = [pair for pair in pairs if pair.tier == "label"]
    stored = {(str(a), str(b)) for pair in labelled for a in pair.first.destinations for b in pair.second.destinations}
    log = {"file shard/wal-<n>.log"}
    assert any(one in log and other.startswith("node peer:s") for one, other in stored)
