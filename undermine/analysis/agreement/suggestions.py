"""Suggestions: the attributes of the target that would serve best as variables, with names, and the reasons in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from undermine.analysis.agreement.attributes import JOINED, Attribute, SurveyRun, judge
from undermine.model.text import printable

_NAME_MAX = 32
_VALUES_SHOWN = 4
_VALUE_MAX = 24
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_MANGLED = re.compile(r"_[A-Za-z0-9]+?__(?=[A-Za-z])")


class Suggestion(msgspec.Struct, frozen=True):
    """A variable that the user may add to the configuration."""

    name: str
    path: str
    metadata: str
    """The name of the metadata that it holds: its own name, or that of a variable of another role for the same thing."""
    roles: tuple[str, ...]
    """The roles whose nodes have it; empty: all."""
    why: str
    score: float


class Suggestions(msgspec.Struct, frozen=True):
    """The suggested variables, the best first."""

    best: tuple[Suggestion, ...] = ()
    paths: int = 0
    """How many attributes agents have looked at."""
    dropped: dict[str, int] = {}
    """How many of them each reason has left out."""


def suggest(
    runs: Iterable[SurveyRun], roles: Mapping[str, str], identifiers: Collection[str], taken: Collection[str] = ()
) -> Suggestions:
    """The variables that these runs suggest. `roles` has the role of each node, `identifiers` are texts that name nodes, and
    `taken` are names that other variables have."""
    every = judge(runs, identifiers)
    alone = {one.path: one for one in every}
    names = set(taken)
    best: dict[str, Suggestion] = {}
    for one in every:
        paths = [] if one.dropped else one.path.split(JOINED)
        if len({best[path].metadata for path in paths if path in best}) > 1:
            continue  # a variable holds one kind of metadata
        metadata = next((best[path].metadata for path in paths if path in best), "")
        for path in paths:
            if path not in best:
                name = _name(path, names)
                metadata = metadata or name
                names.add(name)
                best[path] = Suggestion(name, path, metadata, _roles(alone[path], roles), _why(one), round(one.score, 2))
    dropped: dict[str, int] = {}
    for one in every:
        if one.dropped:
            reason = "changes together with a better one" if one.dropped.startswith("changes together") else one.dropped
            dropped[reason] = dropped.get(reason, 0) + 1
    return Suggestions(tuple(best.values()), len(every), dropped)


def _roles(one: Attribute, roles: Mapping[str, str]) -> tuple[str, ...]:
    mine = {roles[node] for node in one.nodes if node in roles}
    return () if mine == set(roles.values()) else tuple(sorted(mine))


def _name(path: str, taken: Collection[str]) -> str:
    """A name that no other variable has: the last attribute of the path, else with a number."""
    words = [_MANGLED.sub("", word).strip("_") for word in re.split(r"[.\[\]:*]+", path)]
    words = [word for word in words if word]
    name = words[-1]
    if not _WORD.fullmatch(name) or len(name) < 3:  # an index, or `id`, says too little
        name = "_".join(word for word in words[-2:])
    name = re.sub(r"[^A-Za-z0-9_]", "", name).lstrip("0123456789_")[: _NAME_MAX - 3] or "variable"
    return next(each for number in range(1, len(taken) + 2) if (each := name if number == 1 else f"{name}_{number}") not in taken)


def _why(one: Attribute) -> str:
    """The values seen, how well nodes agree, and how often they don't."""
    shown = [_short(text) for text in sorted(one.values)[:_VALUES_SHOWN]]
    values = ", ".join(shown) + (f" … ({len(one.values)} values)" if len(one.values) > len(shown) else "")
    states = f"{one.states} kind{'s' if one.states > 1 else ''} of disagreement"
    when = "" if one.while_served else " while the cluster starts"
    return f"{values}; nodes agree after {one.confidence:.0%} of {one.messages:,} messages; {states}{when}"


def _short(text: str) -> str:
    text = printable(text).replace("\n", " ") or '""'
    return text if len(text) <= _VALUE_MAX else text[: _VALUE_MAX - 1] + "…"
