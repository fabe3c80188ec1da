"""Patterns for log lines are checked when the file is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.config.load import load
from undermine.model.errors import UserError

TOML = """\
[roles.server]
nodes = ["n1"]
command = "true {{port}}"
[workload]
command = "true"
[checkers]
{key} = [
  "fine.*",
  {pattern},
]
"""


def written(folder: Path, key: str, pattern: str) -> Path:
    (folder / "undermine.toml").write_text(TOML.format(key=key, pattern=pattern))
    return folder


@pytest.mark.parametrize("key", ["fail_on", "ignore"])
@pytest.mark.parametrize("pattern", ['"("', '"*x"', '"[a"', '"a{99999999999}"'])
def test_a_bad_expression_is_refused_with_its_line(tmp_path, key, pattern) -> None:
    with pytest.raises(UserError, match=rf"undermine\.toml:9: .*checkers\.{key}.* is not a valid regular expression"):
        load(written(tmp_path, key, pattern))


@pytest.mark.parametrize("key", ["fail_on", "ignore"])
def test_good_ones_are_kept(tmp_path, key) -> None:
    checkers = load(written(tmp_path, key, "'^ERROR \\d+'")).checkers
    assert getattr(checkers, key) == ("fine.*", r"^ERROR \d+")
