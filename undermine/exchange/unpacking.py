"""Reading a bundle that somebody else wrote: its members are checked before anything is written.

`safe_zip.py` checks them. It never runs anything of a bundle.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from undermine.exchange import safe_zip
from undermine.exchange.manifest import EVIDENCE, FORMAT, MANIFEST, PROJECT, Manifest
from undermine.exchange.safe_zip import Damaged, ZipLimits
from undermine.model.errors import UserError

_LIMITS = ZipLimits()
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
        members = safe_zip.checked(archive, _LIMITS, _refused)
        manifest = _manifest(path, archive)
        name = PurePosixPath(manifest.config)
        if f"{PROJECT}/{name}" not in safe_zip.names_of(members):
            raise _damaged(path, f"it does not hold its configuration {manifest.config!r}")
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            _compare(path, archive, members, folder)
        else:
            _extract(path, archive, members, folder)
    return Unpacked(str(folder), manifest)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with open(path, "rb") as stream, safe_zip.opened(stream, _LIMITS) as archive:
            yield archive
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"there is no file {path}") from None
    except (Damaged, OSError) as error:
        raise _damaged(path, str(error)) from None


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
    data = safe_zip.content(archive, info)
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


def _refused(name: str) -> str:
    """Why a bundle must not have a file of this name; "" if it may."""
    parts = name.split("/")
    if name != MANIFEST and (len(parts) < 2 or parts[0] not in (PROJECT, EVIDENCE)):
        return f"is not in {PROJECT}/ or {EVIDENCE}/"
    return ""


def _extract(path: Path, archive: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo], folder: Path) -> None:
    """Write all files under a temporary name, then rename the folder."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        temporary.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise _not_unpacked(path, folder, error) from None
    try:
        safe_zip.extract(archive, members, temporary)
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
            same = target.is_file() and target.read_bytes() == safe_zip.content(archive, info)
        except OSError:
            same = False
        if not same and info.filename == MANIFEST:
            raise UserError(f"{folder} exists and holds other files; choose another --dir, or remove the folder")
        if not same:
            raise UserError(
                f"{target} differs from the file in {path}; to run the changed files use -c {folder / PROJECT}, "
                "else choose another --dir or remove the folder"
            )
