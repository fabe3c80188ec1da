"""Writes a finding as a regression test for pytest: a plan file, and a test that replays it. Never overwrites a file.

Texts of the target stand only in comments, each in one line of printable characters, and in the JSON of the plan.
"""

from __future__ import annotations

import hashlib
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.report.ci.results import why_not
from undermine.report.finding_lines import rate_words
from undermine.report.text import clip

PLAN_SUFFIX = ".plan.json"
_NAME_MAX = 60
_LINE_MAX = 116
_PARAGRAPH_MAX = 4 * _LINE_MAX

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
    doubt: str = ""
    """Why the finding isn't reported as a bug; "" if it is."""


def write(
    finding: Finding, config: Path, folder: Path, times: int, params: Mapping[str, str], campaign: str, told: str = ""
) -> Written:
    """Write the test of a finding to a folder, unless it is there. `params` are those in which the campaign differs from the
    configuration, and `told` says what happened."""
    name = name_of_test(finding)
    test, plan = folder / f"{name}.py", folder / f"{name}{PLAN_SUFFIX}"
    written = Written(finding.id, str(test), str(plan), not test.exists(), why_not(finding))
    if written.new:
        arguments = {
            "config": Path(os.path.relpath(config.resolve(), folder.resolve())).as_posix(),
            "replay": plan.name,
            "times": times,
            **({"params": dict(params)} if params else {}),
        }
        text = _TEXT.format(
            comment="\n".join(f"# {line}" for line in _lines(finding, campaign, told)),
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
    """`test_acknowledged_put_lost_when_a_store_stops`: the same for the same symptom in every hunt. A long name is cut, and ends
    with a digest, since two of them may begin alike."""
    words = re.sub(r"[^a-z0-9]+", "_", finding.name.lower()).strip("_")
    if len(words) > _NAME_MAX:
        words = f"{words[:_NAME_MAX].strip('_')}_{hashlib.sha256(words.encode()).hexdigest()[:6]}"
    return f"test_{words or finding.id.lower()}"


def _lines(finding: Finding, campaign: str, told: str) -> Iterator[str]:
    """The comment of the test: each paragraph in a few lines."""
    paragraphs = (
        finding.name,
        told,
        f"injected: {finding.plan.words(finding.lasted)}",
        f"found as {finding.id} of campaign {campaign}: {rate_words(finding)}",
    )
    for paragraph in paragraphs:
        yield from textwrap.wrap(clip(paragraph, _PARAGRAPH_MAX), _LINE_MAX)
