"""How long a node must be down, frozen or cut off until the others notice it: longer than the time limits of the target.

Fault-free runs show these limits: waits, socket timeouts and `timeout` blocks; numbers that the target compares clocks with; and
the lifetimes of keys in external stores. The longest one that fits into a run decides. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from undermine.analysis.exposure.compared_limits import LONGEST_S, ObservedNumbers
from undermine.analysis.exposure.deadlines import LIMITED
from undermine.analysis.exposure.weak_spots import compared_limits
from undermine.analysis.reading.rows import AT_ONCE
from undermine.analysis.stores.commands import TABLES
from undermine.analysis.stores.operations import StoreReader
from undermine.model.columns import Columns
from undermine.model.point import CLIENT
from undermine.protocols import TargetProgram

OVER = 3 / 2
"""A fault that must exceed a time limit lasts this multiple of it, if it may."""
_JUST_OVER = 1.1
"""The smallest multiple that certainly exceeds it."""
_LEAST_S = 1.0
"""A long outage takes at least this time: targets have limits that no agent observes."""
_NAMED_MAX = 3
_NS = 1e9


class TimeLimit(msgspec.Struct, frozen=True, order=True):
    """A time limit of the target, and where it is set."""

    limit_s: float
    by: str

    def __str__(self) -> str:
        return f"{self.limit_s:.3g} s ({self.by})"


class LongOutage(msgspec.Struct, frozen=True):
    """The duration of long outages, and its reason in words."""

    seconds: float = 0.0
    why: str = ""
    cut: str = ""
    """The time limits that no outage exceeds, in words ("" if there are none)."""


def time_limits(traces: Iterable[Columns], program: TargetProgram) -> list[TimeLimit]:
    """The time limits of the nodes in these runs, the shortest first: the longest one of each place, and each duration once."""
    numbers, roles, found = ObservedNumbers(), set[str](), set[TimeLimit]()
    for columns in traces:
        numbers.add(columns)
        roles |= {process.role for process in columns.processes if process.node != CLIENT}
        found |= {*_in_force(columns), *_lifetimes(columns)}
    regions = [region for each in program.facts.sites.values() for region in each]
    for role in sorted(roles):
        for each in compared_limits(role, regions, numbers, program.scripts):
            found.add(TimeLimit(each.limit_s, f"a comparison with a clock at {each.where}"))
    longest = {limit.by: limit for limit in sorted(found)}
    return sorted({round(limit.limit_s, 2): limit for limit in longest.values()}.values())


def _in_force(columns: Columns) -> Iterator[TimeLimit]:
    """Those of waits, sockets and `timeout` blocks."""
    for row in columns.find("timeout", *LIMITED).tolist():
        size, node = int(columns.size[row]), columns.processes[int(columns.process[row])].node
        if node != CLIENT and AT_ONCE < size <= LONGEST_S * _NS:
            yield TimeLimit(size / _NS, f"{columns.name(row)} at {columns.stacks[int(columns.stack[row])][0]}")


def _lifetimes(columns: Columns) -> Iterator[TimeLimit]:
    """Those of keys in external stores: leases and heartbeats."""
    for operation in StoreReader(columns, TABLES).operations():
        node = columns.processes[int(columns.process[operation.row])].node
        for command in operation.commands if node != CLIENT else ():
            lives_s = command.effect.lives_s(command.values)
            if 0 < lives_s <= LONGEST_S:
                loc = columns.stacks[int(columns.stack[operation.row])][0]
                yield TimeLimit(lives_s, f"{command.name} at {loc}")


def long_outage(limits: Iterable[TimeLimit], most_s: float, default_s: float) -> LongOutage:
    """The outage that exceeds as many of these limits as possible and takes at most `most_s`; `default_s` if there are none."""
    known = sorted(limits)
    fitting = [limit for limit in known if limit.limit_s * _JUST_OVER <= most_s]
    beyond = known[len(fitting) :]
    cut = f"no outage exceeds {_listed(beyond)}" if beyond else ""
    if most_s <= 0 or not known:
        return LongOutage(min(default_s, max(most_s, 0.0)), "fault-free runs showed no time limit")
    if not fitting:
        return LongOutage(most_s, "all time limits that fault-free runs showed are longer", cut)
    seconds = min(max(fitting[-1].limit_s * OVER, _LEAST_S), most_s)
    return LongOutage(round(seconds, 3), f"longer than {fitting[-1]}", cut)


def _listed(limits: list[TimeLimit]) -> str:
    """The shortest ones in words, and the number of the others."""
    more = f" and {len(limits) - _NAMED_MAX} more" if len(limits) > _NAMED_MAX else ""
    return ", ".join(map(str, limits[:_NAMED_MAX])) + more
