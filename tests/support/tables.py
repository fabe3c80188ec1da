"""Tables of cases that make one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(columns: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for every row, like `pytest.mark.parametrize`, but as one test that names all rows that fail.

    The rows share the test's fixtures.
    """
    table = list(rows)
    names = (columns,) if isinstance(columns, str) else columns

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def every_row(**fixtures: Any) -> None:
            assert table, "an empty table tests nothing"
            failures = []
            for row in table:
                cells = dict(zip(names, (row,) if isinstance(columns, str) else row, strict=True))
                try:
                    test(**fixtures, **cells)
                except (Exception, pytest.fail.Exception) as failure:
                    failures.append(f"{cells}: {type(failure).__name__}: {failure}")
            assert not failures, f"{len(failures)} of {len(table)} rows fail:\n" + "\n".join(failures)

        known = inspect.signature(test)
        kept = [parameter for name, parameter in known.parameters.items() if name not in names]
        every_row.__signature__ = known.replace(parameters=kept)  # type: ignore[attr-defined]
        return every_row

    return decorate
