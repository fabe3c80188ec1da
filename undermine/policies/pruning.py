"""Which of the proposed plans are worth running. Says for each one that is dropped which rule dropped it.

Policies are applied in the order in which they are given, each to what the one before has left. A *filter* refuses plans
one by one. A *cluster* puts plans into classes and keeps one of each: it is either a function of one plan, its *key*
(equal keys, same class), or of two, which says whether they belong together. Sequences of different lengths are never in one
class. Plans may come from a generator: of those that a filter refuses nothing is kept, of a class one member.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.text import printable
from undermine.policies.plan_view import PlanView, plan_view
from undermine.protocols import Dropped

DROPPED_MAX = 10_000
"""How many of the dropped are told for each policy; all of them are counted."""
_TEXT_MAX = 600
THEN = ", then "
"""Between the policy that dropped a plan for another one and the policy that dropped that one."""


class Refusal(NamedTuple):
    """What the user's policies say of a plan: the one that drops it ("": none does), and the id of what stands for it."""

    rule: str
    instead: str = ""


UserFilters = Callable[[Sequence[Plan]], Sequence[str | Refusal]]
"""For each plan the name of the user's policy that drops it, or ""; or a `Refusal`."""


class Policy(msgspec.Struct, frozen=True):
    """A function over plans and what its answer means; `then` are those that always go with it, after it."""

    name: str
    kind: Literal["filter", "cluster", "key"]
    function: Callable[..., Any]
    then: tuple[Policy, ...] = ()


class Pruned(msgspec.Struct, frozen=True):
    """What is left, what is not, and why."""

    kept: tuple[Plan, ...]
    dropped: tuple[Dropped, ...] = ()
    """At most `DROPPED_MAX` for each policy."""
    counts: dict[str, int] = {}
    """How many each policy has dropped, in the order in which they are applied."""
    stands: dict[str, str] = {}
    """By id, in words: the plans that stand for others."""


class Example(msgspec.Struct, frozen=True):
    """A plan that was dropped, and the one that stands for it ("" if none does)."""

    sequence: str
    instead: str = ""


class Explanation(msgspec.Struct, frozen=True):
    """What one policy dropped."""

    policy: str
    count: int
    examples: tuple[Example, ...]


def filter_policy(function: Callable[..., Any], name: str = "") -> Policy:
    """A function from a plan to "is it worth running?"."""
    return Policy(name or function.__name__, "filter", function)


def cluster_policy(function: Callable[..., Any], name: str = "") -> Policy:
    """A function of one plan (its key) or of two ("are they alike?")."""
    name = name or function.__name__
    return Policy(name, "key" if _arity(function, name) == 1 else "cluster", function)


def _arity(function: Callable[..., Any], name: str) -> int:
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) not in (1, 2):
        raise UserError(
            f"the cluster policy {name} takes {len(needed)} plans; let it take one and answer with its class, "
            "or two and answer whether they are alike"
        )
    return len(needed)


# --- composition


def compose(
    policies: Iterable[Policy],
    plans: Iterable[Plan],
    seed: int,
    earlier: Iterable[Plan] = (),
    dropped_max: int = DROPPED_MAX,
    taken: Container[str] = (),
) -> Pruned:
    """Apply policies in order. The member that a class keeps is drawn by seed, whatever order they come in.

    `earlier` have been run: each of them stands for its class already. Members whose ids are `taken` have been run for somebody
    else: one of them is kept rather than another.
    """
    in_order = tuple(_flat(policies))
    tally = _Tally([policy.name for policy in in_order], dropped_max)
    stream: Iterator[PlanView] = (plan_view(plan) for plan in plans)
    before: dict[int, list[PlanView]] = {}
    for plan in earlier:
        before.setdefault(len(plan.steps), []).append(plan_view(plan))
    rank = _Rank(seed, taken)
    for policy in in_order:
        one_by_one = policy.kind == "filter"
        stream = _filtered(policy, stream, tally) if one_by_one else _clustered(policy, stream, tally, rank, before)
    return tally.pruned(tuple(view.plan for view in stream))


def _flat(policies: Iterable[Policy]) -> Iterator[Policy]:
    for policy in policies:
        yield policy
        yield from _flat(policy.then)


def _filtered(policy: Policy, stream: Iterator[PlanView], tally: _Tally) -> Iterator[PlanView]:
    for view in stream:
        if _yes(policy, view):
            yield view
        else:
            tally.drop(policy.name, view.plan)


class _Class:
    """Sequences that are alike, as far as they must be remembered: the one that stands for them, and where the first was."""

    __slots__ = ("fixed", "member", "position", "rank", "sample")

    def __init__(self, member: PlanView, position: int, *, fixed: bool) -> None:
        self.member = member
        self.sample = member
        self.position = position
        self.fixed = fixed
        self.rank: bytes = b""

    def add(self, member: PlanView, rank: _Rank) -> PlanView:
        """Take a member in; the answer is the one that does not stand for the class."""
        if self.fixed:
            return member
        self.rank = self.rank or rank(self.member.plan)
        new = rank(member.plan)
        if new >= self.rank:
            return member
        loser, self.member, self.rank = self.member, member, new
        return loser


class _Rank:
    """The least of a class stands for it: one that was run already, else a random one."""

    def __init__(self, seed: int, taken: Container[str]) -> None:
        self._seed = seed
        self._taken = taken

    def __call__(self, plan: Plan) -> bytes:
        return (b"0" if plan.id in self._taken else b"1") + draw(self._seed, plan)


def draw(seed: int, plan: Plan) -> bytes:
    """The least of some plans is a random one of them, the least ten are ten random ones, whatever order they come in."""
    return hashlib.blake2b(f"{seed} {plan.id}".encode(), digest_size=8).digest()


def _clustered(
    policy: Policy, stream: Iterator[PlanView], tally: _Tally, rank: _Rank, earlier: Mapping[int, Iterable[PlanView]]
) -> Iterator[PlanView]:
    find = _by_key(policy) if policy.kind == "key" else _by_pairs(policy)
    classes: list[_Class] = []
    lengths: set[int] = set()
    for position, view in enumerate(stream):
        if len(view) not in lengths:  # those of other lengths are in no class with it
            lengths.add(len(view))
            for known in earlier.get(len(view), ()):
                find(known, lambda member: _Class(member, -1, fixed=True))
        made = _Class(view, position, fixed=False)
        found = find(view, lambda _, made=made: made)  # type: ignore[misc]
        if found is made:
            classes.append(made)
        else:
            tally.drop(policy.name, found.add(view, rank).plan, found)
    for kept in sorted(classes, key=lambda one: one.position):
        tally.stands(kept.member.plan)
        yield kept.member


Find = Callable[[PlanView, Callable[[PlanView], _Class]], _Class]
"""The class of a plan; a new one if there is none yet."""


def _by_key(policy: Policy) -> Find:
    classes: dict[tuple[int, Hashable], _Class] = {}

    def find(view: PlanView, new: Callable[[PlanView], _Class]) -> _Class:
        key = (len(view), _ask(policy, view))
        try:
            found = classes.get(key)
        except TypeError:
            raise UserError(
                f"the cluster policy {policy.name} answered {key[1]!r:.80}, which cannot be compared in a table; "
                "let it answer with a text, a number, a tuple or a frozenset"
            ) from None
        if found is None:
            found = classes[key] = new(view)
        return found

    return find


def _by_pairs(policy: Policy) -> Find:
    """Compared with one member of each class only: the function must be an equivalence, as "has the same …" is."""
    classes: dict[int, list[_Class]] = {}

    def find(view: PlanView, new: Callable[[PlanView], _Class]) -> _Class:
        alike = classes.setdefault(len(view), [])
        for found in alike:
            if _yes(policy, found.sample, view):
                return found
        alike.append(new(view))
        return alike[-1]

    return find


def _yes(policy: Policy, *views: PlanView) -> bool:
    return bool(_ask(policy, *views))


def _ask(policy: Policy, *views: PlanView) -> Any:
    """The policy's answer; one that raises, or forgets to answer, is told by name."""
    try:
        answer = policy.function(*views)
    except UserError:
        raise
    except Exception as error:
        said = error.args[0] if isinstance(error, KeyError) and error.args else error
        what = f"raised {type(error).__name__}: {said} (line {_line(error)})"
        raise UserError(_complaint(policy, what, views)) from error
    if answer is None:
        raise UserError(_complaint(policy, "answered nothing", views))
    return answer


def _line(error: Exception) -> int:
    trace, line = error.__traceback__, 0
    while trace is not None:
        line, trace = trace.tb_lineno, trace.tb_next
    return line


def _complaint(policy: Policy, what: str, views: tuple[PlanView, ...]) -> str:
    about = " and ".join(f'"{view}"' for view in views)
    return printable(f"the policy {policy.name} {what} for {about}", _TEXT_MAX) + "; mend it"


class _Tally:
    """What was dropped, by whom; for whom one stands is known only when all have been seen."""

    def __init__(self, policies: Iterable[str], dropped_max: int) -> None:
        self._max = dropped_max
        self._counts = dict.fromkeys(policies, 0)
        self._dropped: list[tuple[str, Plan, _Class | None]] = []
        self._standing: set[str] = set()
        self._fallen: dict[str, tuple[str, _Class | None]] = {}

    def drop(self, policy: str, plan: Plan, found: _Class | None = None) -> None:
        self._counts[policy] += 1
        if self._counts[policy] <= self._max:
            self._dropped.append((policy, plan, found))
        if self._standing and plan.id in self._standing:
            self._fallen[plan.id] = (policy, found)

    def stands(self, plan: Plan) -> None:
        self._standing.add(plan.id)

    def pruned(self, kept: tuple[Plan, ...]) -> Pruned:
        stands: dict[str, str] = {}
        dropped: list[Dropped] = []
        for policy, plan, found in self._dropped:
            rules, last = self._follow(policy, found)
            if last is not None:
                stands.setdefault(last.id, str(last))
            dropped.append(Dropped(plan, THEN.join(rules), last.id if last else ""))
        counts = {policy: count for policy, count in self._counts.items() if count}
        return Pruned(kept, tuple(dropped), counts, stands)

    def _follow(self, policy: str, found: _Class | None) -> tuple[list[str], Plan | None]:
        """The one that stands for a class may be dropped by a later policy, for another one or for none."""
        rules = [policy]
        while found is not None:
            plan = found.member.plan
            if found.fixed or plan.id not in self._fallen:
                return rules, plan
            policy, found = self._fallen[plan.id]
            rules.append(policy)
        return rules, None


# --- what a campaign asks


def prune(
    plans: Iterable[Plan],
    taken: Mapping[str, str],
    user_filters: UserFilters,
    policies: Iterable[Policy] = (),
    seed: int = 0,
    earlier: Iterable[Plan] = (),
) -> Pruned:
    """Drop what policies refuse, then what was run already, by whichever strategy, then what the user's policies refuse."""
    composed = compose(policies, plans, seed, earlier, taken=taken)
    counts = Counter({f"policy {name}": count for name, count in composed.counts.items()})
    dropped = [Dropped(one.plan, f"policy {one.rule}", one.instead) for one in composed.dropped]
    ids = dict(taken)
    fresh: list[Plan] = []
    for plan in composed.kept:
        if plan.id in ids:
            dropped.append(Dropped(plan, f"already run for {ids[plan.id]}", plan.id))
            counts[dropped[-1].rule] += 1
        else:
            ids[plan.id] = plan.strategy
            fresh.append(plan)
    kept: list[Plan] = []
    for plan, answer in zip(fresh, user_filters(fresh), strict=True):
        rule, instead = (answer, "") if isinstance(answer, str) else answer
        if rule:
            dropped.append(Dropped(plan, f"policy {rule}", instead))
            counts[f"policy {rule.partition(THEN)[0]}"] += 1
        else:
            kept.append(plan)
    stands = composed.stands | {plan.id: str(plan) for plan in kept}
    return Pruned(tuple(kept), tuple(dropped), dict(counts), stands)


def refusals(pruned: Pruned, plans: Iterable[Plan]) -> list[Refusal]:
    """For each plan what became of it, in the order of the plans."""
    kept = {plan.id for plan in pruned.kept}
    dropped = {one.plan.id: Refusal(one.rule, one.instead) for one in pruned.dropped}
    return [Refusal("") if plan.id in kept else dropped[plan.id] for plan in plans]


def explain(pruned: Pruned, examples_max: int = 10) -> tuple[Explanation, ...]:
    """For each policy that dropped something, in order: how many, and some of them in words."""
    examples: dict[str, list[Example]] = {policy: [] for policy in pruned.counts}
    for one in pruned.dropped:
        listed = examples[one.rule.partition(THEN)[0]]
        if len(listed) < examples_max:
            instead = f"{one.instead} {pruned.stands.get(one.instead, '')}".strip()
            listed.append(Example(str(one.plan), instead))
    return tuple(Explanation(policy, count, tuple(examples[policy])) for policy, count in pruned.counts.items())
