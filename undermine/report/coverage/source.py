"""Coverage as source code: the lines of the target's files around its operations, with what faults did to each. Only reads.

The files are read when the report is written. If one was edited since the hunt began, its view says so: lines may have moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from undermine.program.repository.sources import Sources
from undermine.report.coverage.operations import Operation
from undermine.report.text import clean, clip

Mark = Literal["failed", "hit", "open", "recovery", "never"]
MARKS: dict[Mark, tuple[str, str]] = {
    "failed": ("✕", "a fault here made runs fail"),
    "hit": ("●", "a fault fired here, and all its runs passed"),
    "open": ("○", "no fault fired here yet"),
    "recovery": ("◇", "only runs with a fault get here, and no fault fired here"),
    "never": ("–", "no fault can be injected here"),
}
"""The sign in the gutter, and its meaning. The most interesting one of a line's operations is shown."""
_CONTEXT = 3
"""The lines that are shown before and after an operation."""
_LINE_CHARS_MAX = 240
_OPERATIONS_MAX = 8
"""For each line."""
_SKIPPED_MAX = 6


@dataclass(frozen=True)
class Note:
    """What happened at one operation of a line."""

    op: str
    nodes: str
    faults: str
    failing: int
    findings: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """Consecutive lines: one line with operations, several without, or a gap, whose code isn't shown."""

    first: int
    last: int
    code: str = ""
    mark: Mark | None = None
    notes: tuple[Note, ...] = ()
    left_out: int = 0

    @property
    def numbers(self) -> str:
        return "\n".join(map(str, range(self.first, self.last + 1)))

    @property
    def is_gap(self) -> bool:
        return not self.code and self.mark is None


@dataclass(frozen=True)
class FileView:
    """One file of the target."""

    name: str
    blocks: tuple[Block, ...]
    changed: bool
    """Was it edited since the hunt began?"""
    operations: int
    hit: int
    failed: int


def file_views(
    operations: Iterable[Operation], sources: Sources, begun: float
) -> tuple[list[FileView], list[Operation]]:
    """The files with operations, those with failing runs first, and the operations whose source wasn't found. `begun`: when the
    first run started."""
    by_file: dict[Path, list[Operation]] = {}
    elsewhere: list[Operation] = []
    for operation in operations:
        path = next(iter(sources.files_of(operation.loc, operation.role)), None) if operation.line else None
        if path:
            by_file.setdefault(path, []).append(operation)
        else:
            elsewhere.append(operation)
    views = []
    for path, here in by_file.items():
        lines = sources.text_lines(path)
        elsewhere += [one for one in here if one.line > len(lines)]
        if found := [one for one in here if one.line <= len(lines)]:
            views.append(_view(sources.name_of(path) or path.name, lines, found, _mtime(path) > begun))
    return sorted(views, key=lambda view: (-view.failed, -view.hit, view.name)), elsewhere


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _view(name: str, lines: Sequence[str], operations: Sequence[Operation], changed: bool) -> FileView:
    at: dict[int, list[Operation]] = {}
    for operation in operations:
        at.setdefault(operation.line, []).append(operation)
    return FileView(
        name=clip(name, 200),
        blocks=tuple(_blocks(lines, at)),
        changed=changed,
        operations=len(operations),
        hit=sum(one.hit for one in operations),
        failed=sum(bool(one.failing) for one in operations),
    )


def _blocks(lines: Sequence[str], at: dict[int, list[Operation]]) -> Iterator[Block]:
    near = {line + offset for line in at for offset in range(-_CONTEXT, _CONTEXT + 1)} & set(range(1, len(lines) + 1))
    shown = sorted(near | {line for line in range(1, len(lines) + 1) if {line - 1, line + 1} <= near})
    before, plain = 0, list[int]()
    for line in shown:
        if plain and (line in at or line != plain[-1] + 1):
            yield _plain(lines, plain)
            plain = []
        if line != before + 1:
            yield Block(before + 1, line - 1)
        if line in at:
            yield _marked(lines[line - 1], line, at[line])
        else:
            plain.append(line)
        before = line
    if plain:
        yield _plain(lines, plain)
    if before < len(lines):
        yield Block(before + 1, len(lines))


def _plain(lines: Sequence[str], numbers: Sequence[int]) -> Block:
    return Block(numbers[0], numbers[-1], "\n".join(_code(lines[number - 1]) for number in numbers))


def _marked(text: str, line: int, operations: Sequence[Operation]) -> Block:
    by_interest = sorted(operations, key=lambda one: (list(MARKS).index(mark_of(one)), one.op))
    notes = tuple(map(_note, by_interest[:_OPERATIONS_MAX]))
    return Block(line, line, _code(text), mark_of(by_interest[0]), notes, max(0, len(operations) - len(notes)))


def _code(text: str) -> str:
    return clean(text.expandtabs(4).rstrip(), _LINE_CHARS_MAX) or " "


def mark_of(operation: Operation) -> Mark:
    if operation.failing:
        return "failed"
    if operation.hit:
        return "hit"
    if not operation.usual:
        return "recovery"
    return "open" if operation.reachable else "never"


def _note(operation: Operation) -> Note:
    skipped = tuple(clip(words, 200) for words in operation.skipped)
    more = len(skipped) - _SKIPPED_MAX
    return Note(
        op=operation.op,
        nodes=clip(operation.where, 120),
        faults=operation.faults,
        failing=len(operation.failing),
        findings=tuple(sorted(operation.findings, key=lambda name: (len(name), name))),
        skipped=(*skipped[:_SKIPPED_MAX], f"{more} more reasons") if more > 0 else skipped,
    )
