"""The agent of a process whose data has labels: bytes that it reads or receives get one, and each operation that stores or sends
is followed by the labels of its data."""

from __future__ import annotations

import _io
import _socket
import os

from undermine_agent.content.recording import ContentAgent
from undermine_agent.labels import table
from undermine_agent.labels.streams import read_below, written_below
from undermine_agent.labels.table import cut, keep, put, relabelled, sources, within
from undermine_agent.names.subjects import Subject

LABELS_MAX = 64
_SOURCES = frozenset(("file.read", "file.map_read", "net.recv", "raw.recv", "pipe.read"))
_SINKS = frozenset(
    ("file.write", "file.map_write", "file.create", "file.open", "file.rename", "file.unlink", "file.mkdir", "file.rmdir",
     "file.truncate", "net.send", "raw.send", "msg.send", "pipe.write", "db.write", "db.read")
)  # fmt: skip
_STORES = frozenset(("db.read", "db.write"))
_BUFFERS = (bytearray, memoryview)
_TEXTS = (str, bytes, bytearray)


class LabelAgent(ContentAgent):
    labelling = False

    def begin_labels(self) -> None:
        self.labels_operation = self.operations["content.labels"]
        self.labelling = True
        table.begin()

    def after_fork(self) -> None:
        """Values that the child has inherited keep the labels of its parent."""
        parent = os.getppid()
        for address, (value, segments, shared) in list(table.labels.items()):
            inherited = [(a, b, source if type(source) is tuple else (parent, source), *rest) for a, b, source, *rest in segments]
            table.labels[address] = value, tuple(inherited), shared
        super().after_fork()

    def finish(self, call, result, size=0, error=None, args=()):
        result = super().finish(call, result, size, error, args)
        if error is not None or not self.labelling:
            return result
        state = self.thread_state()
        busy, state.busy = state.busy, True
        try:
            found = self._stored(call, result, args)
            result = self._labelled(call, result, args)
        except Exception as trouble:
            self._note(trouble)
            return result
        finally:
            state.busy = busy
        if found:
            self._record(call, found)
        return result

    # --- sources

    def _labelled(self, call, result, args):
        """Label the data that an operation has got."""
        name = call.operation.name
        if name in _SOURCES:
            return self._received(call.seq, result, args)
        if name in _STORES and result is not None:
            return relabelled(result, _Numbered(call.seq))
        return result

    def _received(self, seq: int, result, args):
        if type(result) is bytes:
            if type(args[0] if args else None) is _io.FileIO:
                read_below(args[0], len(result), seq)
            return put(result, _all(seq, len(result)))
        if type(result) is tuple and result and type(result[0]) is bytes:  # with the address of the sender
            return (put(result[0], _all(seq, len(result[0]))), *result[1:])
        size = result[0] if type(result) is tuple and result else result
        if type(size) is not int or size <= 0:
            return result
        if type(args[0] if args else None) is _io.FileIO:
            read_below(args[0], size, seq)
        buffer = next((each for each in args if type(each) in _BUFFERS), None)
        if type(buffer) is memoryview and type(buffer.obj) is not bytearray and isinstance(args[0], _socket.socket):
            read_below(args[0], size, seq)  # into the buffer of a file that was made from the socket
        elif buffer is not None:
            _fill(buffer, size, seq)
        return result

    # --- sinks

    def _stored(self, call, result, args) -> list:
        """The labels of the data that an operation has stored or sent, or of the names that it used."""
        if call.operation.name not in _SINKS:
            return []
        first = args[0] if args else None
        if type(result) is int and (type(first) is _io.FileIO or isinstance(first, _socket.socket)) and len(args) > 1:
            below = written_below(first, result) if type(args[1]) is memoryview else []
            return below or within(args[1:])
        return within(args)

    def _record(self, call, segments) -> None:
        noted = self.enter(self.labels_operation, Subject("", label_text(segments)), call.seq, 0, call.stack)
        if noted is not None:
            self.leave(noted)


class _Numbered:
    """Labels the values of an answer: its bytes are those of all values one after the other."""

    def __init__(self, seq: int):
        self.seq = seq
        self.at = 0

    def __call__(self, value):
        size = len(value) if type(value) in _TEXTS else 1
        begin, self.at = self.at, self.at + size
        exact = type(value) in _TEXTS
        return put(value, [*table.of(value), (0, size, self.seq, begin, begin + size, exact)])


def _all(seq: int, size: int) -> list:
    return [(0, size, seq, 0, size, True)]


def _fill(buffer, size: int, seq: int) -> None:
    """Label the beginning of a buffer, or of the object that a view shows from its beginning."""
    owner = buffer.obj if type(buffer) is memoryview else buffer
    if type(owner) is not bytearray:
        return
    at = 0
    if type(buffer) is memoryview and buffer.nbytes != len(owner):
        at = len(owner) - buffer.nbytes  # programs pass on the part that is still empty
    known = table.of(owner)
    after = [(begin + at + size, end + at + size, *rest) for begin, end, *rest in cut(known, at + size, len(owner))]
    keep(owner, [*cut(known, 0, at), (at, at + size, seq, 0, size, True), *after])


def label_text(segments) -> str:
    """The labels as text, the latest sources if there are too many: `SEQ:LOW-HIGH`, or `PID_SEQ:LOW-HIGH` of a parent."""
    found = [("%d_%d" % each[0] if type(each[0]) is tuple else each[0], *each[1:]) for each in sources(segments)[-LABELS_MAX:]]
    return " ".join(["%s:%d-%d" % each for each in found])
