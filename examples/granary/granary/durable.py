"""Files that must survive a crash: atomic documents and append-only record files.

Every disk error ends the process (see process.fail_stop). Only reading the disk again shows the effect of
a failed write or fsync, and a restart does that."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

from .process import EXIT_DISK, fail_stop
from .sealed import Damaged, seal, unseal

_HEADER = struct.Struct(">III")  # length, checksum of the payload, checksum of these two
_SUMMED = struct.Struct(">II")
_TEMPORARY = ".tmp"

_in_flight: dict[int, float] = {}


@contextlib.contextmanager
def disk_operation(what: str, path: str) -> Iterator[None]:
    """Marks the thread as waiting for the disk, and stops the process if the disk fails."""
    thread = threading.get_ident()
    outer = _in_flight.get(thread)
    _in_flight[thread] = time.monotonic() if outer is None else outer
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        fail_stop(EXIT_DISK, "disk error: %s %s: %s", what, path, error)
    finally:
        if outer is None:
            _in_flight.pop(thread, None)


def stalled_s() -> float:
    """The waiting time of the slowest disk operation under way."""
    now = time.monotonic()
    return max((now - start for start in list(_in_flight.values())), default=0.0)


def make_dir(path: str) -> None:
    with disk_operation("mkdir", path):
        os.makedirs(path, exist_ok=True)


def list_dir(path: str) -> list[str]:
    """The directory's files. Removes temporary files that a crash left behind."""
    names = []
    with disk_operation("list", path):
        for name in sorted(os.listdir(path)):
            if name.endswith(_TEMPORARY):
                os.unlink(os.path.join(path, name))
            else:
                names.append(name)
    return names


def sync_dir(path: str) -> None:
    with disk_operation("fsync", path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_file(path: str, content: bytes) -> None:
    """Write and fsync a file that nobody else reads yet."""
    with disk_operation("write", path), open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def rename(source: str, target: str) -> None:
    with disk_operation("rename", target):
        os.replace(source, target)
    sync_dir(os.path.dirname(target))


def remove(path: str) -> None:
    with disk_operation("unlink", path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def read_file(path: str) -> bytes | None:
    try:
        with disk_operation("read", path), open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def save_document(path: str, document: Any) -> None:
    """Replace the document atomically: after a crash it is the old one or the new one."""
    temporary = path + _TEMPORARY
    write_file(temporary, seal(document))
    rename(temporary, path)


def load_document(path: str) -> Any:
    """The document, or None if there is none."""
    content = read_file(path)
    if content is None:
        return None
    try:
        return unseal(content)
    except Damaged as error:
        fail_stop(EXIT_DISK, "disk error: %s is damaged: %s", path, error)


class RecordFile:
    """An append-only file of checksummed JSON records. A record is durable when append() returns;
    a half-written one at the end (a crash during append) is cut off when the file is opened; one that is
    complete but not what was written is damage."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.records: list[Any] = []
        self._ends: list[int] = []
        content = read_file(path)
        self._parse(content or b"")
        with disk_operation("open", path):
            self._file = open(path, "ab")  # noqa: SIM115
        if content is None:
            sync_dir(os.path.dirname(path))
        elif self.size < len(content):
            self._cut(self.size)

    @property
    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    def append(self, record: Any) -> None:
        payload = json.dumps(record, separators=(",", ":")).encode()
        with disk_operation("append", self.path):
            self._file.write(_header(payload) + payload)
            self._file.flush()
            os.fsync(self._file.fileno())
        self.records.append(record)
        self._ends.append(self.size + _HEADER.size + len(payload))

    def truncate(self, count: int) -> None:
        """Keep the first `count` records."""
        if count < len(self.records):
            del self.records[count:], self._ends[count:]
            self._cut(self.size)

    def close(self) -> None:
        with disk_operation("close", self.path):
            self._file.close()

    def _cut(self, size: int) -> None:
        with disk_operation("truncate", self.path):
            self._file.truncate(size)
            os.fsync(self._file.fileno())

    def _parse(self, content: bytes) -> None:
        at = 0
        while at + _HEADER.size <= len(content):
            header = content[at:at + _HEADER.size]
            length, checksum, _ = _HEADER.unpack(header)
            end = at + _HEADER.size + length
            payload = content[at + _HEADER.size:end]
            whole = header[_SUMMED.size:] == _checksum(header[:_SUMMED.size])
            if whole and end > len(content):
                return
            if not whole or zlib.crc32(payload) != checksum:
                fail_stop(EXIT_DISK, "disk error: %s is damaged at byte %d", self.path, at)
            self.records.append(json.loads(payload))
            self._ends.append(end)
            at = end


def _header(payload: bytes) -> bytes:
    summed = _SUMMED.pack(len(payload), zlib.crc32(payload))
    return summed + _checksum(summed)


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "big")
