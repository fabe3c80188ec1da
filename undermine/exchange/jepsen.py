"""Histories in the form of Jepsen: an EDN map for each event. People can check them with Knossos, Elle and Porcupine.

Each operation is two events of a *process*: `:invoke`, then `:ok`, `:fail` (it never happened) or `:info` (nobody knows). A
process that got no answer makes no further operation, so its client continues as another process.

Never runs or unpickles anything: an imported history is data for ledgers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from undermine import target_files
from undermine.exchange import edn
from undermine.model.errors import UserError
from undermine.model.event import Trace
from undermine.model.plan import Plan
from undermine.model.run import Op, OpStatus, RunRecord, RunView

BYTES_MAX = 256 << 20
_STATUS: dict[str, OpStatus] = {"ok": "ok", "fail": "fail", "info": "unknown"}
_TYPES = {status: word for word, status in _STATUS.items()}


# --- export


def write(stream: IO[str], view: RunView) -> int:
    """Write the history and the faults of a run in the order of time. Return the number of events."""
    events = sorted([*_operations(view.history), *_faults(view)], key=lambda event: event[:2])
    origin_ns = events[0][0] if events else 0
    for index, (t_ns, _, parts) in enumerate(events):
        stream.write(f"{{:index {index}, :time {t_ns - origin_ns}, {', '.join(f':{name} {text}' for name, text in parts)}}}\n")
    return len(events)


Event = tuple[int, int, list[tuple[str, str]]]
"""Time, rank among events of the same time, and the parts as EDN. Starts come first: operations that touch are concurrent."""


def _operations(history: Sequence[Op]) -> Iterator[Event]:
    processes: dict[str, int] = {}
    count = 0
    for op in history:
        if op.client not in processes:
            processes[op.client] = count
            count += 1
        who = [("process", str(processes[op.client]))]
        asked = _asked(op)
        yield op.start_ns, 0, [*who, ("type", ":invoke"), ("f", edn.keyword(op.f)), ("value", _keyed(op, asked))]
        if op.status != "pending":
            value = _answered(op, asked) if op.status == "ok" else asked
            end = [*who, ("type", f":{_TYPES[op.status]}"), ("f", edn.keyword(op.f)), ("value", _keyed(op, value))]
            if op.error:
                end.append(("error", edn.write(op.error)))
            elif op.status == "ok" and value is asked and op.value is not None:
                end.append(("answer", edn.write(op.value)))
            yield max(op.end_ns, op.start_ns), 1, end
        if op.status in ("unknown", "pending"):
            del processes[op.client]


def _asked(op: Op) -> Any:
    """The argument: one value, `[old new]`, or a map of several ones; None if there is none."""
    args = {name: value for name, value in op.args.items() if name != "key"}
    if "value" in args:
        return args["value"]
    if {"old", "new"} == args.keys():
        return [args["old"], args["new"]]
    return next(iter(args.values())) if len(args) == 1 else args or None


def _answered(op: Op, asked: Any) -> Any:
    """The answer of a read or of a transaction; else the argument, as Knossos expects it."""
    is_answer = asked is None or (isinstance(asked, list) and isinstance(op.value, list))
    return op.value if is_answer else asked


def _keyed(op: Op, value: Any) -> str:
    return edn.write([op.args["key"], value] if "key" in op.args else value)


def _faults(view: RunView) -> Iterator[Event]:
    for receipt in view.receipts:
        if receipt.proves:
            value = edn.write({"node": receipt.node, "detail": receipt.detail})
            what = ("f", edn.keyword(receipt.action)), ("value", value)
            yield receipt.begun_ns, 2, [("process", ":nemesis"), ("type", ":info"), *what]


# --- import


def read(path: Path, *, keyed: bool = False) -> RunView:
    """A history as a run, so that a ledger can judge it. `keyed`: values are pairs of a key and a value."""
    try:
        data = target_files.read(path, BYTES_MAX)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text, so it is not a history") from None
    return RunView(RunRecord(0, Plan(), "fired"), parse(text, str(path), keyed=keyed), lambda: Trace(()))


def parse(text: str, name: str, *, keyed: bool = False) -> tuple[Op, ...]:
    """The operations of the processes whose names are numbers; others, such as the nemesis, are left out.

    The argument of an operation is `args["value"]`; that of a `cas` also `args["old"]` and `args["new"]`.
    """
    return _Importer(name, keyed).ops(list(edn.read(text, name)))


class _Importer:
    def __init__(self, name: str, keyed: bool) -> None:
        self._name = name
        self._keyed = keyed
        self._ops: list[Op] = []
        self._open: dict[int, int] = {}

    def ops(self, values: list[Any]) -> tuple[Op, ...]:
        events = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        times = _times(events)
        for number, (event, t_ns) in enumerate(zip(events, times, strict=True), 1):
            if not isinstance(event, dict) or not {"type", "process", "f"} <= event.keys():
                raise self._wrong(number, "is not a map with :process, :type and :f")
            if isinstance(event["process"], int):
                self._take(number, event, t_ns)
        return tuple(self._ops)

    def _wrong(self, number: int, what: str) -> UserError:
        return UserError(f"{self._name}: event {number} {what}, so this is not a history of Jepsen")

    def _take(self, number: int, event: dict[Any, Any], t_ns: int) -> None:
        kind, process = event["type"], event["process"]
        if kind == "invoke":
            if process in self._open:
                raise self._wrong(number, f"begins a second operation of process {process}")
            self._open[process] = len(self._ops)
            args = self._args(number, event)
            self._ops.append(Op(len(self._ops), str(process), str(event["f"]), "", args, "pending", start_ns=t_ns))
            return
        if kind not in _STATUS:
            raise self._wrong(number, f"has the unknown type {kind!r}")
        if process not in self._open:
            raise self._wrong(number, f"ends an operation that process {process} has not begun")
        index = self._open.pop(process)
        begun = self._ops[index]
        value = self._parts(number, event)[1] if kind == "ok" else None
        answer = True if begun.f == "cas" and kind == "ok" else value
        error = str(event.get("error", ""))
        self._ops[index] = Op(
            index, begun.client, begun.f, "", begun.args, _STATUS[kind], answer, error, start_ns=begun.start_ns, end_ns=t_ns
        )

    def _args(self, number: int, event: dict[Any, Any]) -> dict[str, Any]:
        key, value = self._parts(number, event)
        args = {"key": key, "value": value} if self._keyed else {"value": value}
        if event["f"] == "cas" and isinstance(value, list) and len(value) == 2:
            args |= {"old": value[0], "new": value[1]}
        return args

    def _parts(self, number: int, event: dict[Any, Any]) -> tuple[Any, Any]:
        """The key and the value of an event."""
        value = event.get("value")
        if not self._keyed:
            return "", value
        if not isinstance(value, list) or len(value) != 2:
            raise self._wrong(number, "has no pair of a key and a value")
        return value[0], value[1]


def _times(events: list[Any]) -> Iterator[int]:
    """Times that grow from event to event, since the order of the events is what counts."""
    last = 0
    for event in events:
        t_ns = event.get("time") if isinstance(event, dict) else None
        last = max(last + 1, t_ns) if isinstance(t_ns, int) else last + 1
        yield last
