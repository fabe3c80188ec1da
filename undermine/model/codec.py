"""Reads event files as protocol/README.md defines them. Never raises on files that an agent or a crash damaged.

A file is read in two steps, since a definition may be in another chunk than its use: the first step finds the records, the
second assembles events as columns. Whole records are kept; damaged ones are reported in `problems` with file name and offset. All
events of a run share their texts and stacks.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from undermine import target_files
from undermine.agent_protocol import FAMILIES, WIRE
from undermine.model.columns import NO_STACK, ColumnMaker, Columns
from undermine.model.event import AgentInfo, Event, Trace
from undermine.model.run import Receipt
from undermine.model.text import printable

CHUNK = WIRE.events.chunk_bytes
MAGIC = WIRE.events.magic.encode()
PACKED = ".gz"
UNPACKED_BYTES_MAX = 1 << 30
PROBLEMS_MAX = 20
_ERRORS_BYTES_MAX = 1 << 20

_PROCESS, _STRING, _FRAME, _STACK, _BEGIN, _END, _RECEIPT = (
    WIRE.events.records[name].type for name in ("process", "string", "frame", "stack", "begin", "end", "receipt")
)
_HEAD = struct.Struct("<IB")
_STRING_ID = struct.Struct("<I")
_FRAME_BODY = struct.Struct("<III")
_STACK_BODY = struct.Struct("<IH")
_RECEIPT_BODY = struct.Struct("<IqHqII")
_BEGIN_ROW = np.dtype(
    [
        ("seq", "<u4"),
        ("t", "<i8"),
        ("op", "<u4"),
        ("stack", "<u4"),
        ("target", "<u4"),
        ("resource", "<u4"),
        ("thread", "<u4"),
        ("size", "<i8"),
    ]
)
_END_ROW = np.dtype([("seq", "<u4"), ("t", "<i8"), ("result", "<i8"), ("error", "<u4")])
_BEGIN_BYTES, _END_BYTES = _HEAD.size + _BEGIN_ROW.itemsize, _HEAD.size + _END_ROW.itemsize

_CONTENT_MARK = WIRE.content_mark
_LOGICAL = tuple(op for family in FAMILIES.values() if family.logical for op in family.operations)
_WITH_VALUES = tuple(op for family in FAMILIES.values() if family.values for op in family.operations)
_Rows = npt.NDArray[Any]


class _Process(msgspec.Struct, frozen=True):
    """The content of the process record."""

    node: str
    role: str
    incarnation: int
    pid: int
    version: int
    agent: str
    runtime: str
    ppid: int = 0
    capabilities: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    executable: str = ""
    why_slow: str = ""
    learns_contents: bool = False


class _Problems:
    """The first few problems of a file, and the number of the others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: list[str] = []
        self.more = 0

    def add(self, offset: int, text: str) -> None:
        if len(self.texts) < PROBLEMS_MAX:
            self.texts.append(f"{self.name} at {offset}: {text}")
        else:
            self.more += 1

    def all(self) -> list[str]:
        return [*self.texts, f"{self.name}: {self.more} more problems"] if self.more else self.texts


class _Records:
    """The records of one file, before they are assembled."""

    def __init__(self, problems: _Problems) -> None:
        self.problems = problems
        self.process: _Process | None = None
        self.strings: dict[int, str] = {0: ""}
        self.frames: dict[int, tuple[int, int]] = {}
        self.stacks: dict[int, tuple[int, ...]] = {}
        self.begins, self.ends = array("q"), array("q")  # their offsets
        self.receipts: list[tuple[tuple[int, int, int, int, int, int], int]] = []

    def read(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK):
            end = min(start + CHUNK, len(data))
            if data[start : start + len(MAGIC)] == MAGIC:
                self._read_chunk(data, start + len(MAGIC), end)
            elif data[start:end].strip(b"\0"):
                self.problems.add(start, "not a chunk of events")
            # else: the process ended after it reserved the chunk and before it wrote to it
        if not data:
            self.problems.add(0, "the file is empty")
        elif len(data) % CHUNK:
            self.problems.add(len(data), "the file ends within a chunk")

    def _read_chunk(self, data: bytes, position: int, end: int) -> None:
        head, begins, ends = _HEAD.unpack_from, self.begins.append, self.ends.append
        while position + _HEAD.size <= end:
            size, kind = head(data, position)
            if size == 0:
                return
            if size < _HEAD.size or position + size > end:
                self.problems.add(position, f"a record of impossible length {size}; the rest of its chunk is lost")
                return
            if kind == _BEGIN and size == _BEGIN_BYTES:
                begins(position)
            elif kind == _END and size == _END_BYTES:
                ends(position)
            else:
                self._read_rare(kind, data[position + 5 : position + size], position)
            position += size

    def _read_rare(self, kind: int, body: bytes, position: int) -> None:
        """Read a record of a rare type: the process, a definition or a receipt."""
        try:
            if kind == _PROCESS:
                self.process = msgspec.json.decode(body, type=_Process)
            elif kind == _STRING:
                self._define_string(body, position)
            elif kind == _FRAME:
                number, loc, line = _FRAME_BODY.unpack(body)
                self.frames.setdefault(number, (loc, line))
            elif kind == _STACK:
                number, count = _STACK_BODY.unpack_from(body)
                self.stacks.setdefault(number, struct.unpack(f"<{count}I", body[_STACK_BODY.size :]))
            elif kind == _RECEIPT:
                self.receipts.append((_RECEIPT_BODY.unpack(body), position))
            else:
                self.problems.add(position, f"a record of unknown type {kind} or wrong length")
        except (struct.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.problems.add(position, f"a damaged record of type {kind}: {error}")

    def _define_string(self, body: bytes, position: int) -> None:
        (number,) = _STRING_ID.unpack_from(body)
        raw = body[_STRING_ID.size :]
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode(errors="backslashreplace")
            # A text that the agent cut to its maximum length may end within a character.
            if len(raw) < 3990:
                self.problems.add(position, f"text {number} is not UTF-8")
        if number == 0:
            self.problems.add(position, "a definition of text 0")
        else:
            self.strings.setdefault(number, text)


class _Assembler:
    """Assembles the records of one file."""

    def __init__(self, records: _Records, name: str) -> None:
        self.records = records
        self.problems = records.problems
        self.info = self._info(name)

    def _info(self, name: str) -> AgentInfo:
        process = self.records.process
        if process is None:
            self.problems.add(0, "no process record")
            return AgentInfo(*_from_name(name), agent="", runtime="", version=0)
        fields = {field: getattr(process, field) for field in AgentInfo.__struct_fields__}
        return AgentInfo(**fields)

    def give(self, data: bytes, maker: ColumnMaker) -> None:
        """Add all events to the columns of the run."""
        number = maker.process(self.info)
        begins, positions = self._once(data, self.records.begins, _BEGIN_ROW, "sequence number {} is used twice")
        ends = self._ends(data, begins["seq"])
        strings = _Lookup({n: maker.strings.number(text) for n, text in self.records.strings.items()})
        op, _ = strings.numbers(begins["op"])
        for row in np.flatnonzero(op == 0)[:PROBLEMS_MAX]:
            begin = begins[row]
            self.problems.add(positions[row], f"operation {begin['seq']} has no name (text {begin['op']})")
        kept = op != 0
        if not kept.all():
            begins, positions, ends, op = begins[kept], positions[kept], ends[kept], op[kept]
        texts = {name: begins[name] for name in ("target", "resource", "thread")} | {"error": ends["error"]}
        block: dict[str, Any] = {
            "t": begins["t"].astype(np.int64),
            "end": ends["t"].astype(np.int64),
            "size": begins["size"].astype(np.int64),
            "result": ends["result"].astype(np.int64),
            "seq": begins["seq"].astype(np.int64),
            "op": op,
            "stack": self._stacks(begins, positions, maker),
            "process": np.full(len(begins), number, np.int32),
        }
        for name, numbers in texts.items():
            block[name], known = strings.numbers(numbers)
            for row in np.flatnonzero(~known)[:PROBLEMS_MAX]:
                seq, text = begins["seq"][row], numbers[row]
                self.problems.add(positions[row], f"operation {seq} refers to text {text}, which is not defined")
        block["target"], block["content"] = self._split_contents(block["target"], op, maker)
        maker.block(block)

    def _split_contents(self, targets: _Rows, op: _Rows, maker: ColumnMaker) -> tuple[_Rows, _Rows]:
        """The targets without their contents, and the contents, of operations that have any. Those of logical operations are
        hidden in a run that learns contents."""
        process, number = self.records.process, maker.strings.number
        marked = [text for text in self.records.strings.values() if _CONTENT_MARK in text]
        if not marked:
            return targets, np.zeros(len(targets), np.int32)
        parts = {number(text): text.rpartition(_CONTENT_MARK) for text in marked}
        hidden = process is not None and process.learns_contents and not maker.learning
        plain = {each: (number(target), number(content)) for each, (target, _, content) in parts.items()}
        names, contents = np.arange(len(maker.strings.all), dtype=np.int32), np.zeros(len(maker.strings.all), np.int32)
        for each, (target, content) in plain.items():
            names[each], contents[each] = target, content
        logical, values = (np.isin(op, [number(name) for name in ops]) for ops in (_LOGICAL, _WITH_VALUES))
        shown = values if hidden else logical | values
        return np.where(logical | values, names[targets], targets), np.where(shown, contents[targets], 0)

    def _once(self, data: bytes, positions: array[int], kind: np.dtype[Any], twice: str) -> tuple[_Rows, _Rows]:
        """The rows of one kind, ordered by sequence number, and their offsets. For duplicate numbers the first row counts."""
        where = np.frombuffer(positions, np.int64)
        rows = _rows_at(data, where, kind)
        _, first = np.unique(rows["seq"], return_index=True)
        for row in np.setdiff1d(np.arange(len(rows)), first)[:PROBLEMS_MAX] if len(first) < len(rows) else ():
            self.problems.add(where[row], twice.format(rows["seq"][row]))
        return rows[first], where[first]

    def _ends(self, data: bytes, seqs: _Rows) -> _Rows:
        """The end of each operation, or a row of zeros if it has none. `seqs` are in order."""
        ends, positions = self._once(data, self.records.ends, _END_ROW, "operation {} ends twice")
        found = np.zeros(len(seqs), _END_ROW)
        if len(seqs):
            at = np.minimum(np.searchsorted(seqs, ends["seq"]), len(seqs) - 1)
            known = seqs[at] == ends["seq"]
            found[at[known]] = ends[known]
        else:
            known = np.zeros(len(ends), bool)
        for row in np.flatnonzero(~known)[:PROBLEMS_MAX]:
            self.problems.add(positions[row], f"operation {ends['seq'][row]} ends without having begun")
        return found

    def _stacks(self, begins: _Rows, positions: _Rows, maker: ColumnMaker) -> _Rows:
        """The number of each event's stack in the run."""
        used, first = np.unique(begins["stack"], return_index=True)
        known = {
            number: maker.stacks.number(self._resolve(number, int(positions[row])))
            for number, row in zip(used.tolist(), first.tolist(), strict=True)
        }
        return _Lookup(known).numbers(begins["stack"])[0]

    def _resolve(self, number: int, position: int) -> tuple[tuple[str, ...], int]:
        frames = self.records.stacks.get(number)
        if not frames:
            self.problems.add(position, f"stack {number} is not defined")
            return NO_STACK, 0
        pairs = [self._frame(frame, position) for frame in frames]
        return tuple(loc for loc, _ in pairs), pairs[0][1]

    def _frame(self, number: int, position: int) -> tuple[str, int]:
        loc, line = self.records.frames.get(number, (0, 0))
        text = self.records.strings.get(loc)
        if not text:
            self.problems.add(position, f"frame {number} is not defined")
            return "?:?#0", 0
        return text, line

    def receipts(self) -> list[Receipt]:
        """The newest receipt for each step and operation: for a delay, the agent writes one when it begins and another when it
        ends. Another thread may write the second one, to an earlier part of the file."""
        strings = self.records.strings
        found: dict[tuple[int, int], Receipt] = {}
        for (seq, t_ns, step, held_ns, action, detail), position in self.records.receipts:
            name = strings.get(action)
            if not name or detail not in strings:
                self.problems.add(position, f"the receipt of step {step} refers to texts that are not defined")
            if (known := found.get((step, seq))) is None or t_ns >= known.t_ns:
                found[step, seq] = Receipt(
                    step, self.info.node, name or "?", t_ns, self.info.pid, seq, held_ns, strings.get(detail, "")
                )
        return list(found.values())


class _Lookup:
    """Translates the numbers of a file into numbers of the run."""

    def __init__(self, known: dict[int, int]) -> None:
        self._keys = np.array(sorted(known), np.uint32)
        self._values = np.array([known[key] for key in sorted(known)], np.int32)

    def numbers(self, of: _Rows) -> tuple[_Rows, _Rows]:
        """The number of each one in the run (0 if it is not defined), and whether it is defined."""
        if not len(self._keys):
            return np.zeros(len(of), np.int32), np.zeros(len(of), bool)
        at = np.minimum(np.searchsorted(self._keys, of), len(self._keys) - 1)
        known = self._keys[at] == of
        return np.where(known, self._values[at], 0).astype(np.int32), known


def _rows_at(data: bytes, positions: _Rows, kind: np.dtype[Any]) -> _Rows:
    """The bodies of the records of one kind with a fixed length."""
    if not len(positions):
        return np.empty(0, kind)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), kind.itemsize)
    rows: _Rows = windows[positions + _HEAD.size].view(kind)[:, 0]
    return rows


def read_events(path: Path) -> tuple[list[Event], AgentInfo | None, list[Receipt], list[str]]:
    """The events, the agent, the receipts and the problems of one file."""
    maker = ColumnMaker()
    receipts = _read_file(path, maker)
    columns = maker.columns()
    (info,) = columns.processes
    return list(columns.events()), info if info.agent else None, receipts, list(columns.problems)


def _read_file(path: Path, maker: ColumnMaker) -> list[Receipt]:
    """Add the events and problems of one file to the columns of the run, and return its receipts."""
    problems = _Problems(printable(path.name))
    records = _Records(problems)
    data = b""
    try:
        data = _bytes_of(path)
        records.read(data)
    except (OSError, EOFError, zlib.error) as error:
        problems.add(0, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    assembler = _Assembler(records, path.name)
    assembler.give(data, maker)
    receipts = assembler.receipts()
    maker.problems += problems.all()
    return receipts


def read_agent(path: Path) -> AgentInfo | None:
    """The process record at the beginning of a file; None if it has none. The process may still run."""
    problems = _Problems(path.name)
    records = _Records(problems)
    try:
        records.read(target_files.read_start(path, CHUNK))
    except OSError:
        return None
    return _Assembler(records, path.name).info if records.process is not None else None


def _bytes_of(path: Path) -> bytes:
    """The file's content, unpacked if it was packed, at most `UNPACKED_BYTES_MAX`. It is not mapped: its process may cut it."""
    if path.suffix == PACKED:
        with target_files.open_regular(path) as file, gzip.GzipFile(fileobj=file) as stream:
            return stream.read(UNPACKED_BYTES_MAX)
    return target_files.read_start(path, UNPACKED_BYTES_MAX, CHUNK)


def cut_files(trace_dir: Path) -> list[tuple[str, int, str]]:
    """The event files that somebody has cut: node, incarnation and name of each. Call it before the files are packed."""
    files = [path for path in target_files.regular_files(trace_dir) if path.suffix == ".events"]
    cut = [path for path in files if path.stat().st_size % CHUNK or read_agent(path) is None]
    return [(*_from_name(path.name)[:2], printable(path.name)) for path in cut]


def pack(trace_dir: Path) -> None:
    """Compress the event files of a run that has ended: most of their space was never written to."""
    for path in trace_dir.glob("*.events"):
        try:
            content = target_files.read_start(path, UNPACKED_BYTES_MAX, CHUNK)
        except OSError:  # it isn't a file
            target_files.remove(path)
            continue
        packed = path.with_name(path.name + PACKED)
        try:
            target_files.write_new(packed, gzip.compress(content, compresslevel=1, mtime=0))
        except OSError:  # the disk is full: the events stay
            target_files.remove(packed)
            raise
        target_files.remove(path)


def read_columns(trace_dir: Path) -> Columns:
    """All event files of a run as columns."""
    return _read_all(trace_dir)[0]


def read_trace(trace_dir: Path) -> tuple[Trace, tuple[Receipt, ...]]:
    """All event files of a run as one trace, and the receipts of all faults, both in time order."""
    columns, receipts = read_with_receipts(trace_dir)
    agents = tuple(process for process in columns.processes if process.agent)
    return Trace(tuple(columns.events()), agents, columns.problems), receipts


def read_with_receipts(trace_dir: Path) -> tuple[Columns, tuple[Receipt, ...]]:
    """All event files of a run as columns, and the receipts of all faults in time order."""
    columns, receipts = _read_all(trace_dir)
    return columns, tuple(sorted(receipts, key=lambda receipt: (receipt.t_ns, receipt.node, receipt.pid, receipt.step)))


def read_contents(trace_dir: Path) -> Columns:
    """All event files of a run as columns, with the contents of a run that learns them."""
    return _read_all(trace_dir, learning=True)[0]


def _read_all(trace_dir: Path, *, learning: bool = False) -> tuple[Columns, list[Receipt]]:
    maker = ColumnMaker(learning)
    receipts: list[Receipt] = []
    for path in _event_files(trace_dir):
        receipts += _read_file(path, maker)
    for path in sorted(trace_dir.glob("*.agent-error")):
        maker.problems += [f"{printable(path.name)}: {line}" for line in _lines(path)[:PROBLEMS_MAX]]
    return maker.columns(), receipts


def _event_files(trace_dir: Path) -> Iterator[Path]:
    packed = {path.name.removesuffix(PACKED): path for path in trace_dir.glob(f"*.events{PACKED}")}
    plain = {path.name: path for path in trace_dir.glob("*.events")}  # still there if packing was interrupted
    for _, path in sorted({**packed, **plain}.items()):
        yield path


def _lines(path: Path) -> list[str]:
    try:
        return target_files.read(path, _ERRORS_BYTES_MAX).decode(errors="backslashreplace").splitlines()
    except OSError as error:
        return [f"cannot be read: {error.strerror}"]


def _from_name(name: str) -> tuple[str, int, int]:
    """Node, incarnation and pid from the file's name NODE.INCARNATION.PID.events, for a file without a process record."""
    parts = name.removesuffix(PACKED).rsplit(".", 3)
    if len(parts) == 4 and parts[1].isdecimal() and parts[2].isdecimal() and len(parts[1] + parts[2]) < 30:
        return parts[0], int(parts[1]), int(parts[2])
    return name, 0, 0
