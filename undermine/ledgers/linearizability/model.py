"""The interface of models: objects as one client alone would see them, as pure functions from state to state."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from undermine.ledgers.base import Unclear, frozen, show
from undermine.model.run import Op


class _Word:
    """A value that no target can answer."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word


IMPOSSIBLE: Any = _Word("IMPOSSIBLE")
"""The result of a step that cannot happen in this state."""
UNKNOWN: Any = _Word("UNKNOWN")
"""The answer of an operation with unknown outcome."""
NO_STATE: Any = _Word("NO_STATE")
"""Stands for a state that a model doesn't have."""


NEVER_NS = 1 << 62


class Call(NamedTuple):
    """An operation as its model sees it. Equal calls have equal effects."""

    kind: str
    argument: Hashable = None
    answer: Hashable = UNKNOWN


class Span(NamedTuple):
    """A call and the times between which it took effect. One that never ended may also have had no effect at all."""

    start_ns: int
    end_ns: int
    call: Call
    op: Op

    @property
    def ended(self) -> bool:
        return self.end_ns != NEVER_NS


class Conflict:
    """Operations that no order explains, from any state if `anything`.

    With a reason, `why`, they are shown as they are. Without one, they alone must be wrong, and fewer of them may be shown.
    """

    def __init__(self, spans: Sequence[Span], why: str = "", *, anything: bool = False) -> None:
        by_op = {span.op.index: span for span in spans}
        self.spans = sorted(by_op.values(), key=lambda span: span.start_ns)
        self.why = why
        self.anything = anything


class Model:
    """An object that is used by one client at a time.

    A model of your own needs `operations`, `initial`, `call` and `step`. The rest makes the search faster and its result smaller.
    """

    operations: tuple[str, ...] = ()
    """The names of the operations."""
    initial: Hashable = None
    """The state at the start."""
    any_state: Hashable = NO_STATE
    """A state in which everything is possible that is possible in some state. It permits to leave out the operations before a
    failure. Not every model has one."""

    def key(self, op: Op) -> Hashable:
        """The object that the operation is about. The operations of each object are judged alone."""
        return ""

    def call(self, op: Op) -> Call | None:
        """The operation as `step` needs it; None if it says nothing, like a read without an answer."""
        raise NotImplementedError

    def step(self, state: Hashable, call: Call) -> Hashable:
        """The state after the call, or `IMPOSSIBLE` if it cannot happen, or cannot have this answer, in this state."""
        raise NotImplementedError

    def observes(self, call: Call) -> bool:
        """Does this call leave every state as it is?"""
        return False

    def needless(self, calls: Sequence[Call]) -> set[Call]:
        """Calls that need not take effect, if their outcome is unknown, to explain these calls."""
        return set()

    def subjects(self, calls: Sequence[Call]) -> list[Hashable]:
        """For each call its subject, or None. An explained history is still explained without the calls of some subjects."""
        return [None] * len(calls)

    def decide(self, spans: Sequence[Span], initial: Hashable) -> Conflict | bool | None:
        """Decide without a search, if that is possible: True if an order explains all, or operations that none explains."""
        return None

    def ranks(self, spans: Sequence[Span]) -> list[int]:
        """For each operation a number, given the operations in the order of their ends: lower numbers are tried first. Equal
        calls get equal numbers."""
        return [0] * len(spans)

    def eager(self, call: Call) -> bool:
        """Can the call take effect as soon as it is possible, because no other order needs it later?"""
        return False


def answer_to(op: Op, find: Callable[[Op], Any]) -> Hashable:
    """The answer of an operation in its hashable form."""
    return hashable(find(op), op) if op.status == "ok" else UNKNOWN


def hashable(value: Any, op: Op) -> Hashable:
    found = frozen(value)
    try:
        hash(found)
    except TypeError:
        raise Unclear(f"{op.f} has a value that cannot be compared: {show(value)}") from None
    return found
