"""Tokens of contents in the example: the name of a job, from the client's message to the files of several nodes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from token_digests import tokens_of

from undermine.analysis.causality.causality import causality
from undermine.analysis.common_data.tokens import TOKENS, tokens_by_row
from undermine.analysis.messages.pairing import pair
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
        view = engine.runner.execute(folder, 1, Plan(), conditions=Conditions(observe_all=True, content=True))
    assert {op.status for op in view.history} == {"ok"}
    assert view.trace.problems == ()
    return read_columns(folder / "trace")


def test_the_name_of_a_job_goes_from_a_message_to_files(columns: Columns) -> None:
    (name,) = tokens_of(b"wordcount")
    moved = [columns.event(row) for row, tokens in sorted(tokens_by_row(columns).items()) if name in tokens]
    submitted = moved[0]
    assert (submitted.node, submitted.op, submitted.target) == ("m1", "net.recv", "accepted")
    written = next(event for event in moved if event.op == "file.write")
    assert (written.node, written.target) == ("m1", "jobs.json.tmp")
    sent = next(event for event in moved if event.op == "net.send")
    store = sent.target.removeprefix("peer:")
    of_store = [event.op for event in moved if event.node == store]
    assert of_store[0] == "net.recv", "the task reaches a store by a message of the master"
    assert "file.write" in of_store


def test_most_bytes_that_stores_write_have_tokens(columns: Columns) -> None:
    by_row = tokens_by_row(columns)
    writes = columns.find("file.write")
    assert sum(row in by_row for row in writes.tolist()) > 0.8 * len(writes)
    assert not [row for row in by_row if columns.name(row) == TOKENS]


def test_tokens_cause_nothing_and_change_no_cause(columns: Columns) -> None:
    plain = Columns.of((event for event in columns.events() if event.op != TOKENS), columns.processes)
    assert len(plain) + len(columns.find(TOKENS)) == len(columns)
    found = causality(columns, pair(columns))
    assert found.problems() == []
    assert not np.isin(found.cause, columns.find(TOKENS)).any()
    others = np.flatnonzero(columns.op != columns.id_of(TOKENS))
    number = np.full(len(columns) + 1, -1)
    number[others] = np.arange(len(others))
    assert number[found.cause[others]].tolist() == causality(plain, pair(plain)).cause.tolist()
