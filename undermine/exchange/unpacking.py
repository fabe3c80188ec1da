"""Reading a bundle that somebody else wrote: its members are checked before anything is written.

Names, kinds, number and sizes of the members must be safe. It never runs anything of a bundle.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec

from undermine.exchange.manifest import EVIDENCE, FORMAT, MANIFEST, PROJECT, Manifest
from undermine.model.errors import UserError

_MEMBERS_MAX = 10_000
_MEMBER_BYTES_MAX = 64 << 20
_TOTAL_BYTES_MAX = 256 << 20
_NAME_LENGTH_MAX = 500
_DEPTH_MAX = 40
_DIRECTORY_BYTES_MAX = _MEMBERS_MAX * (_NAME_LENGTH_MAX + 100)
_MANIFEST_BYTES_MAX = 8 << 20


class Unpacked(msgspec.Struct, frozen=True):
    """A bundle on disk: its folder and its manifest."""

    folder: str
    manifest: Manifest

    @property
    def config(self) -> Path:
        return Path(self.folder, PROJECT, self.manifest.config)


def is_bundle(path: Path) -> bool:
    """True if the file begins like a zip file."""
    try:
        with open(path, "rb") as stream:
            return stream.read(2) == b"PK"
    except OSError:
        return False


def read_manifest(path: Path) -> Manifest:
    """The manifest of a bundle. Nothing is unpacked."""
    with _opened(path) as archive:
        return _manifest(path, archive)


def unpack(path: Path, folder: Path) -> Unpacked:
    """Write the files of the bundle to their own folder. A folder that holds the same files is used as it is."""
    with _opened(path) as archive:
        members = _checked(path, archive)
        manifest = _manifest(path, archive)
        name = PurePosixPath(manifest.config)
        if f"{PROJECT}/{name}" not in {info.filename for info in members}:
            raise _damaged(path, f"it does not hold its configuration {manifest.config!r}")
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            _compare(path, archive, members, folder)
        else:
            _extract(path, archive, members, folder)
    return Unpacked(str(folder), manifest)


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


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        if why := _too_much(path):
            raise _damaged(path, why)
        return zipfile.ZipFile(path)
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"there is no file {path}") from None
    except _ZIP_ERRORS as error:
        raise _damaged(path, str(error) or "it is truncated") from None


_END = struct.Struct("<4s4H2LH")
_END_MARK, _LARGE_MARK = b"PK\x05\x06", b"PK\x06\x07"
_COMMENT_BYTES_MAX = 1 << 16


def _too_much(path: Path) -> str:
    """Why the list of members must not be read; "" if it may. The standard library would read all of it into memory."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _END.size - _COMMENT_BYTES_MAX))
        tail = stream.read()
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END.size:
        return "it is truncated"
    if _LARGE_MARK in tail[max(0, at - 20) : at]:
        return "it uses the format for very large files"
    directory_bytes = _END.unpack_from(tail, at)[5]
    return f"it has more than {_MEMBERS_MAX} files" if directory_bytes > _DIRECTORY_BYTES_MAX else ""


def _damaged(path: Path, why: str) -> UserError:
    why = "".join(c if c.isprintable() else "?" for c in why[:300])
    return UserError(f"{path} is not a valid bundle: {why}; create it again with `undermine bundle`")


def _manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    try:
        info = archive.getinfo(MANIFEST)
    except KeyError:
        raise _damaged(path, f"it has no {MANIFEST}") from None
    if info.file_size > _MANIFEST_BYTES_MAX:
        raise _damaged(path, f"its {MANIFEST} is too large")
    data = _member(path, archive, info)
    try:
        version = msgspec.json.decode(data, type=_Format).format
        if version > FORMAT:
            raise UserError(
                f"{path} has format {version}, but this version reads formats up to {FORMAT}; install a newer one"
            )
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, f"its {MANIFEST} cannot be read: {error}") from None


class _Format(msgspec.Struct):
    format: int


def _checked(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """All members; none can be written outside of the folder or fill the disk."""
    members = archive.infolist()
    if len(members) > _MEMBERS_MAX:
        raise _damaged(path, f"it has {len(members)} files, more than {_MEMBERS_MAX}")
    if sum(info.file_size for info in members) > _TOTAL_BYTES_MAX:
        raise _damaged(path, f"its files are larger than {_TOTAL_BYTES_MAX >> 20} MiB in total")
    names: set[str] = set()
    for info in members:
        if why := _refused(info, names):
            raise _damaged(path, f"{info.filename[:200]!r} {why}")
        names.add(info.filename)
    parents = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    if both := sorted(names & parents):
        raise _damaged(path, f"{both[0]!r} is both a file and a folder")
    return members


def _refused(info: zipfile.ZipInfo, names: set[str]) -> str:
    """Why a member must not be written; "" if it may be."""
    name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable():
        return "is not a safe file name"
    if len(name) > _NAME_LENGTH_MAX or len(parts) > _DEPTH_MAX:
        return "has a name that is too long"
    if name != MANIFEST and (len(parts) < 2 or parts[0] not in (PROJECT, EVIDENCE)):
        return f"is not in {PROJECT}/ or {EVIDENCE}/"
    if kind not in (0, stat.S_IFREG):
        return "is not a plain file"
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is encrypted or uses an unknown compression"
    if info.file_size > _MEMBER_BYTES_MAX:
        return f"is larger than {_MEMBER_BYTES_MAX >> 20} MiB"
    return "occurs twice" if name in names else ""


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, never more than the size that it declares."""
    try:
        with archive.open(info) as stream:
            data = stream.read(info.file_size + 1)
    except _ZIP_ERRORS as error:
        raise _damaged(path, f"{info.filename!r}: {error or 'it is truncated'}") from None
    if len(data) != info.file_size:
        raise _damaged(path, f"{info.filename!r} does not have the size that it declares")
    return data


def _extract(path: Path, archive: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo], folder: Path) -> None:
    """Write all files under a temporary name, then rename the folder."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        temporary.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise _not_unpacked(path, folder, error) from None
    try:
        for info in members:
            target = temporary / info.filename
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = 0o700 if (info.external_attr >> 16) & 0o111 else 0o600
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as stream:
                stream.write(_member(path, archive, info))
        temporary.rename(folder)
    except OSError as error:
        raise _not_unpacked(path, folder, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _not_unpacked(path: Path, folder: Path, error: OSError) -> UserError:
    return UserError(f"{path} cannot be unpacked into {folder}: {error.strerror}; choose another --dir")


def _compare(path: Path, archive: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo], folder: Path) -> None:
    """Refuse a folder that differs from the bundle. Nothing in it is overwritten."""
    for info in members:
        target = folder / info.filename
        try:
            same = target.is_file() and target.read_bytes() == _member(path, archive, info)
        except OSError:
            same = False
        if not same and info.filename == MANIFEST:
            raise UserError(f"{folder} exists and holds other files; choose another --dir, or remove the folder")
        if not same:
            raise UserError(
                f"{target} differs from the file in {path}; to run the changed files use -c {folder / PROJECT}, "
                "else choose another --dir or remove the folder"
            )
