"""Streams: in memory, and files with a buffer. Their contents have labels by position.

The bytes of a buffered file are read and written in pieces of another size than the program's, by an object below. The `File`
of that object says which positions of the file which operation has read; `pending` has the labels of positions that the program
has written and that are not yet in the file. A file that was made from a socket has positions too: they are counted here.
"""

from __future__ import annotations

import _io
from _weakref import ref

from undermine_agent.labels.formats import PICKLE
from undermine_agent.labels.operators import LINES
from undermine_agent.labels.table import cut, joined, keep, of, over, put, relabelled, shifted, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_READS_MAX = 256
_PENDING_MAX = 1024

# --- in memory


def _where(args, options):
    return args, {"at": args[0].tell()}


def _written(result, args, memo):
    stream, data, at = args[0], args[1], memo["at"]
    segments, known = of(data), of(stream)
    if segments or known:
        end = at + (result or 0)
        inner = shifted(cut(segments, 0, end - at), at)
        after = shifted(cut(known, end, 1 << 60), end)
        keep(stream, joined([*cut(known, 0, at), *inner, *after]))
    return result


def _read(result, args, memo):
    known = of(args[0])
    if not known:
        return result
    if type(result) is list:
        return _lines_from(result, known, memo["at"])
    if type(result) is int:  # readinto
        if args[1:] and type(args[1]) is bytearray:
            keep(args[1], cut(known, memo["at"], memo["at"] + result))
        return result
    return put(result, cut(known, memo["at"], memo["at"] + len(result)))


def _lines_from(lines, known, at: int):
    for number, line in enumerate(lines):
        lines[number] = put(line, cut(known, at, at + len(line)))
        at += len(line)
    return lines


def _value(result, args, memo):
    return put(result, of(args[0])) if type(result) is not memoryview else result


def _created(result, args, options):
    if args and of(args[0]):
        keep(result, of(args[0]))
    return result


def _truncated(result, args, memo):
    if of(args[0]):
        keep(args[0], cut(of(args[0]), 0, result))
    return result


def _lines_in_memory(stream):
    known = of(stream)
    if not known:
        return stream
    return _numbered_lines(stream, known)


def _numbered_lines(stream, known):
    while True:
        at = stream.tell()
        line = stream.readline()
        if not line:
            return
        yield put(line, cut(known, at, at + len(line)))


_IN_MEMORY = {
    "write": (_written, _where), **dict.fromkeys(("read", "read1", "readline", "readlines", "readinto"), (_read, _where)),
    "getvalue": _value, "truncate": _truncated,
}  # fmt: skip

# --- files


class File:
    """The labels of an open file: those of the bytes it has read, and those of the bytes it has yet to write."""

    __slots__ = ("alive", "reads", "pending", "text_at", "received", "written_at", "sent")

    def __init__(self, alive):
        self.alive = alive
        self.reads: list = []  # (begin, end, source) of each operation, by position
        self.pending: list = []  # segments by position
        self.text_at = None  # the position of the program in a text file, or in what a socket has received
        self.received = 0  # bytes of a socket, which has no positions of its own
        self.written_at = 0  # the same for bytes that the program has written to a file made from a socket
        self.sent = 0

    def labels_at(self, begin: int, end: int) -> list:
        """The labels of bytes that have been read from these positions."""
        found, left = [], [(begin, end)]
        for low, high, source in reversed(self.reads):
            rest = []
            for one, other in left:
                first, last = max(one, low), min(other, high)
                if first >= last:
                    rest.append((one, other))
                    continue
                found.append((first - begin, last - begin, source, first - low, last - low, True))
                rest += [part for part in ((one, first), (last, other)) if part[0] < part[1]]
            left = rest
            if not left:
                break
        return sorted(found)


_files: dict = {}
"""By address of the object that reads and writes: its `File`."""


def file_of(raw) -> File:
    known = _files.get(id(raw))
    if known is None or known.alive() is not raw:
        address = id(raw)
        known = _files[address] = File(ref(raw, lambda _: _files.pop(address, None)))
    return known


def read_below(raw, size: int, source) -> None:
    """An operation has read these bytes into a buffer."""
    file = file_of(raw)
    if type(raw) is _io.FileIO:
        end = raw.tell()
    else:
        end = file.received = file.received + size
    file.reads.append((end - size, end, source))
    del file.reads[:-_READS_MAX]


def written_below(raw, size: int) -> list:
    """The labels of bytes that have been written from a buffer to the file."""
    known = _files.get(id(raw))
    if known is None or known.alive() is not raw:
        return []
    if type(raw) is _io.FileIO:
        end = raw.tell() if known.pending else 0
    else:
        end = known.sent = known.sent + size
    found = cut(known.pending, end - size, end)
    known.pending = [each for each in known.pending if each[1] > end or each[0] < end - size]
    return found


def _raw_of(stream):
    below = stream.buffer if type(stream) is _io.TextIOWrapper else stream
    raw: Any = getattr(below, "raw", None)
    if type(raw) is _io.FileIO:
        return raw
    return raw._sock if type(raw).__name__ == "SocketIO" and type(raw).__module__ == "socket" else None


def _begin(args, options):
    """The position of the program in the file, before an operation."""
    stream = args[0]
    raw = _raw_of(stream)
    if raw is None:
        return args, {"raw": None}
    if not _counts_alone(stream, raw):
        return args, {"raw": raw, "at": _tell(stream)}
    file = file_of(raw)
    if file.text_at is None:
        file.text_at = _tell(stream.buffer) if type(raw) is _io.FileIO else 0
    return args, {"raw": raw, "at": file.text_at}


def _counts_alone(stream, raw) -> bool:
    """Is the position of the program counted here? A text file's isn't known to the file, and a socket has none."""
    return type(stream) is _io.TextIOWrapper or type(raw) is not _io.FileIO


def _tell(stream) -> int:
    try:
        return stream.tell()
    except (OSError, ValueError):
        return 0


def _size(stream, data) -> int:
    """The bytes of a part of a file's content."""
    if type(data) is str:
        return len(data) if data.isascii() else len(data.encode(stream.encoding, "replace"))
    return data if type(data) is int else memoryview(data).nbytes


def _from_file(result, args, memo):
    raw, stream = memo["raw"], args[0]
    if raw is None or result is None:
        return result
    file, at = file_of(raw), memo["at"]
    if type(result) is list:
        for number, line in enumerate(result):
            size = _size(stream, line)
            result[number] = _labelled(line, file.labels_at(at, at + size), size)
            at += size
    elif type(result) is int:
        if args[1:] and type(args[1]) is bytearray:
            keep(args[1], file.labels_at(at, at + result))
        at += result
    else:
        size = _size(stream, result)
        result = _labelled(result, file.labels_at(at, at + size), size)
        at += size
    if _counts_alone(stream, raw):
        file.text_at = at
    return result


def _labelled(value, segments, size: int):
    """A text that isn't ASCII has other positions than its bytes."""
    return put(value, segments if size == len(value) else over(len(value), segments))


def _to_file(result, args, memo):
    raw, stream, data = memo["raw"], args[0], args[1]
    if raw is None:
        return result
    if type(stream) is _io.TextIOWrapper and type(raw) is _io.FileIO:
        file_of(raw).text_at = memo["at"] + _size(stream, data)
    return result


def _before_written(args, options):
    """Note the labels before the write: it may pass the bytes on at once."""
    args, memo = _begin(args, options)
    raw = memo["raw"]
    if raw is not None and len(args) > 1:
        data = args[1]
        file, at, segments = file_of(raw), memo["at"], of(data)
        if type(raw) is not _io.FileIO:
            at, file.written_at = file.written_at, file.written_at + _size(args[0], data)
        if segments:
            if type(data) is str and not data.isascii():
                segments = over(_size(args[0], data), segments)
            file.pending.extend(shifted(segments, at))
            del file.pending[:-_PENDING_MAX]
    return args, memo


def _moved(result, args, memo):
    """After a seek, the position in a text file is asked for again."""
    raw = _raw_of(args[0])
    if raw is not None:
        file_of(raw).text_at = None
    return result


def _lines_of_file(stream):
    return stream if _raw_of(stream) is None else _read_lines(stream)


def _read_lines(stream):
    _, memo = _begin((stream,), {})
    at, file = memo["at"], file_of(memo["raw"])
    for line in stream:
        size = _size(stream, line)
        yield _labelled(line, file.labels_at(at, at + size), size)
        at += size
        if _counts_alone(stream, memo["raw"]):
            file.text_at = at


_FILES = {
    **dict.fromkeys(("read", "read1", "readline", "readlines", "readinto"), (_from_file, _begin)),
    "write": (_to_file, _before_written), "seek": _moved,
}  # fmt: skip


def _before_load(args, options):
    """`pickle.load(file)` reads the file by itself."""
    stream = args[0] if args else None
    if type(stream) is _io.BytesIO:
        return args, {"raw": None, "at": stream.tell()}
    return args, _begin((stream,), {})[1] if type(stream) in _BUFFERED else {"raw": None}


def _after_load(result, args, memo):
    raw = memo["raw"]
    if raw is None:
        return _loaded_from_memory(result, args[0], memo["at"]) if "at" in memo else result
    file = file_of(raw)
    end = raw.tell() if type(raw) is _io.FileIO else file.received
    segments = file.labels_at(memo["at"], end)
    if _counts_alone(args[0], raw):
        file.text_at = None if type(raw) is _io.FileIO else end
    return relabelled(result, lambda value: put(value, over(len(value) if type(value) in (str, bytes) else 1, segments)))


def _loaded_from_memory(result, stream, at: int):
    known = of(stream)
    if not known:
        return result
    end = stream.tell()
    return PICKLE["loads"](result, (put(stream.getvalue()[at:end], cut(known, at, end)),), {})


def _dumped(args, options):
    """`pickle.dump(value, file)`: the parts that it writes have no labels of their own."""
    stream, inside = (args[1] if len(args) > 1 else options.get("file")), within(args[0], True)
    raw = _raw_of(stream) if type(stream) in _BUFFERED and inside else None
    if raw is not None:
        at = _begin((stream,), {})[1]["at"] if type(raw) is _io.FileIO else file_of(raw).written_at
        file_of(raw).pending.extend((at, at + (1 << 40), *rest) for _, _, *rest in over(1, inside))
    return args, {"raw": raw, "in memory": (stream, stream.tell()) if type(stream) is _io.BytesIO else None}


def _after_dump(result, args, memo):
    if memo["in memory"] is not None:
        stream, at = memo["in memory"]
        data = PICKLE["dumps"](stream.getvalue()[at : stream.tell()], args, {})
        _written(len(data), (stream, data), {"at": at})
    if type(memo["raw"]) is _io.FileIO:
        file_of(memo["raw"]).text_at = None
    return result


_BUFFERED = (_io.BufferedReader, _io.BufferedWriter, _io.BufferedRandom, _io.TextIOWrapper)
METHODS: dict = {_io.BytesIO: _IN_MEMORY, _io.StringIO: _IN_MEMORY, **dict.fromkeys(_BUFFERED, _FILES)}
FUNCTIONS = {"BytesIO": _created, "StringIO": _created}
DUMP, LOAD = (_after_dump, _dumped), (_after_load, _before_load)
LINES.update({_io.BytesIO: _lines_in_memory, _io.StringIO: _lines_in_memory, **dict.fromkeys(_BUFFERED, _lines_of_file)})
