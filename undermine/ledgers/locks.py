"""Locks and leases: no client is granted a lock that another certainly holds, and fencing tokens grow.

A client certainly holds a lock from the answer to its acquisition until it begins to release it, or until its lease may be
over. Only certainty counts: an acquisition with unknown outcome holds nothing, any attempt to release ends the holding, and a
release with unknown outcome may take effect late, when its client holds the lock again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from itertools import accumulate
from typing import Any, NamedTuple

from undermine.ledgers.base import (
    Clock,
    Field,
    Ledger,
    Unclear,
    argument,
    bounded,
    counted,
    frozen,
    grouped,
    need_timed,
    optional,
    part,
    show,
    word,
    words,
)
from undermine.model.run import Op, RunView, Verdict

_FOR_EVER_NS = 1 << 62


class _Holding(NamedTuple):
    begin_ns: int
    end_ns: int
    holder: Hashable
    op: Op


def acquired(op: Op) -> bool:
    """Was the lock granted? An answer of False means that another client holds it."""
    return op.value is not False


def mutual_exclusion(
    *,
    acquire: str = "lock",
    release: str = "unlock",
    lock: Field = "",
    holder: Field = "",
    renew: str = "",
    lease_s: float | Field | None = None,
    token: Field = "",
    got: Callable[[Op], bool] = acquired,
    name: str = "",
) -> Ledger:
    """No two clients certainly hold one lock at the same time.

    `lock` where there are several. `holder`: who holds it, if not the client. `lease_s`: a number, or the argument that
    says how long it is held at most; `renew` begins another lease. `token`: the part of the answer that must grow.
    """
    find_lock = optional(lock, argument)
    find_holder = argument(holder) if holder else (lambda op: op.client)
    find_lease = _lease(lease_s)
    find_token = part(token) if token else None

    def judge(run: RunView) -> Verdict:
        takes = [op for op in run.history if op.f == acquire]
        need_timed(takes, acquire)
        granted = [op for op in run.history if op.f in (acquire, renew) and op.status == "ok" and got(op)]
        releases = grouped((op for op in run.history if op.f == release), lambda op: (find_lock(op), find_holder(op)))
        ends = {who: _Releases(ops) for who, ops in releases.items()}
        clock, both, backwards = Clock(run), [], []
        by_lock = grouped(granted, find_lock)
        for one, ops in by_lock.items():
            holdings = [_holding(op, one, frozen(find_holder(op)), ends, _expired_ns(run, op, find_lease(op))) for op in ops]
            both += [(one, *pair) for pair in _overlaps(holdings)]
        if both:
            return Verdict.fail(
                f"{counted(len({one for one, *_ in both}), 'lock')} held by two clients at once",
                symptom="two clients hold one lock",
                evidence=bounded([_overlap_line(*each, clock=clock, named=bool(lock)) for each in both]),
            )
        if find_token is not None:
            for one, ops in by_lock.items():
                tokens = [(op, frozen(find_holder(op)), find_token(op)) for op in ops if op.f == acquire]
                backwards += [(one, *pair) for pair in _not_growing(tokens)]
        if backwards:
            return Verdict.fail(
                f"the token did not grow: {words({one for one, *_ in backwards}) if lock else acquire}",
                symptom="fencing token does not grow",
                evidence=bounded([_token_line(*each, clock=clock, named=bool(lock)) for each in backwards]),
            )
        return Verdict.ok() if granted else Verdict.unknown(f"no {acquire} was granted")

    return Ledger(name or f"one_holder_of_{acquire}", judge)


def _lease(lease_s: float | Field | None) -> Callable[[Op], float | None]:
    if lease_s is None or isinstance(lease_s, int | float):
        return lambda op: lease_s
    return argument(lease_s)


class _Releases:
    """The releases of one lock by one holder, in the order they began; a release without an answer may take effect late."""

    def __init__(self, ops: list[Op]) -> None:
        self._starts = sorted(op.start_ns for op in ops)
        open_ones = (op.start_ns for op in ops if op.status in ("unknown", "pending"))
        self._first_open_ns = min(open_ones, default=_FOR_EVER_NS)

    def after(self, start_ns: int) -> int:
        """The time until which a grant to an operation that began at `start_ns` is certainly not released."""
        if self._first_open_ns < start_ns:
            return 0
        at = bisect_left(self._starts, start_ns)
        return self._starts[at] if at < len(self._starts) else _FOR_EVER_NS


def _holding(
    op: Op, lock: Hashable, holder: Hashable, releases: dict[Hashable, _Releases], expired_ns: int
) -> _Holding:
    """The holding from the operation's end to the next release, or to the end of its lease."""
    known = releases.get((lock, holder))
    released_ns = known.after(op.start_ns) if known else _FOR_EVER_NS
    return _Holding(op.end_ns, min(released_ns, expired_ns), holder, op)


def _expired_ns(run: RunView, op: Op, lease_s: Any) -> int:
    """When the lease ends by the clocks of the run; it may have begun when the operation did."""
    if lease_s is None:
        return _FOR_EVER_NS
    if not isinstance(lease_s, int | float) or lease_s != lease_s:
        raise Unclear(f"the lease of a {op.f} is not a number of seconds: {show(lease_s)}")
    return op.start_ns + min(run.record.true_ns(min(lease_s, _FOR_EVER_NS / 1e9)), _FOR_EVER_NS)


def _overlaps(holdings: Iterable[_Holding]) -> list[tuple[_Holding, _Holding]]:
    """Pairs of overlapping holdings of different holders: each holding with the longest of those that began before it."""
    found = []
    longest: dict[Hashable, _Holding] = {}  # at most two: the longest, and the longest of another holder
    for one in sorted((h for h in holdings if h.begin_ns < h.end_ns), key=lambda h: h.begin_ns):
        others = [h for h in longest.values() if h.holder != one.holder and h.end_ns > one.begin_ns]
        if others:
            found.append((max(others, key=lambda h: h.end_ns), one))
        mine = longest.get(one.holder)
        if mine is None or one.end_ns > mine.end_ns:
            longest[one.holder] = one
        if len(longest) > 2:
            del longest[min(longest, key=lambda who: longest[who].end_ns)]
    return found


Granted = tuple[Op, Hashable, Any]


def _not_growing(granted: list[Granted]) -> list[tuple[Granted, Granted]]:
    """Pairs in which the second began after the first had ended and doesn't have a higher token."""
    known = sorted((each for each in granted if each[2] is not None), key=lambda each: each[0].end_ns)
    ends = [op.end_ns for op, _, _ in known]
    highest = list(accumulate(known, _higher))
    found = []
    for each in known:
        before = bisect_left(ends, each[0].start_ns)
        if not before:
            continue
        top = highest[before - 1]
        again = top[1] == each[1] and top[2] == each[2]  # a holder may be granted the lock again with the same token
        if not again and _higher(top, each) is top:
            found.append((top, each))
    return found


def _higher(one: Granted, other: Granted) -> Granted:
    """The one with the higher token; the first if they are equal."""
    try:
        return other if other[2] > one[2] else one
    except TypeError:
        raise Unclear(
            f"tokens that cannot be compared: {show(one[2])}, {show(other[2])}; return numbers"
        ) from None


def _overlap_line(lock: Hashable, one: _Holding, other: _Holding, *, clock: Clock, named: bool) -> str:
    until = "forever" if one.end_ns == _FOR_EVER_NS else f"until {clock.at(one.end_ns)}"
    return (
        f"{f'{word(lock)}: ' if named else ''}{word(one.holder)} holds it from {clock.at(one.begin_ns)} {until}, "
        f"{word(other.holder)} from {clock.at(other.begin_ns)}"
    )


def _token_line(lock: Hashable, one: Granted, other: Granted, *, clock: Clock, named: bool) -> str:
    return (
        f"{f'{word(lock)}: ' if named else ''}{word(one[1])} got {show(one[2])} at {clock.at(one[0].end_ns)}, "
        f"{word(other[1])} later got {show(other[2])} at {clock.at(other[0].end_ns)}"
    )
