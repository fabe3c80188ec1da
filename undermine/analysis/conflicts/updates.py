"""Updates in several steps: one node's work changes an object of another node by several messages, one after the other.

If the node dies between two of them, recovery finds a part of the update. Never looks at runs with a fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from undermine.analysis.conflicts.accesses import SOME_ITEM, Access, Resource, container_of
from undermine.analysis.conflicts.run import Path, Run
from undermine.model.point import CLIENT


class Begun(NamedTuple):
    """The first change of an update."""

    role: str
    """The role of the node whose work it is."""
    resource: Resource
    row: int
    """The operation of this node that leads to the change: a message, or the change of a key itself."""

    @property
    def group(self) -> tuple[str, str]:
        """Changes of the attributes and items of one object belong together."""
        name = self.resource.name
        return self.role, container_of(name) if self.resource.kind == "object" else name


def has_step(run: Run, write: Access, repeated: Collection[Path], *, later: bool) -> bool:
    """Does a later, or earlier, message of the same work change the same object, or a neighbour in the same one? A `repeated`
    message, such as a heartbeat, isn't a step: such work never finishes anything."""
    own, message, goes_on = run.site(write), run.origins.remote(write.row), run.origins.goes_on
    for theirs, sites in run.messages_to.get(write.container, {}).items():
        first, second = (message, theirs) if later else (theirs, message)
        if goes_on(first, second) and sites != {own} and run.path(theirs) not in repeated:
            return True
    return False


def begun(run: Run, repeated: Collection[Path]) -> Iterator[Begun]:
    """The first changes of all updates in several steps, by time. A key of an external store needs one step only: its store is on
    no node, so nobody finishes the work of a node that dies."""
    for access in run.accesses:
        if not access.changes:
            continue
        if access.resource.kind == "key" and run.origins.node[access.row] != CLIENT:
            yield Begun(run.role(access.row), access.resource, access.row)
        if access.resource.kind == "object" and _begins(run, access, repeated):
            message = run.origins.remote(access.row)
            yield Begun(run.role(message), access.resource, message)


def _begins(run: Run, write: Access, repeated: Collection[Path]) -> bool:
    message = run.origins.remote(write.row)
    if message < 0 or run.origins.node[message] == CLIENT or write.resource.name.endswith(SOME_ITEM):
        return False
    stays = write in run.last_of_handlers
    return stays and has_step(run, write, repeated, later=True) and not has_step(run, write, repeated, later=False)
