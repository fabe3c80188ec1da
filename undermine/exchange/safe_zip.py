"""Zip files of which nothing is trusted: the names, kinds, number and sizes of members are checked before anything is written.

Never runs anything of a zip file, and never writes outside of the folder that it is given.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

_EPOCH = (1980, 1, 1, 0, 0, 0)
_NAME_LENGTH_MAX = 500
_DEPTH_MAX = 40
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""All errors that the standard library raises for a damaged file."""
_END = struct.Struct("<4s4H2LH")
_END_MARK, _LARGE_MARK = b"PK\x05\x06", b"PK\x06\x07"
_COMMENT_BYTES_MAX = 1 << 16


class Damaged(Exception):
    """The file isn't a zip file, or something in it is not allowed. The text says what."""


class ZipLimits(msgspec.Struct, frozen=True):
    """The most that a zip file may hold."""

    members: int = 10_000
    member_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


def write(stream: IO[bytes], members: Mapping[str, bytes], executable: Collection[str] = (), level: int = 9) -> None:
    """Write these members. Equal members give equal bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | (0o755 if name in executable else 0o644)) << 16
            archive.writestr(info, data)


def opened(stream: IO[bytes], limits: ZipLimits) -> zipfile.ZipFile:
    """The zip file. Its list of members is read only if it isn't too long."""
    try:
        if why := _too_much(stream, limits):
            raise Damaged(why)
        return zipfile.ZipFile(stream)
    except _ZIP_ERRORS as error:
        raise Damaged(str(error) or "it is truncated") from None


def _too_much(stream: IO[bytes], limits: ZipLimits) -> str:
    """Why the list of members must not be read; "" if it may. The standard library would read all of it into memory."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _END.size - _COMMENT_BYTES_MAX))
    tail = stream.read()
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END.size:
        return "it is truncated"
    if _LARGE_MARK in tail[max(0, at - 20) : at]:
        return "it uses the format for very large files"
    directory_bytes = _END.unpack_from(tail, at)[5]
    too_long = directory_bytes > limits.members * (_NAME_LENGTH_MAX + 100)
    return f"it has more than {limits.members} files" if too_long else ""


def checked(archive: zipfile.ZipFile, limits: ZipLimits, refuse: Callable[[str], str]) -> list[zipfile.ZipInfo]:
    """All members; none can be written outside of a folder or fill the disk. `refuse` says why a name is not allowed; "" if it
    is."""
    members = archive.infolist()
    if len(members) > limits.members:
        raise Damaged(f"it has {len(members)} files, more than {limits.members}")
    if sum(info.file_size for info in members) > limits.total_bytes:
        raise Damaged(f"its files are larger than {limits.total_bytes >> 20} MiB in total")
    names: set[str] = set()
    for info in members:
        if why := _refused(info, limits, names) or refuse(info.filename):
            raise Damaged(f"{info.filename[:200]!r} {why}")
        names.add(info.filename)
    parents = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    if both := sorted(names & parents):
        raise Damaged(f"{both[0]!r} is both a file and a folder")
    return members


def _refused(info: zipfile.ZipInfo, limits: ZipLimits, names: Collection[str]) -> str:
    """Why a member must not be written; "" if it may be."""
    name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable():
        return "is not a safe file name"
    if len(name) > _NAME_LENGTH_MAX or len(parts) > _DEPTH_MAX:
        return "has a name that is too long"
    if kind not in (0, stat.S_IFREG):
        return "is not a plain file"
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is encrypted or uses an unknown compression"
    if info.file_size > limits.member_bytes:
        return f"is larger than {limits.member_bytes >> 20} MiB"
    return "occurs twice" if name in names else ""


def content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, never more than the size that it declares."""
    try:
        with archive.open(info) as stream:
            data = stream.read(info.file_size + 1)
    except _ZIP_ERRORS as error:
        raise Damaged(f"{info.filename!r}: {error or 'it is truncated'}") from None
    if len(data) != info.file_size:
        raise Damaged(f"{info.filename!r} does not have the size that it declares")
    return data


def extract(archive: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo], folder: Path) -> None:
    """Write checked members below a folder, where none of them may exist."""
    known: set[Path] = set()
    for info in members:
        target = folder / info.filename
        if target.parent not in known:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            known.add(target.parent)
        mode = 0o700 if (info.external_attr >> 16) & 0o111 else 0o600
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as stream:
            stream.write(content(archive, info))


def names_of(members: Sequence[zipfile.ZipInfo]) -> set[str]:
    return {info.filename for info in members}
