"""Final reads: repeated until they succeed and whatever is declared to settle has done so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import HANG_S

from undermine.model.run import Op
from undermine.store.rundir import read_history
from undermine.userland import process as userland
from undermine.userland.workloads import Session, SessionFile

Condition = Callable[[tuple[Op, ...]], str]


def read(s: Session) -> None:
    s.attempt("read", lambda: 1)


class Final:
    """One call of the final reads, in this process."""

    def __init__(self, folder: Path, *conditions: Condition, reads: Callable[[Session], None] = read) -> None:
        self.out = folder / "final.result"
        self.history = folder / "history.jsonl"
        settled = {str(number): condition for number, condition in enumerate(conditions)}
        self.declared: Any = SimpleNamespace(finals={"f": reads}, settled=settled)

    def code(self, timeout_s: float = HANG_S) -> int:
        session = SessionFile((), 7, str(self.history), "none", "none")
        return userland._final(self.declared, session, {"timeout_s": timeout_s, "out": str(self.out)})

    @property
    def reads(self) -> int:
        return len(read_history(self.history))


def after(count: int) -> Condition:
    return lambda history: "" if len(history) >= count else f"only {len(history)} reads"


def test_reads_are_repeated_until_every_condition_holds(tmp_path: Path) -> None:
    final = Final(tmp_path, after(2), after(3))
    assert final.code() == 0
    assert final.reads == 3


def test_without_conditions_reads_that_succeed_are_enough(tmp_path: Path) -> None:
    final = Final(tmp_path)
    assert final.code() == 0
    assert final.reads == 1


def test_reads_that_succeed_but_never_settle_are_for_the_checkers(tmp_path: Path) -> None:
    final = Final(tmp_path, after(10_000))
    assert final.code(timeout_s=0.2) == 0
    assert final.reads > 1
    assert json.loads(final.out.read_text())["ok"]


def test_conditions_do_not_save_reads_that_fail(tmp_path: Path) -> None:
    def fail(s: Session) -> None:
        raise LookupError("no leader")

    final = Final(tmp_path, after(0), reads=fail)
    assert final.code(timeout_s=0.1) == 1
    assert "no leader" in json.loads(final.out.read_text())["detail"]


@pytest.mark.parametrize("error", [LookupError("no such key"), RecursionError()])
def test_a_condition_that_raises_is_not_waited_for_and_the_others_are(tmp_path: Path, error: Exception) -> None:
    def breaks(history: tuple[Op, ...]) -> str:
        raise error

    final = Final(tmp_path, breaks, after(2))
    assert final.code() == 0
    assert final.reads == 2
