"""Labels flow with the data through all ways that a program has to make one value from another."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from fake_tool import AGENT_DIR
from waiting import HANG_S

from bench.labels import Flow, quality

FLOWS = Path(__file__).with_name("flows.py")
LOST = frozenset(("CSV", "CSV to a stream", "partial in an attribute"))
"""Flows through functions that have no hook, or are called by others. `docs/agents-python.md` lists them."""
PRECISION_MIN, RECALL_MIN = 0.95, 0.98
WIDE = frozenset(("format of an item", "JSON with a hook", "pathlib"))
"""Flows whose labels name too many bytes: the position of the value is not known."""


def results(python: str, accelerators: str) -> dict[str, Any]:
    command = [python, str(FLOWS), str(AGENT_DIR), accelerators]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["agent"] == "python-fast/1") == bool(accelerators), found["why_slow"]
    return found["flows"]  # type: ignore[no-any-return]


def test_every_flow_has_its_labels(any_python: str, accelerators: str) -> None:
    flows = results(any_python, accelerators)
    assert len(flows) > 150
    assert {name for name, flow in flows.items() if not flow["same"]} == set(), "the result or its type has changed"
    assert {name: flow["errors"] for name, flow in flows.items() if flow["errors"]} == {}
    assert {name for name, flow in flows.items() if flow["right"] < flow["wanted"]} == LOST
    assert {name for name, flow in flows.items() if flow["right"] < flow["found"]} == WIDE
    reached = quality({name: Flow(flow["wanted"], flow["found"], flow["right"]) for name, flow in flows.items()})
    assert (reached.precision >= PRECISION_MIN, reached.recall >= RECALL_MIN) == (True, True), reached


def test_without_the_accelerator_shared_values_have_no_labels(any_python: str) -> None:
    flows = results(any_python, "")
    assert {name for name, flow in flows.items() if not flow["same"] or flow["errors"]} == set()
    assert {name for name, flow in flows.items() if flow["right"] < flow["found"]} <= WIDE
    lost = {name for name, flow in flows.items() if flow["right"] < flow["wanted"]}
    assert lost > LOST
    assert {"small int", "character", "item of bytes"} <= lost
    assert len(lost) < len(flows) / 3
