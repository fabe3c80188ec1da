"""Writes a finding as a regression test for pytest: a plan file, and a test that replays it. Never overwrites a file.

Texts of the target stand only in comments, each in one line of printable characters, and in the JSON of the plan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.report.finding_lines import rate_words
from undermine.report.text import clip

PLAN_SUFFIX = ".plan.json"
_NAME_MAX = 60
_LINE_MAX = 116

_TEXT = '''\
"""A regression test that `undermine test` wrote. It fails if the fault of its plan breaks the system again."""

import pytest

{comment}


@pytest.mark.undermine({arguments}
)
def {name}():
    pass
'''


class Written(msgspec.Struct, frozen=True):
    """The files of a regression test."""

    finding: str
    test: str
    plan: str
    new: bool
    """False if the test existed already, so that nothing was written."""


def write(finding: Finding, config: Path, folder: Path, times: int, params: Mapping[str, str], campaign: str) -> Written:
    """Write the test of a finding to a folder, unless it is there. `params` are those in which the campaign differs from the
    configuration."""
    name = name_of_test(finding)
    test, plan = folder / f"{name}.py", folder / f"{name}{PLAN_SUFFIX}"
    written = Written(finding.id, str(test), str(plan), new=not test.exists())
    if written.new:
        arguments = {
            "config": Path(os.path.relpath(config.resolve(), folder.resolve())).as_posix(),
            "replay": plan.name,
            "times": times,
            **({"params": dict(params)} if params else {}),
        }
        text = _TEXT.format(
            comment="\n".join(f"# {clip(line, _LINE_MAX)}" for line in _lines(finding, campaign)),
            arguments="".join(f"\n    {key}={value!r}," for key, value in arguments.items()),
            name=name,
        )
        plan_text = msgspec.json.format(msgspec.json.encode(_readable(msgspec.to_builtins(finding.plan))), indent=2) + b"\n"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            plan.write_bytes(plan_text)  # first: a test without its plan would fail
            test.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            raise UserError(f"{test} cannot be written ({error.strerror}); choose another folder with --dir") from None
    return written


def _readable(value: Any) -> Any:
    """The plan with each point as an object of its keys, as people write it."""
    if isinstance(value, dict):
        if set(value) == {"items"}:
            return dict(value["items"])
        return {key: _readable(inner) for key, inner in value.items()}
    return [_readable(inner) for inner in value] if isinstance(value, list | tuple) else value


def name_of_test(finding: Finding) -> str:
    """`test_acknowledged_put_lost_when_a_store_stops`: the same for the same symptom in every hunt."""
    words = re.sub(r"[^a-z0-9]+", "_", finding.name.lower()).strip("_")
    return f"test_{words[:_NAME_MAX].strip('_') or finding.id.lower()}"


def _lines(finding: Finding, campaign: str) -> list[str]:
    return [
        finding.name,
        f"injected: {finding.plan.words(finding.lasted)}",
        f"found as {finding.id} of campaign {campaign}: {rate_words(finding)}",
    ]
