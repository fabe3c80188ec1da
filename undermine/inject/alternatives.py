"""The alternatives of a step whose nodes may take each other's place (`Step.alike`). Pure.

Agents get each alternative as a step of its own. All of them are armed at once, and the first one that fires disarms the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, permutations, product

import msgspec

from undermine.model.plan import Plan, Step
from undermine.model.text import names_in

ALTERNATIVES_MAX = 120
"""Five nodes in all orders. Agents check each alternative at each message."""
Names = Mapping[str, str]
"""By node of the plan: the node that takes its place."""


class Expanded(msgspec.Struct, frozen=True):
    """A plan as agents get it: with one step for each alternative if its nodes may take each other's place."""

    planned: Plan
    compiled: Plan
    names: tuple[Names, ...] = ()
    """For each alternative, by node of the plan: the node that takes its place. Empty if there are no alternatives."""

    def step_of(self, number: int) -> int:
        """The number in the plan of a step that agents know by this number."""
        return 0 if self.names else number

    def as_run(self, fired: Sequence[int]) -> tuple[Plan, dict[str, str]]:
        """The plan with the nodes for which it fired, and who took whose place."""
        if not self.names or not fired:
            return self.planned, {}
        names = {old: new for old, new in self.names[fired[0]].items() if old != new}
        return msgspec.structs.replace(self.planned, steps=(self.compiled.steps[fired[0]],)), names


def expanded(plan: Plan) -> Expanded:
    """The plan with all its alternatives. Two that begin alike and hit the same nodes are one."""
    if len(plan.steps) != 1 or not plan.steps[0].alike:
        return Expanded(plan, plan)
    (step,) = plan.steps
    found: dict[object, tuple[Names, Step]] = {}
    for names in _assignments(step, step.alike or ()):
        other = step.renamed(names)
        found.setdefault((other.trigger, other.fault), (names, other))
    chosen = tuple(islice(found.values(), ALTERNATIVES_MAX))
    return Expanded(plan, msgspec.structs.replace(plan, steps=tuple(step for _, step in chosen)), tuple(n for n, _ in chosen))


def _assignments(step: Step, groups: Sequence[Sequence[str]]) -> Iterator[Names]:
    """All ways in which nodes may take each other's place. The first one changes nothing. Only nodes that the trigger or the
    fault names are told apart."""
    said = " ".join(_texts(msgspec.to_builtins((step.trigger, step.fault))))
    named = [tuple(dict.fromkeys(names_in(said, group))) for group in groups]
    choices = product(*(permutations(group, len(own)) for group, own in zip(groups, named, strict=True)))
    nobody: Names = {node: node for group in groups for node in group}
    found = (_whole(named, chosen, groups) for chosen in choices)
    return islice(chain([nobody], found), ALTERNATIVES_MAX * ALTERNATIVES_MAX)


def _whole(named: Sequence[Sequence[str]], chosen: Iterable[Sequence[str]], groups: Sequence[Sequence[str]]) -> Names:
    """Give each of the remaining nodes a place too."""
    names: dict[str, str] = {}
    for group, old, new in zip(groups, named, chosen, strict=True):
        left = (node for node in group if node not in new)
        names |= dict(zip(old, new, strict=True)) | {node: next(left) for node in group if node not in old}
    return names


def _texts(value: object) -> Iterator[str]:
    """All texts in nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)
