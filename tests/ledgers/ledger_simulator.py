"""Random histories of systems that keep their promises: operations with a moment of effect, lost answers, late effects.

Times are small integers, so that operations often begin and end at the same moment. An acknowledged operation takes effect
between its start and its end. A refused one never does. Any other takes effect never, once or several times, at any moment
after its start.

Hypothesis makes the random choices (`RANDOM`), so it shrinks a history on which a test fails. Where the bugs to be found are so
rare that thousands of histories are needed, tests use seeds instead: that is ten times faster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from hypothesis import strategies

from undermine.model.run import Op, RunView
from undermine.testing import run_view

Effect = Callable[[], Any]
RANDOM = strategies.randoms(use_true_random=False)


class Simulator:
    """Collects operations and their effects, then lets them happen in the order of time."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ops: list[Op] = []
        self._effects: list[tuple[int, float, Effect, int]] = []
        self.end_ns = 0

    def invoke(
        self,
        client: str,
        f: str,
        args: dict[str, Any],
        effect: Effect,
        start_ns: int,
        *,
        phase: str = "workload",
        times: int = 2,
    ) -> int:
        """One operation from then on; when it is over. `times`: how often it may take effect if its outcome is unknown."""
        rng = self.rng
        status = rng.choice(["ok"] * 6 + ["unknown", "unknown", "pending", "fail"])
        end_ns = start_ns + rng.randrange(8)
        index = len(self.ops)
        shown_ns = 0 if status == "pending" else end_ns
        self.ops.append(Op(index, client, f, "", args, status, None, "", phase, start_ns, shown_ns))  # type: ignore[arg-type]
        if status == "ok":
            self._at(rng.randint(start_ns, end_ns), effect, index)
        elif status != "fail":
            for _ in range(min(times, rng.choice((0, 1, 1, 2)))):
                self._at(start_ns + rng.randrange(rng.choice((8, 150))), effect, -1)
        self.end_ns = max(self.end_ns, end_ns)
        return end_ns

    def _at(self, t_ns: int, effect: Effect, index: int) -> None:
        self._effects.append((t_ns, self.rng.random(), effect, index))

    def at(self, t_ns: int, effect: Effect) -> None:
        """Something that happens by itself."""
        self._at(t_ns, effect, -1)

    def history(self) -> tuple[Op, ...]:
        for _, _, effect, index in sorted(self._effects, key=lambda each: each[:2]):
            value = effect()
            if index >= 0:
                self.ops[index] = msgspec.structs.replace(self.ops[index], value=value)
        by_start = sorted(self.ops, key=lambda op: op.start_ns)
        return tuple(msgspec.structs.replace(op, index=index) for index, op in enumerate(by_start))


def view(ops: Iterable[Op], **more: Any) -> RunView:
    return run_view(ops=tuple(ops), **more)


def replaced(history: tuple[Op, ...], op: Op, **changes: Any) -> tuple[Op, ...]:
    """The history with this operation, changed, in place of the one that had its index."""
    changed = msgspec.structs.replace(op, **changes)
    return tuple(changed if one.index == op.index else one for one in history)


class Story:
    """Histories made by hand: each line an operation, in the order of its start."""

    def __init__(self, ops: Iterable[Op] = ()) -> None:
        self.ops: list[Op] = [*ops]

    def add(
        self,
        f: str,
        start_ns: int = -1,
        end_ns: int = -1,
        *,
        client: str = "c1",
        status: str = "ok",
        value: Any = None,
        final: bool = False,
        node: str = "",
        **args: Any,
    ) -> Story:
        """Without times it comes after everything before it."""
        if start_ns < 0:
            start_ns = max((max(op.start_ns, op.end_ns) for op in self.ops), default=0) + 10
        if end_ns < 0:
            end_ns = start_ns + 5
        phase = "final" if final else "workload"
        ended_ns = 0 if status == "pending" else end_ns
        self.ops.append(
            Op(len(self.ops), client, f, node, args, status, value, "", phase, start_ns, ended_ns)  # type: ignore[arg-type]
        )
        return self

    def put(self, key: str, value: Any, start_ns: int = -1, end_ns: int = -1, **more: Any) -> Story:
        self.add("put", start_ns, end_ns, **more)
        self.ops[-1].args.update(key=key, value=value)
        return self

    def get(self, key: str, value: Any = None, start_ns: int = -1, end_ns: int = -1, **more: Any) -> Story:
        return self.add("get", start_ns, end_ns, value=value, key=key, **more)

    @property
    def view(self) -> RunView:
        return view(self.ops)

    @property
    def history(self) -> tuple[Op, ...]:
        return tuple(self.ops)
