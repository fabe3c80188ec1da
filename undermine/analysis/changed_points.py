"""Which operations run below functions that changed, by the call stacks of the fault-free runs. Never reads a file."""

from __future__ import annotations

from collections.abc import Iterable

from undermine.model.plan import Step, point_at
from undermine.model.point import Point
from undermine.program.repository.changes import Changed
from undermine.protocols import Frames, PointSeen, in_source


class ChangedPoints:
    """The operations whose call stacks run through a changed function."""

    def __init__(self, changed: Changed, points: Iterable[PointSeen], frames: Frames) -> None:
        self._changed = changed
        self._frames = frames
        seen = tuple(points)
        self._by_stack = {one.point.get("stack"): one.frames for one in seen}
        """A plan may leave the node and the target of its point open, so its stack is looked up too."""
        self._known: dict[Point, bool] = {}
        self.number = sum(self._below(one.point) for one in seen) if len(changed) else 0
        self.of = len(seen)

    def hit_by(self, step: Step) -> bool:
        """Does the step inject its fault at such an operation?"""
        return bool(len(self._changed)) and self._below(point_at(step.trigger))

    def _below(self, point: Point) -> bool:
        if point not in self._known:
            frames = self._frames(point) or self._by_stack.get(point.get("stack"), ())
            functions = (point.get("loc").partition("#")[0], *frames)
            named = (in_source(self._changed.scripts, point.get("role"), function) for function in functions)
            self._known[point] = any(map(self._changed.has, named))
        return self._known[point]
