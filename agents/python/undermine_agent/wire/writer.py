"""Writes the event file of this process, as protocol/README.md describes it, into memory that survives SIGKILL.

Each thread writes to a chunk of its own, so only the growth of the file takes a lock. A definition is written before
its id is published: a record refers only to definitions that a reader can find. If the file cannot grow (disk full),
recording stops silently: records go to scratch memory from then on.
"""

from __future__ import annotations

import _struct
import _thread
import errno
import os
from itertools import count

from undermine_agent.interpreter import fast, native
from undermine_agent.wire import clock

CHUNK = 65536
MAGIC = b"UMC1"
TEXT_MAX = 4000
INTERNED_MAX = 100_000

PROCESS, STRING, FRAME, STACK, BEGIN, END, RECEIPT = range(1, 8)

_LENGTH = _struct.Struct("<I")
_BEGIN = _struct.Struct("<BIqIIIIIq")
_END = _struct.Struct("<BIqqI")
_STRING = _struct.Struct("<BI")
_FRAME = _struct.Struct("<BIII")
_STACK = _struct.Struct("<BIH")
_RECEIPT = _struct.Struct("<BIqHqII")
_BEGIN_SIZE = 4 + _BEGIN.size
_END_SIZE = 4 + _END.size
_put_length, _put_begin, _put_end = _LENGTH.pack_into, _BEGIN.pack_into, _END.pack_into

_open, _close, _fallocate = os.open, os.close, os.posix_fallocate


class Cursor:
    """A thread's position in its chunk. When the thread ends, another thread gets the rest of the chunk."""

    __slots__ = ("view", "position", "writer")

    def __init__(self, writer):
        self.writer = writer
        self.view, self.position = writer.take()

    def advance(self) -> None:
        """Continue in a new chunk; the old one is complete."""
        old = self.view
        # One assignment: a signal handler that raises here must not leave a chunk that is unmapped.
        self.view, self.position = self.writer.fresh()
        self.writer.drop(old)

    def __del__(self):
        try:
            self.writer.give_back(self.view, self.position)
        except AttributeError:  # never got a chunk
            pass


class Writer:
    """One event file. Ids and sequence numbers are unique in it."""

    def __init__(self, path: str):
        self.path = path
        self.chunks = 0
        self.failed = False
        self.free: list = []
        self.lock = _thread.allocate_lock()
        self.strings: dict = {"": 0}
        self.string_ids, self.frame_ids, self.stack_ids = count(1), count(1), count(1)
        self.sequence = count(1)
        # Never reuse a file: another program may have had the same pid, or may still have the file mapped.
        _close(_open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def take(self):
        try:
            return self.free.pop()
        except IndexError:
            return self.fresh()

    def fresh(self):
        """A new chunk at the end of the file, or scratch memory if the file cannot grow."""
        # Don't wait for long: a signal handler that raises at the wrong moment may leave the lock taken.
        if self.failed or not self.lock.acquire(timeout=clock.true_s(1)):
            return self.scratch(), len(MAGIC)
        try:
            return self._grow(), len(MAGIC)
        except OSError as error:
            # A target that has run out of descriptors may get one later.
            self.failed = error.errno not in (errno.EMFILE, errno.ENFILE)
            return self.scratch(), len(MAGIC)
        finally:
            self.lock.release()

    def _grow(self) -> memoryview:
        # Allocate instead of only extending: a write to a mapped hole on a full disk would kill the host.
        fd = _open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            offset = self.chunks * CHUNK
            _fallocate(fd, offset, CHUNK)
            view = native.map_part(fd, offset, CHUNK)
        finally:
            _close(fd)
        view[: len(MAGIC)] = MAGIC
        self.chunks += 1
        return view

    @staticmethod
    def scratch() -> memoryview:
        return memoryview(bytearray(CHUNK))

    @staticmethod
    def drop(view: memoryview) -> None:
        if type(view.obj) is not bytearray:
            native.unmap(view)

    def give_back(self, view: memoryview, position: int) -> None:
        self.free.append((view, position))

    def begin(self, cursor, seq, t_ns, op, stack, target, resource, thread, size) -> None:
        position = cursor.position
        if position + _BEGIN_SIZE > CHUNK:
            cursor.advance()
            position = cursor.position
        _put_begin(cursor.view, position + 4, BEGIN, seq, t_ns, op, stack, target, resource, thread, size)
        _put_length(cursor.view, position, _BEGIN_SIZE)
        cursor.position = position + _BEGIN_SIZE

    def end(self, cursor, seq, t_ns, result, error) -> None:
        position = cursor.position
        if position + _END_SIZE > CHUNK:
            cursor.advance()
            position = cursor.position
        _put_end(cursor.view, position + 4, END, seq, t_ns, result, error)
        _put_length(cursor.view, position, _END_SIZE)
        cursor.position = position + _END_SIZE

    def process(self, cursor, text: str) -> None:
        self._put(cursor, bytes((PROCESS,)) + text.encode())

    def receipt(self, cursor, seq, t_ns, step, held_ns, action, detail) -> None:
        self._put(cursor, _RECEIPT.pack(RECEIPT, seq, t_ns, step, held_ns, action, detail))

    def string(self, cursor, text: str) -> int:
        """The id of a text, defined at its first use. (Callers on the fast path look into `strings` first.)"""
        known = self.strings.get(text)
        if known is not None:
            return known
        number = next(self.string_ids)
        data = text.encode("utf-8", "backslashreplace")[:TEXT_MAX]
        self._put(cursor, _STRING.pack(STRING, number) + data)
        if len(self.strings) < INTERNED_MAX:
            self.strings[text] = number
        return number

    def frame(self, cursor, loc: str, line: int) -> int:
        text = self.string(cursor, loc)
        number = next(self.frame_ids)
        self._put(cursor, _FRAME.pack(FRAME, number, text, line))
        return number

    def stack(self, cursor, frames) -> int:
        number = next(self.stack_ids)
        ids = b"".join(map(_LENGTH.pack, frames))
        self._put(cursor, _STACK.pack(STACK, number, len(frames)) + ids)
        return number

    def _put(self, cursor, payload: bytes) -> None:
        size = 4 + len(payload)
        if cursor.position + size > CHUNK:
            cursor.advance()
        position = cursor.position
        cursor.view[position + 4 : position + size] = payload
        _put_length(cursor.view, position, size)
        cursor.position = position + size


class TrueTimeWriter(Writer):
    """For a process whose clock runs faster. The accelerator's class converts times itself."""

    def begin(self, cursor, seq, t_ns, op, stack, target, resource, thread, size) -> None:
        super().begin(cursor, seq, clock.true_ns(t_ns), op, stack, target, resource, thread, size)

    def end(self, cursor, seq, t_ns, result, error) -> None:
        super().end(cursor, seq, clock.true_ns(t_ns), result, error)

    def receipt(self, cursor, seq, t_ns, step, held_ns, action, detail) -> None:
        super().receipt(cursor, seq, clock.true_ns(t_ns), step, held_ns // clock.speed, action, detail)


Writer = fast.base("Writer", Writer)  # type: ignore[misc]
