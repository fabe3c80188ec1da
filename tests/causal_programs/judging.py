"""Compares the analysis of a generated program with its known causes, waits and limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from generator import Cause, Limit, Program, Wait

from undermine.analysis.causality.blocking import BLOCKS
from undermine.analysis.causality.causality import CAUSE_KINDS, EXTENT, Causality, causality
from undermine.analysis.exposure.locks_and_limits import LocksAndLimits, locks_and_limits
from undermine.analysis.messages.pairing import pair
from undermine.model.codec import read_columns

NS = 1_000_000_000
TOLERANCE_S = 2
"""On a slow machine, a time limit may begin at most this long before the operation that it surrounds."""


@dataclass
class Verdict:
    """The number of expected and found edges of each kind, and the errors."""

    wanted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    false: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        self.wanted += other.wanted
        self.found += other.found
        self.false += other.false
        self.missing += other.missing
        self.problems += other.problems

    def table(self) -> str:
        lines = [f"{'edges':34} {'there':>6} {'found':>6} {'recall':>7}"]
        for kind, wanted in sorted((+self.wanted).items()):
            found = self.found[kind]
            lines.append(f"{kind:34} {wanted:6} {found:6} {found / wanted:7.3f}")
        return "\n".join([*lines, f"edges that are wrong: {len(self.false)}"])

    def figures(self) -> dict[str, object]:
        """The recall for each kind of edge, over all ways."""
        wanted, found = Counter[str](), Counter[str]()
        for kind, number in self.wanted.items():
            wanted[kind.partition(" ")[0]] += number
            found[kind.partition(" ")[0]] += self.found[kind]
        recall = {kind: round(found[kind] / number, 4) for kind, number in sorted((+wanted).items())}
        return {"edges": wanted.total(), "recall": recall, "wrong": len(self.false), "problems": len(self.problems)}


def judge(program: Program, trace_dir: Path) -> Verdict:
    columns = read_columns(trace_dir)
    return _Judge(program, causality(columns, pair(columns))).verdict()


def check(program: Program, trace_dir: Path) -> None:
    """Assert that the analysis finds every cause and wait, and no others."""
    verdict = judge(program, trace_dir)
    print(verdict.table())
    wrong = [*verdict.false, *verdict.missing, *verdict.problems]
    assert not wrong, "\n".join(wrong)


class _Judge:
    def __init__(self, program: Program, found: Causality) -> None:
        self.program, self.found, self.columns = program, found, found.columns
        self.rows: dict[str, int] = {}
        for row in self.columns.find("file.stat").tolist():
            _, is_mark, name = self.columns.text(int(self.columns.resource[row])).rpartition("/mark-")
            if is_mark:
                self.rows[name] = row
        self.frames: dict[int, list[str]] = {}
        for name, row in sorted(self.rows.items(), key=lambda item: item[1]):
            self.frames.setdefault(int(found.contexts.frame[row]), []).append(name)

    def verdict(self) -> Verdict:
        verdict = Verdict(problems=[*self.columns.problems, *self.found.problems()])
        verdict.problems += [f"mark {name} was not seen" for name in self.program.causes if name not in self.rows]
        for name, wanted in self.program.causes.items():
            if name in self.rows:
                self._cause(verdict, name, wanted)
        for wait in self.program.waits:
            self._wait(verdict, wait)
        under = locks_and_limits(self.columns, self.found.contexts)
        self._held(verdict, under)
        for limit in self.program.limits:
            self._limit(verdict, limit, under)
        return verdict

    def _limit(self, verdict: Verdict, limit: Limit, under: LocksAndLimits) -> None:
        """Check the time limit of an operation, counted from its beginning."""
        label, row = f"limit {limit.way}", self._after(limit.mark, limit.op)
        deadline = int(under.deadline[row]) if row >= 0 else 0
        seconds = (deadline - int(self.columns.t[row])) / NS if deadline else 0
        is_right = row >= 0 and abs(seconds - limit.seconds) <= TOLERANCE_S
        verdict.wanted[label] += 1
        verdict.found[label] += int(is_right)
        if not is_right:
            found = f"found {seconds:.3f}" if row >= 0 else "it was not seen"
            verdict.missing.append(f"{label}: {limit.op} after {limit.mark} may take {limit.seconds}, {found}")

    def _held(self, verdict: Verdict, under: LocksAndLimits) -> None:
        """Check at each mark the number of held locks, and whether a time limit was in force."""
        knows_limits = len(self.columns.find("timeout")) > 0
        for name, (locks, limited) in self.program.under.items():
            row = self.rows.get(name, -1)
            if row < 0:
                continue
            found = len(under.locks(row)), bool(under.deadline[row])
            for label, wanted, got in (("lock held", locks, found[0]), ("limit in force", limited and knows_limits, found[1])):
                verdict.wanted[label] += int(wanted)
                verdict.found[label] += int(wanted) if got == wanted else 0
                if wanted != got:
                    verdict.missing.append(f"{name} ({label}): {wanted}, found {got}")

    def _cause(self, verdict: Verdict, name: str, wanted: Cause | None) -> None:
        kinds, giver = self._caused_by(self.rows[name])
        if wanted is None:
            if giver:
                verdict.false.append(f"{name}: nothing caused it, found {giver} by {kinds}")
            return
        label = f"{wanted.kinds[0]} {wanted.way}"
        verdict.wanted[label] += 1
        if giver == wanted.giver and set(kinds) == set(wanted.kinds):
            verdict.found[label] += 1
        elif giver:
            verdict.false.append(f"{name} ({label}): {wanted.giver} caused it, found {giver} by {kinds}")
        else:
            verdict.missing.append(f"{name} ({label}): {wanted.giver} caused it")

    def _caused_by(self, row: int) -> tuple[list[str], str]:
        """The kinds of edges that lead to this row from the nearest other thread or task, and that one's last mark."""
        kinds: list[str] = []
        for later, earlier in zip(chain := self.found.chain(row), chain[1:], strict=False):
            if self.found.cause_kind[later] != EXTENT:
                kinds.append(CAUSE_KINDS[self.found.cause_kind[later]])
                giver = self._mark_before(earlier)
                if giver:
                    return kinds, giver
        return kinds, ""

    def _mark_before(self, row: int) -> str:
        marks = self.frames.get(int(self.found.contexts.frame[row]), [])
        return next((name for name in reversed(marks) if self.rows[name] < row), "")

    def _wait(self, verdict: Verdict, wait: Wait) -> None:
        """Check the edge of a wait. A wait that began after its release did not block, so it needs no edge."""
        label = f"{wait.kind} {wait.way}"
        source = self._after(wait.source, wait.release)
        target = self._after(wait.target, wait.wait, -1 if wait.kind == "child" else source)
        if target < 0 <= source:
            began = self._after(wait.target, wait.wait)
            target = began if began > source else target
        if source < 0 or target < 0:
            verdict.wanted[label] += 1
            verdict.missing.append(f"{label}: {wait.release if source < 0 else wait.wait} was not seen")
            return
        if target > source and wait.kind != "child" and wait.release != "thread.end":
            return
        verdict.wanted[label] += 1
        edges = self.found.blocking
        there = (edges.source == source) & (edges.target == target) & (edges.kind == BLOCKS.index(wait.kind))
        if wait.kind == "child":
            same = self.columns.process[edges.source] == self.columns.process[source]
            there = same & (edges.target == target) & (edges.source >= source)
        others = edges.source[(edges.target == target) & ~there].tolist()
        if there.any():
            verdict.found[label] += 1
            verdict.false += [f"{label}: {source} ended {target}, found {other} too" for other in others]
        else:
            verdict.missing.append(f"{label}: {source} ended {target}, found {others}")

    def _after(self, mark: str, op: str, same: int = -1) -> int:
        """The first operation of this name after a mark, in its thread or task; the mark itself without a name. With `same`,
        it must use the same resource as that row.
        """
        row = self.rows.get(mark, -1)
        if row < 0 or not op:
            return row
        rows, context = self.columns.find(op), self.found.context
        mine = rows[(context[rows] == context[row]) & (rows > row)]
        if same >= 0:
            mine = mine[self.columns.resource[mine] == self.columns.resource[same]]
        return int(mine[0]) if len(mine) else -1
