"""The base of the built-in checkers: the facts that each carries about itself, and the settings that each gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from undermine.model.columns import Columns
from undermine.model.run import Rank, RunView, Verdict

State = Literal["on", "off"]


class Settings(msgspec.Struct, frozen=True):
    """The options that a configuration gives to built-in checkers. Each has a default."""

    gray_s: float = 2.0
    """A client that waits longer than this suffers."""
    fail_on: tuple[str, ...] = ()
    """Regular expressions: a log line that matches one fails the run."""
    ignore: tuple[str, ...] = ()
    """Regular expressions: log entries with a line that matches one are not looked at."""


class BuiltinChecker:
    """A checker that every installation has. Its default state and [checkers] decide whether a campaign uses it."""

    name: str
    rank: Rank
    summary: str
    """One line for the documentation: when it fails."""
    default_state: State = "on"
    """`off`: a campaign uses it only if `checkers.enable` names it."""
    explains: bool = False
    """Its failure is the cause where other built-in checkers fail too. Findings are grouped by its symptom, not by theirs."""

    def __init__(self, settings: Settings = Settings()) -> None:  # noqa: B008 - frozen
        self._settings = settings

    def check(self, run: RunView) -> Verdict:
        raise NotImplementedError

    def warnings(self, run: RunView, columns: Columns, at: Callable[[int], str]) -> Iterator[str] | None:
        """Everything in a fault-free run that this checker is about, one sentence each; None: only its verdict tells.

        `at` writes a time of the run in words.
        """
        return None
