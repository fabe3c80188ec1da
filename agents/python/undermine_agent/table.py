"""The table of steps, and the shared state that says which of them are armed. Decides; never acts.

Steps are compiled to lists per operation, so that an operation nobody asks about costs one look at an empty list.
"""

from __future__ import annotations

from itertools import count

HEALED = 12
STEPS = 64
STEP_SIZE = 16
ARMED = 1

OPERATIONS = (
    "file.open file.create file.read file.write file.fsync file.truncate file.close file.unlink file.mkdir "
    "file.rmdir file.stat file.list file.rename net.connect net.accept net.send net.recv net.close"
).split()
OBSERVED = (
    "thread.start thread.end thread.die task.die lock.acquire lock.release cond.wait cond.notify event.wait "
    "event.set queue.put queue.get sleep"
).split()


class Operation:
    """One kind of operation, and the halves of triggers that may match it."""

    __slots__ = ("name", "matchable", "before", "after")

    def __init__(self, name: str, matchable: bool):
        self.name = name
        self.matchable = matchable
        self.before: tuple = ()
        self.after: tuple = ()


class Half:
    """One occurrence that a trigger waits for."""

    __slots__ = ("step", "is_first", "op", "loc", "target", "stack", "place", "nth", "counter")

    def __init__(self, step, is_first: bool, description: dict):
        match = description["match"]
        self.step = step
        self.is_first = is_first
        self.op, self.loc = match.get("op"), match.get("loc")
        self.target, self.stack = match.get("target"), match.get("stack")
        self.place = description.get("place", "before")
        self.nth = int(description.get("nth", 1))
        self.counter = count(1)

    def matches(self, call) -> bool:
        return (
            (self.target is None or self.target == call.subject.target)
            and (self.loc is None or self.loc == call.stack.loc)
            and (self.stack is None or self.stack == call.stack.digest)
        )


class Step:
    """A fault and its trigger."""

    __slots__ = ("index", "needs_first", "fault")

    def __init__(self, index: int, needs_first: bool, fault: dict):
        self.index = index
        self.needs_first = needs_first
        self.fault = fault


class State:
    """The file that the tool and all agents of a run share."""

    def __init__(self, view: memoryview):
        if len(view) < STEPS or bytes(view[:4]) != b"UMS1":
            raise ValueError("not a state file")
        self.view = view
        self.words = view[:STEPS].cast("I")

    @property
    def generation(self) -> int:
        return self.words[2]

    @property
    def healed(self) -> bool:
        return self.view[HEALED] == 1

    def armed(self, step: int) -> bool:
        return self.view[STEPS + STEP_SIZE * step] == ARMED

    def first_seen(self, step: int) -> bool:
        return self.view[STEPS + STEP_SIZE * step + 1] == 1

    def see_first(self, step: int) -> None:
        self.view[STEPS + STEP_SIZE * step + 1] = 1


class Table:
    """All operations by name, with the steps of this process compiled into them."""

    def __init__(self, state: State, node: str, role: str, steps):
        self.state = state
        self.operations = {name: Operation(name, True) for name in OPERATIONS}
        self.operations.update((name, Operation(name, False)) for name in OBSERVED)
        self.here = {"node": node, "role": role}
        self.halves: list = []
        for description in steps:
            self._add(description)

    def _add(self, description: dict) -> None:
        index = int(description["step"])
        if STEPS + STEP_SIZE * (index + 1) > len(self.state.view):
            raise ValueError("the state file has no room for step %d" % index)
        step = Step(index, bool(description.get("first")), description["fault"])
        # The second half is looked at first, so that one occurrence is never both.
        for name in ("second", "first"):
            if description.get(name):
                self._add_half(Half(step, name == "first", description[name]), description[name]["match"])

    def _add_half(self, half: Half, match: dict) -> None:
        if any(match.get(key, value) != value for key, value in self.here.items()):
            return
        if not match.keys() <= {"op", "loc", "node", "role", "target", "stack"}:
            return  # a key this agent does not know can never be equal
        self.halves.append(half)
        for operation in self.operations.values():
            if operation.matchable and half.op in (None, operation.name):
                setattr(operation, half.place, (*getattr(operation, half.place), half))

    def reset_counts(self) -> None:
        """In a forked child: occurrences are counted in each process."""
        for half in self.halves:
            half.counter = count(1)

    def reached(self, halves, call):
        """Count one occurrence; returns the step that is to be claimed now, if any."""
        state = self.state
        if state.healed:
            return None
        for half in halves:
            step = half.step
            index = step.index
            if not state.armed(index):
                continue
            if half.is_first == state.first_seen(index) and step.needs_first:
                continue
            if half.matches(call) and next(half.counter) == half.nth:
                if not half.is_first:
                    return step
                state.see_first(index)
        return None
