"""Makes wrong copies of a passing run: an answer, an outcome, a node or a log is changed.

A checker that fails on none of them may be unable to fail at all. Pure: a run in, plants out. This module does not know which
checker should fail on which plant.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from undermine.analysis.agreement.relations import Relation, relations_between
from undermine.analysis.agreement.samples import EVERY_KEY, SAMPLE
from undermine.findings.changes import CHANGES, changed, places, scalars, without
from undermine.model.baseline import Agreement, Agreements, Baseline
from undermine.model.event import Event, Trace, ordered
from undermine.model.faults import Crash, Delay, Error, Fault, Partition, Reboot, fault_kind
from undermine.model.injected import Stage, operations_open
from undermine.model.plan import At, Plan, Step
from undermine.model.point import INJECTABLE_FAMILIES, Point, point_of
from undermine.model.run import HealthSample, LogLine, NodeExit, Op, OpStatus, Receipt, RunRecord, RunView, as_if
from undermine.model.run import Settling as Settled
from undermine.model.run import WorkloadResult as Ended

PLANTS_MAX = 200
_WIDE_MAX = 10
_PLACES_MAX = 3
"""The most parts of one answer that get one kind of change."""
_SLOW_NS = 30_000_000_000
_HEALTH_SAMPLES = 8
_WRITES_TRIED = 5
"""The most writes of a kind that are tried, the last first, until a later answer shows one of them."""
_LEADING_MAX = 20
_LEADING = ("lost effect", "old answer")
"""The most readable kinds come first: a proof names the first plant that a checker fails on."""
_TELLING = ("intruder", "other node", "answer", "outcome", "swapped", "order", "repeated")
_STAGED_MAX = 60
_STAGE_FAULTS: tuple[Fault, ...] = (Crash(), Reboot(), Error(), Partition(), Delay())
WORD = "planted"
_DIFFERENT = (("{planted}", "{}"), ("{}", "{planted}"), (WORD, "{}"), ("{}", WORD))
"""Pairs of values: one of them breaks any relation between nodes at rest."""
TRACEBACK = (
    f"Exception in thread {WORD}:",
    "Traceback (most recent call last):",
    f'  File "{WORD}.py", line 1, in {WORD}',
    f"    raise RuntimeError('{WORD}')",
    f"RuntimeError: {WORD}",
)


@dataclass(frozen=True)
class Plant:
    """One made-up run: a text that says what is wrong with it, and its differences from the run that it is based on."""

    kind: str
    text: str
    record: RunRecord
    history: tuple[Op, ...]
    events: tuple[Event, ...] = ()
    logs: tuple[LogLine, ...] = ()
    agreements: Agreements | None = None
    """The agreements of nodes at rest, if they aren't those of the baseline."""

    def view(self, base: RunView) -> RunView:
        """The made-up run as a checker sees it."""

        def trace() -> Trace:
            return Trace(ordered((*base.trace.events, *self.events)), base.trace.agents, base.trace.problems)

        def baseline() -> Baseline:
            return base.baseline if self.agreements is None else _with(base.baseline, agreements=self.agreements)

        return RunView(self.record, self.history, trace, lambda: (*base.logs, *self.logs), baseline)


def plants(base: RunView, seed: int = 0, plants_max: int = PLANTS_MAX, stages: Sequence[Stage] = ()) -> list[Plant]:
    """At most `plants_max` wrong copies of a passing run, spread over the kinds of plants; equal seeds give equal plants.

    Some copies also have a fault in one of the stages, for checkers that judge only runs with such a fault.
    """
    rng = random.Random(seed)
    first = list(_of_record(base))
    wide = list(_everywhere(base, rng))[:_WIDE_MAX]
    by_kind: dict[str, list[Plant]] = {}
    tiers = list(_of_history(base, rng))
    rng.shuffle(tiers)
    for _, plant in sorted(tiers, key=lambda item: item[0]):
        by_kind.setdefault(plant.kind, []).append(plant)
    leading = [plant for kind in _LEADING for plant in by_kind.pop(kind, ())][:_LEADING_MAX]
    kinds = sorted(by_kind, key=_rank)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*(by_kind[kind] for kind in kinds)))
    narrow = [*leading, *(plant for plant in turns if plant is not None)]
    staged = list(itertools.islice(_in_stages(base, stages, wide, rng), _STAGED_MAX))
    room = max(0, plants_max - len(first) - len(wide) - len(staged))
    return [*first, *narrow[:room], *wide, *staged][:plants_max]


def _rank(kind: str) -> int:
    return next((i for i, word in enumerate(_TELLING) if kind.startswith(word)), len(_TELLING))


# --- nodes, threads, logs, the end of a run


def _of_record(base: RunView) -> Iterator[Plant]:
    """One plant for each subject of the built-in checkers."""
    record, history = base.record, base.history
    node = record.nodes[0].id if record.nodes else ""
    if node:
        end = NodeExit(node, 1, 1, record.started_ns, _middle_ns(base), False, f"{WORD}: it had enough")
        yield Plant("exit", f"{node} ends by itself", _with(record, exits=(*record.exits, end)), history)
        yield Plant("thread", f"a thread of {node} dies", record, history, events=(_dying(base, node),))
        lines = tuple(LogLine(node, "err", text, 1) for text in TRACEBACK)
        yield Plant("log", f"{node} writes an uncaught exception to its log", record, history, logs=lines)
        unready = Settled({node: f"{WORD}: it refuses"}, duration_s=record.settling.duration_s)
        yield Plant("settling", f"{node} does not serve again", _with(record, settling=unready), history)
        yield _disagreeing(base, node)
    yield from _hung(base)
    failed = Settled(final="failed", detail=f"{WORD}: the final reads failed")
    yield Plant("final reads", "the final reads fail", _with(record, settling=failed), history)
    raised = Ended("raised", f"RuntimeError: {WORD}", record.workload.duration_s)
    yield Plant("workload", "the workload raises", _with(record, workload=raised), history)
    yield from _gray(base)


_Made = TypeVar("_Made", RunRecord, Baseline)


def _with(made: _Made, **changes: Any) -> _Made:
    return msgspec.structs.replace(made, **changes)


def _middle_ns(base: RunView) -> int:
    times = [op.start_ns for op in base.history if op.phase == "workload"] or [base.record.started_ns]
    return sorted(times)[len(times) // 2]


def _dying(base: RunView, node: str) -> Event:
    return _event(base, node, "thread.die", _middle_ns(base), target="RuntimeError", resource=WORD)


def _event(base: RunView, node: str, op: str, t_ns: int, **more: Any) -> Event:
    """An event of the newest process of a node."""
    last = next((e for e in reversed(base.trace.events) if e.node == node), None)
    return Event(
        node=node,
        role=base.role(node),
        incarnation=last.incarnation if last else 1,
        pid=last.pid if last else 1,
        seq=last.seq + 1 if last else 1,
        t_ns=t_ns,
        op=op,
        loc=f"{WORD}:run#1",
        line=1,
        stack=(f"{WORD}:run#1",),
        **more,
    )


def _disagreeing(base: RunView, node: str) -> Plant:
    """Two nodes break one of the agreements at rest. If there are none, the variable and the other node are made up."""
    known = base.baseline.agreements
    if not known.at_rest:
        known = Agreements((Agreement((node, WORD, ""), (WORD, WORD, ""), "=="),))
    broken = known.at_rest[0]
    sides = [(of, name, WORD if key == EVERY_KEY else key) for of, name, key in (broken.one, broken.other)]
    record, settled_ns = base.record, base.record.settled_ns or base.record.healed_ns + 2
    values = next(pair for pair in _DIFFERENT if relations_between(*pair).get(cast("Relation", broken.relation)) is False)
    events = tuple(
        _event(base, of, SAMPLE, settled_ns - 1, target=name, resource=key, content=value, size=1)
        for (of, name, key), value in zip(sides, values, strict=True)
    )
    (one, name, _), (other, _, _) = sides
    text = f"{one} and {other} disagree about {name}"
    return Plant("agreement", text, _with(record, settled_ns=settled_ns, left_alone_ns=0), base.history, events, agreements=known)


def _hung(base: RunView) -> Iterator[Plant]:
    """The last operation of the workload is never answered."""
    last = next((op for op in reversed(base.history) if op.phase == "workload"), None)
    if last is None:
        return
    open_one = _op(last, status="pending", value=None, end_ns=0)
    record = _with(base.record, workload=Ended("hung", "", base.record.workload.duration_s))
    yield Plant("hang", f"{last.f} of {last.client} is never answered", record, _replace(base.history, open_one))


def _gray(base: RunView) -> Iterator[Plant]:
    """One operation is slow, no client gets an answer from then on, and all nodes say they are healthy."""
    done = [op for op in base.history if op.phase == "workload" and op.status == "ok"]
    if not done or not base.nodes:
        return
    later = done[len(done) // 2 :]
    node = next((op.node for op in later if op.node in base.nodes), base.nodes[0])
    slow_ns = max(_SLOW_NS, 10 * max(op.end_ns - op.start_ns for op in done))
    begun_ns = later[0].start_ns - 1
    over_ns = max(op.start_ns for op in later) + 2 * slow_ns
    hurt = {op.index: _slow(op, slow_ns) for op in later if op.node in (node, "")}
    history = (*(hurt.get(op.index, op) for op in base.history), *_another_victim(base.history, hurt))
    plan = Plan((Step(At(_point_of(base, node)), Delay(slow_ns / 1e9)),), base.plan.seed, why=WORD)
    receipt = Receipt(0, node, "delay", over_ns, 1, 1, over_ns - begun_ns, WORD)
    sampled_ns = range(begun_ns + 1, over_ns, max(1, (over_ns - begun_ns) // _HEALTH_SAMPLES))
    health = tuple(HealthSample(name, t_ns) for t_ns in sampled_ns for name in base.nodes)
    record = _with(base.record, plan=plan, receipts=(receipt,), health=health, healed_ns=over_ns)
    yield Plant("gray", "clients get no answer while all nodes say they are healthy", record, history)


def _slow(op: Op, slow_ns: int) -> Op:
    error = f"{WORD}: timed out"
    return _op(op, status="unknown", value=None, error=error, end_ns=op.start_ns + slow_ns)


def _another_victim(history: Sequence[Op], hurt: Mapping[int, Op]) -> tuple[Op, ...]:
    """An operation of a made-up second client, if the fault would hit only one: one client alone is permitted to wait."""
    if not hurt or len({op.client for op in hurt.values()}) > 1:
        return ()
    last = hurt[max(hurt)]
    return (_op(last, index=max(op.index for op in history) + 1, client=f"{last.client}-{WORD}"),)


def _point_of(base: RunView, node: str) -> Point:
    event = next((e for e in base.trace.events if e.node == node and e.kind in ("net", "file")), None)
    return point_of(event) if event else Point.of({"node": node})


# --- answers to clients


def _of_history(base: RunView, rng: random.Random) -> Iterator[tuple[int, Plant]]:
    """Plants with a tier; lower tiers come first.

    The last operation of a kind comes before the others and final operations before the workload's: most checkers read those.
    """
    for some in _by_kind(base.history):
        last, other = some[-1], rng.choice(some)
        tier = 0 if last.phase == "final" else 1
        for op in {last.index: last, other.index: other}.values():
            for plant in (*_answers(base, op, rng), *_outcomes(base, op)):
                yield tier if op is last else 2, plant
        for plant in (*_effects(base, some), *_orders(base, some)):
            yield tier, plant


def _by_kind(history: Iterable[Op]) -> list[list[Op]]:
    """Operations that succeeded, by phase and kind."""
    kinds: dict[tuple[str, str], list[Op]] = {}
    for op in history:
        if op.status == "ok":
            kinds.setdefault((op.phase, op.f), []).append(op)
    return [kinds[key] for key in sorted(kinds, key=lambda key: (key[0] != "final", key[1]))]


def _answers(base: RunView, op: Op, rng: random.Random) -> Iterator[Plant]:
    """Plants in which the operation has another answer."""
    for words, change in CHANGES.items():
        spots = [path for path in places(op.value) if change(_at(op.value, path), rng) is not None]
        for path in _few(spots, rng):
            value = changed(op.value, path, change, rng)
            where = f" at {'.'.join(map(str, path))}" if path else ""
            yield _plant(base, f"answer {words}", f"the answer of {_name(op)} {words}{where}", _op(op, value=value))
    if op.value is not None:
        yield _plant(base, "answer gone", f"the answer of {_name(op)} is nothing", _op(op, value=None))
    if op.value in base.nodes:
        others = [node for node in base.nodes if node != op.value]
        for node in others[:1]:
            yield _plant(base, "other node", f"{_name(op)} answers {node}, not {op.value}", _op(op, value=node))
    if isinstance(op.value, list):
        for strange in _intruders(base, op, rng):
            wrong = _op(op, value=[*op.value, strange])
            yield _plant(base, "intruder", f"the answer of {_name(op)} has {strange!r:.40} in it too", wrong)
    for older in _older(base.history, op)[:1]:
        yield _plant(base, "old answer", f"{_name(op)} answers what was there earlier", _op(op, value=older))


def _intruders(base: RunView, op: Op, rng: random.Random) -> list[Any]:
    """Values that could be in the answered list but aren't: a node, and an argument of another operation."""
    known = [value for other in base.history for value in scalars(other.args)]
    types = {type(value) for value in op.value} or {str}
    fits = [value for value in dict.fromkeys(known) if type(value) in types and value not in op.value]
    nodes = [node for node in base.nodes if str in types and node not in op.value]
    about = [value for value in fits if value not in nodes]
    return [*nodes[:1], *rng.sample(about, min(1, len(about)))]


def _few(spots: Sequence[tuple[Any, ...]], rng: random.Random) -> list[tuple[Any, ...]]:
    """The whole value if it can be changed, else some of its parts."""
    if not spots or spots[0] == ():
        return list(spots[:1])
    return sorted(rng.sample(spots, min(_PLACES_MAX, len(spots))), key=str)


def _at(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def _older(history: Sequence[Op], op: Op) -> list[Any]:
    """The values that earlier operations on the same thing wrote or read, oldest first."""
    found: list[Any] = []
    for other in history:
        if other.index >= op.index or other.status != "ok" or not _same_thing(other, op):
            continue
        shared = [value for name, value in other.args.items() if op.args.get(name) != value]
        found += [value for value in (*shared, other.value) if type(value) is type(op.value) and value != op.value]
    return found


def _same_thing(one: Op, other: Op) -> bool:
    return any(name in other.args and other.args[name] == value for name, value in one.args.items())


_OUTCOMES: tuple[tuple[OpStatus, str], ...] = (("fail", "is refused"), ("unknown", "has no certain outcome"))


def _outcomes(base: RunView, op: Op) -> Iterator[Plant]:
    """Plants in which the operation ended in another way."""
    for status, words in _OUTCOMES:
        wrong = _op(op, status=status, value=None, error=f"{WORD}: {words}")
        yield _plant(base, f"outcome {status}", f"{_name(op)} {words}", wrong)
    left = tuple(other for other in base.history if other.index != op.index)
    yield Plant("missing", f"{_name(op)} never happened", base.record, left)
    again = _op(op, index=max(other.index for other in base.history) + 1, start_ns=op.end_ns, end_ns=op.end_ns + 1)
    yield Plant("repeated", f"{_name(op)} happened twice", base.record, (*base.history, again))


def _effects(base: RunView, written: Sequence[Op]) -> Iterator[Plant]:
    """A plant in which no later answer has the value that an operation wrote."""
    for op in written[: -_WRITES_TRIED - 1 : -1]:
        for value in itertools.islice(scalars(op.args), _WRITES_TRIED):
            history = _forgotten(base.history, op, value)
            if history != base.history:
                text = f"what {_name(op)} wrote is in no later answer"
                yield Plant("lost effect", text, base.record, history)
                return


def _forgotten(history: tuple[Op, ...], write: Op, value: Any) -> tuple[Op, ...]:
    before = [op for op in history if op.index < write.index]

    def forget(op: Op) -> Op:
        if op.index <= write.index or op.status != "ok" or op.value is None:
            return op
        if op.value != value:
            return _op(op, value=without(op.value, value))
        if not _same_thing(write, op) or op.args == write.args:
            return op
        older = [seen for seen in _older(before, op) if seen != value]
        return _op(op, value=older[-1] if older else None)

    return tuple(map(forget, history))


def _orders(base: RunView, some: Sequence[Op]) -> Iterator[Plant]:
    """Plants with the same operations and answers at other times or by other clients."""
    for one, other in itertools.pairwise(some):
        if one.client != other.client:
            moved = _op(other, start_ns=one.end_ns + 1, end_ns=one.end_ns + 2)
            text = f"{_name(other)} is answered right after {_name(one)}"
            yield Plant("order", text, base.record, _in_order(_replace(base.history, moved)))
            break
    for one, other in itertools.combinations(some[-8:], 2):
        if one.value != other.value:
            swapped = _replace(_replace(base.history, _op(one, value=other.value)), _op(other, value=one.value))
            yield Plant("swapped", f"the answers of {_name(one)} and {_name(other)} are swapped", base.record, swapped)
            break


def _in_order(history: Iterable[Op]) -> tuple[Op, ...]:
    by_time = sorted(history, key=lambda op: (op.start_ns, op.index))
    return tuple(_op(op, index=index) for index, op in enumerate(by_time))


def _everywhere(base: RunView, rng: random.Random) -> Iterator[Plant]:
    """One kind of change in all final answers at once, for checkers that compare many of them."""
    refused = tuple(
        _op(op, status="fail", value=None, error=WORD) if op.phase == "final" else op for op in base.history
    )
    if refused != base.history:
        yield Plant("all refused", "every final operation is refused", base.record, refused)
    for words, change in CHANGES.items():
        history = tuple(_wide(op, change, rng) for op in base.history)
        if history != base.history:
            yield Plant(f"all answers {words}", f"every final answer {words}", base.record, history)


def _wide(op: Op, change: Callable[[Any, random.Random], Any], rng: random.Random) -> Op:
    if op.phase != "final" or op.status != "ok":
        return op
    path = next((path for path in places(op.value) if change(_at(op.value, path), rng) is not None), None)
    return op if path is None else _op(op, value=changed(op.value, path, change, rng))


# --- after a fault in a stage


def _in_stages(base: RunView, stages: Sequence[Stage], wide: Sequence[Plant], rng: random.Random) -> Iterator[Plant]:
    """Plants with a fault in a stage, after which a written value is lost or all final answers are wrong."""
    effects = [next(_effects(base, some), None) for some in _by_kind(base.history)]
    moments = [(stage, event) for stage in stages for event in _events_in(base, stage, rng)]
    for fault in _STAGE_FAULTS:
        for stage, event in moments:
            record = as_if(base.record, [(fault, event)])
            for wrong in (*filter(None, effects), *wide):
                text = f"{fault_kind(fault)} of {event.node} during {stage}, and {wrong.text}"
                yield Plant(f"{wrong.kind} after a fault", text, record, wrong.history)


def _events_in(base: RunView, stage: Stage, rng: random.Random) -> list[Event]:
    """One event within the stage for each role that has one."""
    found: dict[str, Event] = {}
    events = [e for e in base.trace if e.kind in INJECTABLE_FAMILIES and e.t_ns < base.record.healed_ns]
    for event in rng.sample(events, len(events)):
        if event.role in found:
            continue
        open_ones = [op.f for op in operations_open(base.history, event.t_ns)] if stage.operations else []
        if stage.covers(event.frames, open_ones):
            found[event.role] = event
    return [found[role] for role in sorted(found)]


# --- helpers


def _op(op: Op, **changes: Any) -> Op:
    return msgspec.structs.replace(op, **changes)


def _replace(history: Iterable[Op], wrong: Op) -> tuple[Op, ...]:
    return tuple(wrong if op.index == wrong.index else op for op in history)


def _plant(base: RunView, kind: str, text: str, wrong: Op) -> Plant:
    return Plant(kind, text, base.record, _replace(base.history, wrong))


def _name(op: Op) -> str:
    args = " ".join(f"{name}={value!r:.40}" for name, value in list(op.args.items())[:3])
    phase = "final " if op.phase == "final" else ""
    return f"{phase}{op.f} {args}".strip()
