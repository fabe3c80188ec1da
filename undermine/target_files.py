"""Reads files that a target may have made, and never waits for one: only regular files, and only up to a limit.

A node can put anything under a name that the tool reads: a FIFO, a device, a link, a folder, or a file of any size.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

_HOLES_MAX = 1000
_FOUND_MAX = 10_000


class End(NamedTuple):
    """The last bytes of a file, and the number of bytes before them."""

    data: bytes
    before: int


def open_regular(path: Path, access: int = os.O_RDONLY) -> BinaryIO:
    """Open a file for reading. Anything but a regular file is an `OSError`, also a link to one."""
    fd = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(fd, "rb")


def read(path: Path, bytes_max: int) -> bytes:
    """The content of a file. A file with more than `bytes_max` bytes is an `OSError`."""
    with open_regular(path) as stream:
        data = stream.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"it has more than {bytes_max:,} bytes", str(path))
    return data


def read_start(path: Path, bytes_max: int, unit: int = 1) -> bytes:
    """The first bytes of a file without the hole at its end; a multiple of `unit` if the file's size is one."""
    with open_regular(path) as stream:
        end = -(-_data_end(stream.fileno()) // unit) * unit
        stream.seek(0)
        return stream.read(min(end, bytes_max))


def read_end(path: Path, bytes_max: int, start: int = 0) -> End:
    """The last bytes of a file without the hole at its end, but none before `start`."""
    with open_regular(path) as stream:
        end = _data_end(stream.fileno())
        before = stream.seek(max(start, end - bytes_max))
        return End(stream.read(max(0, end - before)), before)


def _data_end(fd: int) -> int:
    """The size of a file without the hole at its end. Of a file with very many holes, it may be the whole size."""
    end = 0
    with contextlib.suppress(OSError):  # no more data
        for _ in range(_HOLES_MAX):
            end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        return os.fstat(fd).st_size
    return end


def regular_files(folder: Path) -> Iterator[Path]:
    """The regular files in a folder, in the order of their names; none if it cannot be listed."""
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.is_symlink():
                yield path


def shown_name(path: Path) -> str:
    """The name of a file as text that can be printed and written anywhere: other bytes become `%1B`."""
    return "".join(c if c.isprintable() and c != "\\" else quote(os.fsencode(c)) for c in path.name)


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it exists. Links are not followed."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            _remove_folder(path)
        else:
            path.unlink()


def _remove_folder(path: Path) -> None:
    try:
        shutil.rmtree(path, ignore_errors=True)
    except RecursionError:  # a node has made very deep folders; before Python 3.13 they need another program
        subprocess.run(["rm", "-rf", "--", str(path)], capture_output=True)


def found(folder: Path, pattern: str) -> list[Path]:
    """The paths in a folder that match a pattern, sorted. Folders that are too deep for a path are left out, and of very many
    paths, some."""
    paths: list[Path] = []
    with contextlib.suppress(OSError, RecursionError):
        for path in itertools.islice(folder.glob(pattern), _FOUND_MAX):
            paths.append(path)
    return sorted(paths)


def write_new(path: Path, content: bytes, *, synced: bool = False) -> None:
    """Write a file for its owner only, in place of anything that has its name."""
    remove(path)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
        stream.write(content)
        if synced:
            stream.flush()
            os.fsync(stream.fileno())
