"""Prunes proposed plans by policies, and records for each dropped plan which rule dropped it. Never runs a plan.

Policies are applied in order, each to the plans that the previous one kept. A *filter* drops plans one by one. A *cluster* puts
plans into classes and keeps one representative of each. It is a function of one plan that returns its *key* (equal keys, same
class), or of two plans that says whether they are in the same class. Plans of different lengths are never in the same class.
Plans may come from a generator: memory holds only one plan of each class, and a limited number of dropped plans.
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
"""The most dropped plans that are listed for each policy; all of them are counted."""
_TEXT_MAX = 600
ALREADY_PROPOSED = "already proposed"
THEN = ", then "
"""Joins the policy that dropped a plan and the policy that dropped its representative."""


class Refusal(NamedTuple):
    """The user's policy that drops a plan ("" if none does), and the id of the plan's representative."""

    rule: str
    instead: str = ""


UserFilters = Callable[[Sequence[Plan]], Sequence[str | Refusal]]
"""Returns for each plan a `Refusal`, or only the name of the user's policy that drops it ("" if none does)."""


class Policy(msgspec.Struct, frozen=True):
    """A function over plans and the meaning of its answer; the policies in `then` are always applied right after it."""

    name: str
    kind: Literal["filter", "cluster", "key"]
    function: Callable[..., Any]
    then: tuple[Policy, ...] = ()


class Pruned(msgspec.Struct, frozen=True):
    """The plans that were kept, and those that were dropped with the reason."""

    kept: tuple[Plan, ...]
    dropped: tuple[Dropped, ...] = ()
    """At most `DROPPED_MAX` for each policy."""
    counts: dict[str, int] = {}
    """The number of plans that each policy dropped, in the order in which policies are applied."""
    stands: dict[str, str] = {}
    """By id: the representatives, in words."""


class Example(msgspec.Struct, frozen=True):
    """A dropped plan and its representative ("" if it has none), in words."""

    plan: str
    instead: str = ""


class Explanation(msgspec.Struct, frozen=True):
    """The plans that one policy dropped: their number, and examples."""

    policy: str
    count: int
    examples: tuple[Example, ...]


def filter_policy(function: Callable[..., Any], name: str = "") -> Policy:
    """A policy from a function that says whether a plan is worth running."""
    return Policy(name or function.__name__, "filter", function)


def cluster_policy(function: Callable[..., Any], name: str = "") -> Policy:
    """A policy from a function of one plan that returns its key, or of two plans that says whether they are alike."""
    name = name or function.__name__
    return Policy(name, "key" if _arity(function, name) == 1 else "cluster", function)


def _arity(function: Callable[..., Any], name: str) -> int:
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) not in (1, 2):
        raise UserError(
            f"the cluster policy {name} takes {len(needed)} plans; let it take one and return its class, "
            "or two and return whether they are alike"
        )
    return len(needed)


# --- composition


def compose(
    policies: Iterable[Policy],
    plans: Iterable[Plan],
    seed: int,
    earlier: Iterable[Plan] = (),
    dropped_max: int = DROPPED_MAX,
    tried: Callable[[Plan], bool] = lambda _: False,
) -> Pruned:
    """Apply policies in order. The seed alone decides which member represents a class, not the order of the plans.

    Each of the `earlier` plans was run and already represents its class. Plans that were `tried` by a run of another plan are
    preferred as representatives.
    """
    in_order = tuple(_flat(policies))
    tally = _Tally([policy.name for policy in in_order], dropped_max)
    stream: Iterator[PlanView] = (plan_view(plan) for plan in plans)
    before: dict[int, list[PlanView]] = {}
    for plan in earlier:
        before.setdefault(len(plan.steps), []).append(plan_view(plan))
    rank = _Rank(seed, tried)
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
    """A class of plans: its representative (`member`), the first plan for comparisons (`sample`), and its position."""

    __slots__ = ("fixed", "member", "position", "rank", "sample")

    def __init__(self, member: PlanView, position: int, *, fixed: bool) -> None:
        self.member = member
        self.sample = member
        self.position = position
        self.fixed = fixed
        self.rank: bytes = b""

    def add(self, member: PlanView, rank: _Rank) -> PlanView:
        """Add a plan; return the one that does not represent the class."""
        if self.fixed:
            return member
        self.rank = self.rank or rank(self.member.plan)
        new = rank(member.plan)
        if new >= self.rank:
            return member
        loser, self.member, self.rank = self.member, member, new
        return loser


class _Rank:
    """Orders the plans of a class; the least represents it. A plan that was already tried comes first, the others at random."""

    def __init__(self, seed: int, tried: Callable[[Plan], bool]) -> None:
        self._seed = seed
        self._tried = tried

    def __call__(self, plan: Plan) -> bytes:
        return (b"0" if self._tried(plan) else b"1") + draw(self._seed, plan)


def draw(seed: int, plan: Plan) -> bytes:
    """A random sort key of the plan. It depends only on the seed and the plan, so the order of the plans does not matter."""
    return hashlib.blake2b(f"{seed} {plan.id}".encode(), digest_size=8).digest()


def _clustered(
    policy: Policy, stream: Iterator[PlanView], tally: _Tally, rank: _Rank, earlier: Mapping[int, Iterable[PlanView]]
) -> Iterator[PlanView]:
    find = _by_key(policy) if policy.kind == "key" else _by_pairs(policy)
    classes: list[_Class] = []
    lengths: set[int] = set()
    for position, view in enumerate(stream):
        if len(view) not in lengths:  # plans of other lengths are never in its class
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
        tally.represents(kept.member.plan)
        yield kept.member


Find = Callable[[PlanView, Callable[[PlanView], _Class]], _Class]
"""Returns the class of a plan, or creates it."""


def _by_key(policy: Policy) -> Find:
    classes: dict[tuple[int, Hashable], _Class] = {}

    def find(view: PlanView, new: Callable[[PlanView], _Class]) -> _Class:
        key = (len(view), _ask(policy, view))
        try:
            found = classes.get(key)
        except TypeError:
            raise UserError(
                f"the cluster policy {policy.name} returned {key[1]!r:.80}, which is not hashable; "
                "let it return a string, a number, a tuple or a frozenset"
            ) from None
        if found is None:
            found = classes[key] = new(view)
        return found

    return find


def _by_pairs(policy: Policy) -> Find:
    """Compares a plan with one member of each class only, so the policy must be an equivalence relation."""
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
    """The policy's answer. Raise a `UserError` with its name if it raises or returns None."""
    try:
        answer = policy.function(*views)
    except UserError:
        raise
    except Exception as error:
        reason = error.args[0] if isinstance(error, KeyError) and error.args else error
        did = f"raised {type(error).__name__}: {reason} (line {_line(error)})"
        raise UserError(_complaint(policy, did, views)) from error
    if answer is None:
        raise UserError(_complaint(policy, "returned nothing", views))
    return answer


def _line(error: Exception) -> int:
    trace, line = error.__traceback__, 0
    while trace is not None:
        line, trace = trace.tb_lineno, trace.tb_next
    return line


def _complaint(policy: Policy, did: str, views: tuple[PlanView, ...]) -> str:
    about = " and ".join(f'"{view}"' for view in views)
    return printable(f"the policy {policy.name} {did} for {about}", _TEXT_MAX) + "; fix it"


class _Tally:
    """The dropped plans and the policies that dropped them. Representatives are resolved at the end, when all are known."""

    def __init__(self, policies: Iterable[str], dropped_max: int) -> None:
        self._max = dropped_max
        self._counts = dict.fromkeys(policies, 0)
        self._dropped: list[tuple[str, Plan, _Class | None]] = []
        self._representatives: set[str] = set()
        self._dropped_later: dict[str, tuple[str, _Class | None]] = {}

    def drop(self, policy: str, plan: Plan, found: _Class | None = None) -> None:
        self._counts[policy] += 1
        if self._counts[policy] <= self._max:
            self._dropped.append((policy, plan, found))
        if self._representatives and plan.id in self._representatives:
            self._dropped_later[plan.id] = (policy, found)

    def represents(self, plan: Plan) -> None:
        """Note that the plan represents a class; a later policy may still drop it."""
        self._representatives.add(plan.id)

    def pruned(self, kept: tuple[Plan, ...]) -> Pruned:
        representatives: dict[str, str] = {}
        dropped: list[Dropped] = []
        for policy, plan, found in self._dropped:
            rules, last = self._follow(policy, found)
            if last is not None:
                representatives.setdefault(last.id, str(last))
            dropped.append(Dropped(plan, THEN.join(rules), last.id if last else ""))
        counts = {policy: count for policy, count in self._counts.items() if count}
        return Pruned(kept, tuple(dropped), counts, representatives)

    def _follow(self, policy: str, found: _Class | None) -> tuple[list[str], Plan | None]:
        """The policies that dropped a plan and its representatives in turn, and the last representative (None if a filter dropped
        it)."""
        rules = [policy]
        while found is not None:
            plan = found.member.plan
            if found.fixed or plan.id not in self._dropped_later:
                return rules, plan
            policy, found = self._dropped_later[plan.id]
            rules.append(policy)
        return rules, None


# --- for campaigns


def prune(
    plans: Iterable[Plan],
    taken: Container[str],
    user_filters: UserFilters,
    policies: Iterable[Policy] = (),
    seed: int = 0,
    earlier: Iterable[Plan] = (),
    tried: Callable[[Plan], bool] = lambda _: False,
) -> Pruned:
    """Drop plans that the policies drop, then plans that the strategy already proposed (`taken` has their ids), then plans that
    the user's policies drop. A class is represented by a plan that was `tried`, if it has one: that costs no run."""
    composed = compose(policies, plans, seed, earlier, tried=tried)
    counts = Counter({f"policy {name}": count for name, count in composed.counts.items()})
    dropped = [Dropped(one.plan, f"policy {one.rule}", one.instead) for one in composed.dropped]
    own: set[str] = set()
    fresh: list[Plan] = []
    for plan in composed.kept:
        if plan.id in taken or plan.id in own:
            dropped.append(Dropped(plan, ALREADY_PROPOSED, plan.id))
            counts[ALREADY_PROPOSED] += 1
        else:
            own.add(plan.id)
            fresh.append(plan)
    kept: list[Plan] = []
    for plan, answer in zip(fresh, user_filters(fresh), strict=True):
        rule, instead = (answer, "") if isinstance(answer, str) else answer
        if rule:
            dropped.append(Dropped(plan, f"policy {rule}", instead))
            counts[f"policy {rule.partition(THEN)[0]}"] += 1
        else:
            kept.append(plan)
    representatives = composed.stands | {plan.id: str(plan) for plan in kept}
    return Pruned(tuple(kept), tuple(dropped), dict(counts), representatives)


def refusals(pruned: Pruned, plans: Iterable[Plan]) -> list[Refusal]:
    """For each plan, in order: the rule that dropped it, with its representative; an empty rule if it was kept."""
    kept = {plan.id for plan in pruned.kept}
    dropped = {one.plan.id: Refusal(one.rule, one.instead) for one in pruned.dropped}
    return [Refusal("") if plan.id in kept else dropped[plan.id] for plan in plans]


def explain(pruned: Pruned, examples_max: int = 10) -> tuple[Explanation, ...]:
    """For each policy that dropped plans, in order: their number, and at most `examples_max` of them in words."""
    examples: dict[str, list[Example]] = {policy: [] for policy in pruned.counts}
    for one in pruned.dropped:
        listed = examples[one.rule.partition(THEN)[0]]
        if len(listed) < examples_max:
            instead = f"{one.instead} {pruned.stands.get(one.instead, '')}".strip()
            listed.append(Example(str(one.plan), instead))
    return tuple(Explanation(policy, count, tuple(examples[policy])) for policy, count in pruned.counts.items())
