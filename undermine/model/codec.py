"""Reads event files as protocol/README.md defines them. Never raises on what an agent, or a crash, left behind.

A file is read in two steps: all records of all chunks are collected, then events are put together, since a
definition may stand in another chunk than its use. What is whole is kept; what is not is said in `problems`,
with file name and offset. Texts and stacks are shared between events.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from undermine.model.event import AgentInfo, Event, Trace, ordered
from undermine.model.run import Receipt

CHUNK = 65536
MAGIC = b"UMC1"
PACKED = ".gz"
UNPACKED_BYTES_MAX = 1 << 30
PROBLEMS_MAX = 20

_PROCESS, _STRING, _FRAME, _STACK, _BEGIN, _END, _RECEIPT = range(1, 8)
_HEAD = struct.Struct("<IB")
_STRING_ID = struct.Struct("<I")
_FRAME_BODY = struct.Struct("<III")
_STACK_BODY = struct.Struct("<IH")
_BEGIN_BODY = struct.Struct("<IqIIIIIq")
_END_BODY = struct.Struct("<IqqI")
_RECEIPT_BODY = struct.Struct("<IqHqII")

_Begin = tuple[int, int, int, int, int, int, int, int]


class _Process(msgspec.Struct, frozen=True):
    """What the process record says."""

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


class _Resolved(NamedTuple):
    """A stack with its texts."""

    loc: str
    line: int
    locs: tuple[str, ...]


_NO_STACK = _Resolved("?:?#0", 0, ("?:?#0",))


class _Problems:
    """The first few problems of a file, and how many more there were."""

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
    """Everything that was found in one file, not yet put together."""

    def __init__(self, problems: _Problems) -> None:
        self.problems = problems
        self.process: _Process | None = None
        self.strings: dict[int, str] = {0: ""}
        self.frames: dict[int, tuple[int, int]] = {}
        self.stacks: dict[int, tuple[int, ...]] = {}
        self.begins: dict[int, tuple[_Begin, int]] = {}
        self.ends: dict[int, tuple[int, int, int, int]] = {}
        self.receipts: list[tuple[tuple[int, int, int, int, int, int], int]] = []

    def read(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK):
            end = min(start + CHUNK, len(data))
            if data[start : start + len(MAGIC)] == MAGIC:
                self._read_chunk(data, start + len(MAGIC), end)
            elif data[start:end].strip(b"\0"):
                self.problems.add(start, "not a chunk of events")
            # else: the process ended between getting the chunk and marking it
        if not data:
            self.problems.add(0, "the file is empty")
        elif len(data) % CHUNK:
            self.problems.add(len(data), "the file ends within a chunk")

    def _read_chunk(self, data: bytes, position: int, end: int) -> None:
        head, begins, ends = _HEAD.unpack_from, self.begins, self.ends
        begin_body, end_body = _BEGIN_BODY.unpack_from, _END_BODY.unpack_from
        begin_size, end_size = _HEAD.size + _BEGIN_BODY.size, _HEAD.size + _END_BODY.size
        while position + _HEAD.size <= end:
            size, kind = head(data, position)
            if size == 0:
                return
            if size < _HEAD.size or position + size > end:
                self.problems.add(position, f"a record of impossible length {size}; the rest of its chunk is lost")
                return
            if kind == _BEGIN and size == begin_size:
                begin = begin_body(data, position + 5)
                if begin[0] in begins:
                    self.problems.add(position, f"sequence number {begin[0]} is used twice")
                else:
                    begins[begin[0]] = begin, position
            elif kind == _END and size == end_size:
                seq, t_ns, result, error = end_body(data, position + 5)
                if seq in ends:
                    self.problems.add(position, f"operation {seq} ends twice")
                else:
                    ends[seq] = t_ns, result, error, position
            else:
                self._read_rare(kind, data[position + 5 : position + size], position)
            position += size

    def _read_rare(self, kind: int, body: bytes, position: int) -> None:
        """Records that are few: the process, definitions and receipts."""
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
            # A text that was cut to its maximum may end within a character.
            if len(raw) < 3990:
                self.problems.add(position, f"text {number} is not UTF-8")
        if number == 0:
            self.problems.add(position, "a definition of text 0")
        else:
            self.strings.setdefault(number, text)


class _Assembler:
    """Puts the records of one file together."""

    def __init__(self, records: _Records, name: str) -> None:
        self.records = records
        self.problems = records.problems
        self.resolved: dict[int, _Resolved] = {}
        self.node, self.incarnation, self.pid = _from_name(name)
        self.role = ""
        process = records.process
        if process is not None:
            self.node, self.role = process.node, process.role
            self.incarnation, self.pid = process.incarnation, process.pid

    def info(self) -> AgentInfo | None:
        process = self.records.process
        if process is None:
            self.problems.add(0, "no process record")
            return None
        return AgentInfo(
            process.node,
            process.incarnation,
            process.pid,
            process.agent,
            process.runtime,
            process.version,
            process.capabilities,
            process.gaps,
            process.executable,
            process.why_slow,
        )

    def events(self) -> list[Event]:
        strings, ends, resolved = self.records.strings, self.records.ends, self.resolved
        node, role, incarnation, pid = self.node, self.role, self.incarnation, self.pid
        found = []
        for begin, position in self.records.begins.values():
            seq, t_ns, op, stack, target, resource, thread, size = begin
            name = strings.get(op)
            if not name:
                self.problems.add(position, f"operation {seq} has no name (text {op})")
                continue
            where = resolved.get(stack) or self._resolve(stack, position)
            end = ends.pop(seq, None)
            try:
                texts = strings[target], strings[resource], strings[thread]
                error = strings[end[2]] if end else ""
            except KeyError as missing:
                self.problems.add(position, f"operation {seq} refers to text {missing}, which is not defined")
                texts = strings.get(target, ""), strings.get(resource, ""), strings.get(thread, "")
                error = strings.get(end[2], "?") if end else ""
            end_ns, result = (end[0], end[1]) if end else (0, 0)
            found.append(
                Event(
                    node,
                    role,
                    incarnation,
                    pid,
                    seq,
                    t_ns,
                    name,
                    where.loc,
                    where.line,
                    where.locs,
                    texts[0],
                    texts[1],
                    texts[2],
                    size,
                    end_ns,
                    result,
                    error,
                )
            )
        for seq, (_, _, _, position) in ends.items():
            if seq not in self.records.begins:
                self.problems.add(position, f"operation {seq} ends without having begun")
        return found

    def _resolve(self, number: int, position: int) -> _Resolved:
        frames = self.records.stacks.get(number)
        if not frames:
            self.problems.add(position, f"stack {number} is not defined")
            stack = _NO_STACK
        else:
            pairs = [self._frame(frame, position) for frame in frames]
            stack = _Resolved(pairs[0][0], pairs[0][1], tuple(loc for loc, _ in pairs))
        self.resolved[number] = stack
        return stack

    def _frame(self, number: int, position: int) -> tuple[str, int]:
        loc, line = self.records.frames.get(number, (0, 0))
        text = self.records.strings.get(loc)
        if not text:
            self.problems.add(position, f"frame {number} is not defined")
            return "?:?#0", 0
        return text, line

    def receipts(self) -> list[Receipt]:
        """One for each step and operation: a hold writes its receipt when it begins and again when it ends."""
        strings = self.records.strings
        found: dict[tuple[int, int], Receipt] = {}
        for (seq, t_ns, step, held_ns, action, detail), position in self.records.receipts:
            name = strings.get(action)
            if not name or detail not in strings:
                self.problems.add(position, f"the receipt of step {step} refers to texts that are not defined")
            found[step, seq] = Receipt(
                step, self.node, name or "?", t_ns, self.pid, seq, held_ns, strings.get(detail, "")
            )
        return list(found.values())


def read_events(path: Path) -> tuple[list[Event], AgentInfo | None, list[Receipt], list[str]]:
    """The events, the agent, the receipts and the problems of one file."""
    problems = _Problems(path.name)
    records = _Records(problems)
    try:
        records.read(_bytes_of(path))
    except (OSError, EOFError, zlib.error) as error:
        problems.add(0, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    assembler = _Assembler(records, path.name)
    return assembler.events(), assembler.info(), assembler.receipts(), problems.all()


def read_agent(path: Path) -> AgentInfo | None:
    """What a process that may still run said of itself when its agent loaded: at the beginning of its file."""
    problems = _Problems(path.name)
    records = _Records(problems)
    try:
        with open(path, "rb") as stream:
            records.read(stream.read(CHUNK))
    except OSError:
        return None
    return _Assembler(records, path.name).info()


def _bytes_of(path: Path) -> bytes:
    """The file's content, unpacked if it was packed; never more than a machine can hold."""
    if path.suffix != PACKED:
        return path.read_bytes()
    with gzip.GzipFile(path) as stream:
        return stream.read(UNPACKED_BYTES_MAX)


def pack(trace_dir: Path) -> None:
    """Compress the event files of a run that is over: they are mostly room that was never written to."""
    for path in trace_dir.glob("*.events"):
        packed = path.with_name(path.name + PACKED)
        packed.write_bytes(gzip.compress(path.read_bytes(), compresslevel=1, mtime=0))
        path.unlink()


def read_trace(trace_dir: Path) -> tuple[Trace, tuple[Receipt, ...]]:
    """All event files of a run as one trace, and the receipts of all faults, both in time order."""
    events: list[Event] = []
    agents: list[AgentInfo] = []
    receipts: list[Receipt] = []
    problems: list[str] = []
    packed = {path.name.removesuffix(PACKED): path for path in trace_dir.glob(f"*.events{PACKED}")}
    plain = {path.name: path for path in trace_dir.glob("*.events")}  # still there if packing was interrupted
    for _, path in sorted({**packed, **plain}.items()):
        some_events, info, some_receipts, some_problems = read_events(path)
        events += some_events
        agents += [info] if info is not None else []
        receipts += some_receipts
        problems += some_problems
    for path in sorted(trace_dir.glob("*.agent-error")):
        problems += [f"{path.name}: {line}" for line in _lines(path)[:PROBLEMS_MAX]]
    receipts.sort(key=lambda receipt: (receipt.t_ns, receipt.node, receipt.pid, receipt.step))
    return Trace(ordered(events), tuple(agents), tuple(problems)), tuple(receipts)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="backslashreplace").splitlines()
    except OSError as error:
        return [f"cannot be read: {error.strerror}"]


def _from_name(name: str) -> tuple[str, int, int]:
    """Node, incarnation and pid by the file's name NODE.INCARNATION.PID.events, where it says nothing itself."""
    parts = name.removesuffix(PACKED).rsplit(".", 3)
    if len(parts) == 4 and parts[1].isdecimal() and parts[2].isdecimal() and len(parts[1] + parts[2]) < 30:
        return parts[0], int(parts[1]), int(parts[2])
    return name, 0, 0
