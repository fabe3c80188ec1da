"""The table of the built-in checkers."""

from __future__ import annotations

from undermine.checkers.agreement import Agreement
from undermine.checkers.answers import Hang, Liveness, WorkloadResult
from undermine.checkers.base import BuiltinChecker
from undermine.checkers.gray import Gray
from undermine.checkers.logs import Logs
from undermine.checkers.processes import Deaths, Exits

BUILTIN: tuple[type[BuiltinChecker], ...] = (Exits, Deaths, Hang, Agreement, Gray, Liveness, WorkloadResult, Logs)
"""docs/extending/checker.md says what a new checker needs."""
