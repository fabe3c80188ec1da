"""Tells plans apart that read alike: plans name call stacks by hashes, so two of them may differ only in their callers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from undermine.model.plan import At, FirstUnseen, Plan, Then, Trigger
from undermine.model.point import Point

Stacks = Mapping[str, Sequence[str]]
"""By the hash of a call stack, as points have it: its call sites or functions, innermost first."""


def told_apart(plans: Sequence[Plan], stacks: Stacks) -> dict[str, str]:
    """By id of each plan that has the same text and reason as another one: words for the difference.

    The words name the callers that differ, from the operation outwards, until they are unique. Callers that all share are left
    out. Plans whose callers do not differ, or are unknown, are told apart by their ids.
    """
    alike: dict[tuple[str, str], dict[str, Plan]] = {}
    for plan in plans:
        alike.setdefault((str(plan), plan.why), {})[plan.id] = plan
    words: dict[str, str] = {}
    for members in alike.values():
        if len(members) > 1:
            words |= zip(members, _differences(list(members.values()), stacks), strict=True)
    return words


def _differences(plans: Sequence[Plan], stacks: Stacks) -> list[str]:
    """Words for each of these plans, which have the same text: different words for different plans."""
    moments = [list(_moments(plan)) for plan in plans]
    callers = [
        _callers([stacks.get(point.get("stack"), ()) for _, point in same_moment])
        for same_moment in zip(*moments, strict=True)
    ]
    words = [
        _words([label for label, _ in own], [names[n] for names in callers]) for n, own in enumerate(moments)
    ]
    return [
        text if text and words.count(text) == 1 else "; ".join(filter(None, (text, f"plan {plan.id}")))
        for text, plan in zip(words, plans, strict=True)
    ]


def _words(labels: Sequence[str], callers: Sequence[tuple[str, ...]]) -> str:
    """`called by a:f#1, from a:g#2; the operation before is called by b:h#1`. Callers of two moments are named once."""
    labelled = {names: label for label, names in reversed(list(zip(labels, callers, strict=True))) if names}
    return "; ".join(f"{label}called by {', from '.join(names)}" for names, label in reversed(labelled.items()))


def _moments(plan: Plan) -> Iterator[tuple[str, Point]]:
    """The points that the plan names, each with words for its part in the plan. Plans with the same text have the same parts."""
    for number, step in enumerate(plan.steps, 1):
        of = f"step {number}: " if len(plan.steps) > 1 else ""
        yield from _points(step.trigger, of)
        yield from _points(step.until, f"{of}its end is ")


def _points(trigger: Trigger | None, label: str) -> Iterator[tuple[str, Point]]:
    match trigger:
        case At(point=point) | FirstUnseen(point=point):
            yield label, point
        case Then(first=first, second=second):
            yield label, second.point
            yield f"{label}the operation before is ", first.point


def _callers(stacks: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """For each stack, its callers at the innermost positions at which stacks differ, as few as tell the stacks apart."""
    deepest = max(map(len, stacks), default=0)
    rows = [[stack[n] if n < len(stack) else "" for n in range(deepest)] for stack in stacks]
    differ = [n for n in range(deepest) if len({row[n] for row in rows}) > 1]
    kinds = len({tuple(row) for row in rows})
    for count in range(len(differ) + 1):
        shown = [tuple(row[n] for n in differ[:count]) for row in rows]
        if len(set(shown)) == kinds:
            break
    return [tuple(filter(None, names)) for names in shown]
