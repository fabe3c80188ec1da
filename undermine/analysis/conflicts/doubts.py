"""Doubts about a pair of a write and a read of recovery that no rule excludes: reasons to try it only after all others.

The time of a crash matters if it interrupts an update: a part of it is there, another part is missing. A crash between two
updates leaves a state that a crash of an idle node leaves too. Doubts never exclude a pair: they rest on what a few runs showed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from undermine.analysis.conflicts.accesses import SOME_ITEM, Access, Resource
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.run import Log, Path, Run
from undermine.analysis.conflicts.updates import has_step
from undermine.model.event import functions
from undermine.program.dependence import Impact, Unknown, meeting

if TYPE_CHECKING:
    from undermine.analysis.conflicts.left_behind import LeftBehind

KEPT = "the value is only kept"
OTHER = "no run shows both on the same object"
SETTLED = "no other message of the node changes the object"
LISTED = "recovery only lists the folder"
WHOLE = "the update is complete, or has not begun"
ALONE = "no error depends on both parts of the update"

_SEVERE = frozenset({"raise", "error"})

ImpactsOf = Callable[[Access], tuple[Impact, ...] | Unknown]


class Doubts:
    """The doubts about pairs of one run with a crash. `reads`: those of its recovery. A crash cuts work short, so all `runs` say
    what is a log, and what is repeated."""

    def __init__(
        self,
        origins: Origins,
        runs: Sequence[Run],
        reads: Mapping[Resource, Sequence[Access]],
        impacts: ImpactsOf,
        stack: Callable[[Access], tuple[str, ...]],
    ) -> None:
        self._origins, self._reads, self._impacts, self._stack = origins, reads, impacts, stack
        self._logs = frozenset[Log]().union(*(run.logs for run in runs))
        self._repeated = frozenset[Path]().union(*(run.repeated for run in runs))
        self._known: dict[tuple[Resource, Resource], bool] = {}

    def of(self, run: Run, pair: LeftBehind) -> str:
        """The doubt about a pair whose write this run shows; "" if there is none."""
        match pair.resource.kind:
            case "key":
                return ""
            case "object":
                return self._of_object(run, pair)
            case "file" | "table":
                return KEPT if pair.impact == "kept" else self._of_file(run, pair)

    # --- objects on other nodes

    def _of_object(self, run: Run, pair: LeftBehind) -> str:
        if pair.impact == "kept":
            return KEPT
        if not pair.exact or pair.resource.name.endswith(SOME_ITEM):
            return OTHER
        return "" if has_step(run, pair.write, self._repeated, later=pair.after) else SETTLED

    # --- files of the node itself

    def _of_file(self, run: Run, pair: LeftBehind) -> str:
        """A crash at this moment interrupts an update if the same work has changed something that recovery reads, and would
        have changed more."""
        if pair.read.effect == "list":
            return LISTED
        done, missing = self._parts_of_update(run, pair)
        if not done or not missing:
            return WHOLE
        last = max((access for access in done if access.exact == pair.write.exact), default=None)
        if last and any(_is_half_written(run, last, access, self._logs) for access in missing):
            return ""
        together = ((one.resource, other.resource) for one in done for other in missing if one.exact != other.exact)
        return "" if any(self._checked_together(*each) for each in together) else ALONE

    def _parts_of_update(self, run: Run, pair: LeftBehind) -> tuple[list[Access], list[Access]]:
        """The changes of the same work before the crash, and those that it would have done afterwards."""
        row, goes_on = pair.write.row, run.origins.goes_on
        done: list[Access] = []
        missing: list[Access] = []
        for access in run.file_changes:
            if not any(self._readers(access)):
                continue
            if access.row == row:
                (done if pair.after else missing).append(access)
            elif goes_on(access.row, row):
                done.append(access)
            elif goes_on(row, access.row):
                missing.append(access)
        return done, missing

    def _readers(self, change: Access) -> Iterator[Access]:
        yield from self._reads.get(change.resource, ())
        if change.effect != "write":
            yield from (read for read in self._reads.get(change.resource.folder, ()) if read.effect == "list")

    def _checked_together(self, one: Resource, other: Resource) -> bool:
        """May an error depend on both? True if the source doesn't tell."""
        key = (one, other)
        if key not in self._known:
            reads = ((first, second) for first in self._reads.get(one, ()) for second in self._reads.get(other, ()))
            self._known[key] = any(self._meet(*each) for each in reads)
        return self._known[key]

    def _meet(self, one: Access, other: Access) -> bool:
        """Does an error depend on both, in the function in which both values meet?"""
        if not self._origins.goes_on(*sorted((one.row, other.row))):
            return False
        first, second = self._impacts(one), self._impacts(other)
        if isinstance(first, Unknown) or isinstance(second, Unknown):
            return True
        depths = meeting(self._stack(one), self._stack(other))
        if depths is None:
            return False
        errors = [
            {impact.where for impact in impacts if impact.kind in _SEVERE and impact.depth == depth}
            for impacts, depth in zip((first, second), depths, strict=True)
        ]
        return not errors[0].isdisjoint(errors[1])


def _is_half_written(run: Run, write: Access, later: Access, logs: Collection[Log]) -> bool:
    """Is the file incomplete until the later change? A function that writes again and again adds records, and each is complete.
    A log is complete without records, too. A file that is replaced as a whole is complete before and after, unless it is missing
    in between."""
    if later.exact != write.exact:
        return False
    if later.whole:
        return write.effect == "delete"
    is_other_step = write.effect != "write" or functions(run.site(later)[2]) != functions(run.site(write)[2])
    return is_other_step and (later.resource.kin, functions(run.site(later)[2])[0]) not in logs
