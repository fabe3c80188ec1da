"""The table of steps, and the shared state that says which of them are armed. Decides; never acts.

Steps are compiled to one tuple per operation, so that an operation without steps costs one look at an empty tuple.
"""

from __future__ import annotations

import os
import re
from itertools import count

from undermine_agent.interpreter import fast

# The layout of the state file; protocol/wire.toml has the same numbers.
MAGIC = b"UMS2"
HEALED = 12
GENERATION, PORTS_AT, VARIABLES_AT, FIRSTS_AT = 2, 4, 5, 6  # numbers of 32-bit words
PORTS, PORT_FACTOR = 65536, 40503
STEPS = 64
STEP_SIZE, BOUND = 16, 4
ARMED, FIRED, OVER = 1, 2, 3
SLOT_SIZE, SLOT_TEXT = 128, 6
ABSENT = 0xFFFF
_READS_MAX = 1000
_KEYS = {"op", "loc", "node", "role", "target", "stack", "content"}
_NOTHING = "∅"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII).fullmatch
# The facts about operations are those of protocol/operations.toml; a test compares them.
# The operations at which variables are read. A condition on variables is checked there, unless the trigger names one.
READ_BEFORE = ("net.connect", "net.send", "net.recv", "msg.send", "msg.recv", "raw.send", "raw.recv")
READ_AFTER = ("net.recv", "msg.recv", "raw.recv")
# The operations that begin or send a message: it involves a group of nodes if it leaves or enters the group.
MESSAGES = ("net.connect", "net.send", "msg.send")
# The operations that move bytes of a connection.
TRANSFERS = ("net.send", "net.recv")
# The operations at which `corrupt` and `drop` work. These faults always act before the operation, since they act on
# its data.
CORRUPTIBLE = (
    "file.read", "file.write", "file.map_read", "file.map_write", "net.send", "net.recv", "msg.send", "msg.recv"
)  # fmt: skip
DROPPABLE = ("net.send", "net.recv", "msg.send", "msg.recv", "db.read", "db.write", "db.commit")
# Accesses to the memory of a mapped file: the system has no way to report an error for them.
MAPPED = ("file.map_read", "file.map_write")

OPERATIONS = (
    "file.open file.create file.read file.write file.map_read file.map_write file.fsync file.truncate file.close "
    "file.unlink file.mkdir file.rmdir file.stat file.list file.rename net.connect net.accept net.send net.recv net.close "
    "msg.send msg.recv db.read db.write db.commit"
).split()
OBSERVED = (
    "process.start process.wait pipe.open pipe.write pipe.read thread.start thread.end thread.die task.start task.end task.die "
    "task.replace lock.acquire lock.release cond.wait cond.notify event.wait event.set sem.acquire sem.release barrier.wait "
    "queue.put queue.get queue.done future.wait future.set join handover.give handover.take clock numbers sleep timeout "
    "raw.send raw.recv db.got stream.read poll variable.sample heap.read heap.write content.tokens content.labels"
).split()


def slot_of(caller: int, called: int) -> int:
    """The slot of a connection between two ports. One caller has a different slot for each called port."""
    return caller + called * PORT_FACTOR & PORTS - 1


class Operation:
    """One kind of operation, and the trigger parts that may match it.

    `opens` is set if accesses to the heap are recorded. 1: a handler begins and ends with it; 2: its thread polls.
    """

    __slots__ = ("name", "matchable", "before", "after", "opens")

    def __init__(self, name: str, matchable: bool):
        self.name = name
        self.matchable = matchable
        self.before: tuple = ()
        self.after: tuple = ()
        self.opens = 0


Operation = fast.base("Operation", Operation)  # type: ignore[misc]


class Step:
    """A fault and its number."""

    __slots__ = ("index", "fault", "kind", "capability", "like", "same")

    def __init__(self, index: int, fault: dict, same: str = ""):
        self.index = index
        self.same = same  # `process` or `node`: that of the step before
        self.fault = fault
        self.kind = fault.get("fault", "")
        self.capability = "delay-operation" if _is_slow_operation(fault) else self.kind
        # A hold occurs at the operations at which the fault that it replaces would.
        self.like = fault.get("of") or self.capability


def _is_slow_operation(fault: dict) -> bool:
    return fault.get("fault") == "delay" and fault.get("mode") == "operation"


class FirstSeen:
    """The flag that says whether the first occurrence of a pair was seen: in the run, on this node or in this process."""

    __slots__ = ("view", "at", "is_own")

    def __init__(self, view, at: int, is_own: bool = False):
        self.view, self.at, self.is_own = view, at, is_own


class TriggerPart:
    """One occurrence that a trigger waits for: the first or second of a step's start or of its end.

    `claimed_as` is its name in a claim: `second` for the step's start, `until` for its end. A `late` part is counted by
    the fault itself, once there is something to act on. `first` says whether the first occurrence was seen. A part with
    `same` counts only in the process, or on the node, that the tool has written to the shared state. A part with `peers`
    counts only before messages to these nodes. `state` has the slots whose texts are part of the point.
    """

    __slots__ = (
        "step", "claimed_as", "is_first", "first", "match", "op", "loc", "target", "stack", "content", "place", "nth", "counter",
        "keys", "seen", "state", "when", "peers", "acts", "late", "at", "wanted", "same", "bound_at",
    )  # fmt: skip

    def __init__(self, step: Step, claimed_as: str, is_first: bool, first: FirstSeen | None, description: dict):
        self.step, self.claimed_as, self.is_first, self.first = step, claimed_as, is_first, first
        match = self.match = description["match"]
        self.op, self.loc = match.get("op"), match.get("loc")
        self.target, self.stack, self.content = match.get("target"), match.get("stack"), match.get("content")
        self.place = description.get("place", "before")
        self.nth = int(description.get("nth", 1))
        self.counter = count(1)
        unseen = description.get("unseen") or {}
        self.keys = tuple(unseen.get("keys", ()))
        self.seen = frozenset(map(tuple, unseen.get("seen", ())))
        self.state = tuple(unseen.get("state") or ())
        self.when = tuple(description.get("when") or ())
        self.peers: frozenset | None = None
        self.acts = claimed_as == "second" and not is_first
        self.late = self.acts and step.kind == "corrupt"
        self.at = STEPS + STEP_SIZE * step.index
        self.wanted = FIRED if claimed_as == "until" else ARMED
        self.same = step.same if self.acts else ""
        self.bound_at = (self.at + BOUND) // 4

    def places_at(self, operation: Operation) -> tuple:
        """Check this part before or after this operation, or both?"""
        name = operation.name
        if not operation.matchable or self.op not in (None, name):
            return ()
        places: tuple = (self.place,)
        if self.peers is not None:
            places = ("before",) if name in MESSAGES else ()
        elif self.when and self.op is None:
            places = ("before",) * (name in READ_BEFORE) + ("after",) * (name in READ_AFTER)
        if not self.acts or not places:
            return places
        like = self.step.like
        if like == "error" and name in MAPPED:
            return ()
        if like in ("corrupt", "drop"):
            return ("before",) if name in (CORRUPTIBLE if like == "corrupt" else DROPPABLE) else ()
        return ("before",) if like == "delay-operation" and name in TRANSFERS else places

    def reached(self, state, call):
        """Count one occurrence. If it is the one to claim, return the state in its point ("": none), else None."""
        view = state.view
        if view[self.at] != self.wanted or view[HEALED] == 1:
            return None
        first = self.first
        if first is not None and self.is_first == (first.view[first.at] == 1):
            return None
        if self.same and state.words[self.bound_at] != state.own[self.same]:
            return None
        texts = state.texts_about(self.state) if self.state else ""
        if not self._matches(call, texts) or (self.when and not state.are_true(self.when)):
            return None
        return texts if self.late or next(self.counter) == self.nth else None

    def _matches(self, call, state: str) -> bool:
        return (
            (self.peers is None or _peer_of(call.subject) in self.peers)
            and (self.target is None or self.target == call.subject.target)
            and (self.loc is None or self.loc == call.stack.loc)
            and (self.stack is None or self.stack == call.stack.digest)
            and (self.content is None or self.content == getattr(call.subject, "full_content", ""))
            and (not self.keys or self._point(call, state) not in self.seen)
        )

    def _point(self, call, state: str) -> tuple:
        """The values of the kept keys. Node and role come from the match: they were compared when it was compiled."""
        return tuple(
            call.operation.name if key == "op"
            else call.stack.loc if key == "loc"
            else call.stack.digest if key == "stack"
            else call.subject.target if key == "target"
            else call.subject.content if key == "content"
            else state if key == "state"
            else self.match.get(key)
            for key in self.keys
        )  # fmt: skip


def _peer_of(subject) -> str:
    """The node that a message goes to, or another word."""
    peer = subject.target.rpartition(" ")[2]
    return peer[5:] if peer.startswith("peer:") else ""


class State:
    """The state file that the tool and all agents of a run share."""

    def __init__(self, view: memoryview):
        if len(view) < STEPS or bytes(view[:4]) != MAGIC:
            raise ValueError("not a state file")
        self.view = view
        self.words = view[: len(view) // 4 * 4].cast("I")
        self.own = {"process": os.getpid(), "node": 0}  # as the tool writes the place to which a step is bound

    @property
    def generation(self) -> int:
        return self.words[GENERATION]

    @property
    def healed(self) -> bool:
        return self.view[HEALED] == 1

    def over(self, step: int) -> bool:
        """True if the effect of this step has ended: its `until` was reached, or everything is healed."""
        view = self.view
        return view[HEALED] == 1 or view[STEPS + STEP_SIZE * step] == OVER

    def caller_at(self, slot: int, port: int) -> int:
        """One plus the index of the node whose connection from this port has this slot; 0 if unknown."""
        ports, view = self.words[PORTS_AT], self.view
        if not ports or not view[ports + slot]:
            return 0
        port_at = ports + PORTS + 2 * slot
        return view[ports + slot] if view[port_at] | view[port_at + 1] << 8 == port else 0

    def put_caller_at(self, slot: int, port: int, number: int) -> None:
        ports, view = self.words[PORTS_AT], self.view
        if ports:
            port_at = ports + PORTS + 2 * slot
            view[port_at], view[port_at + 1] = port & 0xFF, port >> 8
            view[ports + slot] = number

    def text(self, slot: int):
        """The text published in a slot; None if absent. Reads again if a writer interfered."""
        start = self.words[VARIABLES_AT] + SLOT_SIZE * slot
        words, view, at = self.words, self.view, start // 4
        for _ in range(_READS_MAX):
            version = words[at]
            length = view[start + 4] | view[start + 5] << 8
            data = bytes(view[start + SLOT_TEXT : start + SLOT_TEXT + min(length, SLOT_SIZE - SLOT_TEXT)])
            if version == words[at] and not version & 1:
                return None if length == ABSENT or version == 0 else data.decode("utf-8", "replace")
        return None

    def publish(self, slot: int, text) -> None:
        """Write a slot; one writer at a time. None means absent."""
        start = self.words[VARIABLES_AT] + SLOT_SIZE * slot
        words, view, at = self.words, self.view, start // 4
        data = b"" if text is None else text.encode("utf-8", "backslashreplace")
        length = ABSENT if text is None else len(data)
        version = words[at] | 1
        words[at] = version & 0xFFFFFFFF
        view[start + 4 : start + SLOT_TEXT + len(data)] = bytes((length & 255, length >> 8)) + data
        words[at] = (version + 1) & 0xFFFFFFFF or 2

    def are_true(self, comparisons) -> bool:
        """True if all of these comparisons of variables hold now."""
        for comparison in comparisons:
            left = self.text(comparison["slot"])
            right = self.text(comparison["other"]) if "other" in comparison else comparison["value"]
            if not compare(left, comparison["is"], right):
                return False
        return True


    def texts_about(self, parts) -> str:
        """The text of each slot, or the relation of each pair of slots, as a part of points."""
        found = []
        for slots in parts:
            texts = [self.text(slot) for slot in slots]
            found.append(relation(*texts) if len(texts) == 2 else _NOTHING if texts[0] is None else texts[0])
        return ", ".join(found)


def relation(left, right) -> str:
    """How two texts compare; None means absent."""
    if left is None or right is None:
        return "=" if left is right else _NOTHING
    numbers = _number(left), _number(right)
    if None in numbers:
        return "=" if left == right else "≠"
    return "<" if numbers[0] < numbers[1] else ">" if numbers[0] > numbers[1] else "="


def compare(left, how: str, right) -> bool:
    """Compare two texts, as numbers if both are numbers. None means absent and equals only itself."""
    if left is not None and right is not None:
        numbers = _number(left), _number(right)
        if None not in numbers:
            left, right = numbers
    if how == "==":
        return left == right
    if how == "!=":
        return left != right
    if left is None or right is None:
        return False
    return left < right if how == "<" else left > right


def _number(text: str):
    """The number that a text is, as the core reads it; None for other texts, also for `inf`, `nan` and `1_000`."""
    if not _NUMBER(text):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


def _acts_by(part, capabilities) -> bool:
    return isinstance(part, TriggerPart) and part.acts and part.step.capability in capabilities


class Table:
    """All operations by name, with the steps of this process compiled into them."""

    def __init__(self, state: State, node: str, role: str, steps, nodes=()):
        self.state = state
        self.nodes = list(nodes)
        state.own["node"] = self.nodes.index(node) + 1 if node in self.nodes else 0
        self.operations = {name: Operation(name, True) for name in OPERATIONS}
        self.operations.update((name, Operation(name, False)) for name in OBSERVED)
        self.here = {"node": node, "role": role}
        self.parts: list = []
        for description in steps:
            self._add(description)

    def _add(self, description: dict) -> None:
        index = int(description["step"])
        if STEPS + STEP_SIZE * (index + 1) > len(self.state.view):
            raise ValueError("the state file has no room for step %d" % index)
        step = Step(index, description["fault"], description.get("same", ""))
        self._add_pair(step, "until", description.get("until") or {})
        self._add_pair(step, "second", description)

    def _add_pair(self, step: Step, claimed_as: str, pair: dict) -> None:
        """The second part is checked first, so that one occurrence never counts for both."""
        first = self._first_seen(step.index, claimed_as, pair.get("together", "")) if pair.get("first") else None
        for name in ("second", "first"):
            if pair.get(name):
                part = TriggerPart(step, claimed_as, name == "first", first, pair[name])
                part.peers = self._peers_across(pair[name].get("involves"))
                self._add_part(part)

    def _peers_across(self, group):
        """The nodes on the other side of a group's border, seen from this node; None without a group."""
        if not group:
            return None
        is_inside = self.here["node"] in group
        return frozenset(node for node in self.nodes if (node in group) != is_inside)

    def _first_seen(self, step: int, claimed_as: str, together: str) -> FirstSeen:
        """The flag of a pair. `together`: both occurrences are in one process or on one node, whichever it is."""
        state, is_until = self.state, claimed_as == "until"
        if together == "process":
            return FirstSeen(bytearray(1), 0, True)
        if together == "node":
            number = state.own["node"]
            if not state.words[FIRSTS_AT] or not number:
                raise ValueError("the state file has no flags of this node")
            row = (2 * step + is_until) * len(self.nodes)
            return FirstSeen(state.view, state.words[FIRSTS_AT] + row + number - 1)
        return FirstSeen(state.view, STEPS + STEP_SIZE * step + (2 if is_until else 1))

    def _add_part(self, part: TriggerPart) -> None:
        match = part.match
        if any(match.get(key, value) != value for key, value in self.here.items()):
            return
        known = {*_KEYS, "state"} if part.state else _KEYS
        if not _KEYS.issuperset(match) or not known.issuperset(part.keys):
            return  # a key that this agent doesn't know can never be equal
        part.match = {**match, **self.here}
        self.parts.append(part)
        for operation in self.operations.values():
            for place in part.places_at(operation):
                setattr(operation, place, (*getattr(operation, place), part))

    def without(self, name: str, *capabilities: str) -> Operation:
        """A copy of this operation for callers that cannot carry out these faults: it doesn't count for their steps."""
        whole, rest = self.operations[name], Operation(name, True)
        for place in ("before", "after"):
            parts = [part for part in getattr(whole, place) if not _acts_by(part, capabilities)]
            setattr(rest, place, tuple(parts))
        return rest

    def look_first(self, before, after) -> None:
        """Put watchers before all parts at operations where variables are read. They have a `reached` of their own.

        A poll is among them: it ends what its thread has handled.
        """
        for names, place, watcher in (((*READ_BEFORE, "poll"), "before", before), (READ_AFTER, "after", after)):
            for name in names:
                operation = self.operations[name]
                setattr(operation, place, (watcher, *getattr(operation, place)))

    def reset_counts(self) -> None:
        """In a forked child: every process counts its own occurrences."""
        self.state.own["process"] = os.getpid()
        for part in self.parts:
            part.counter = count(1)
            if part.first is not None and part.first.is_own:
                part.first.view[0] = 0

    def reached(self, parts, call) -> list:
        """Count one occurrence; return the parts to claim now, each with the state in its point."""
        state = self.state
        found: list = []
        for part in parts:
            texts = part.reached(state, call)
            if texts is not None:
                if part.is_first:
                    part.first.view[part.first.at] = 1
                else:
                    found.append((part, texts))
        return found
