"""A finding in one file: what another machine needs to replay it, and what was seen here.

A bundle is a zip file with `manifest.json`, `project/…` (configuration, plug-in file, what they need) and `evidence/…` (the run
that shows the finding best). Equal findings give equal bytes; paths of the machine are left out. What is read back is a
stranger's file: names, kinds, number and sizes of its members are checked before anything is written.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import stat
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

import undermine
from undermine.config.schema import Config, Param, changes
from undermine.exchange.project_files import collect
from undermine.model.errors import UserError
from undermine.model.finding import Finding, Landing
from undermine.model.run import RunView, Verdict
from undermine.store.rundir import RunDir

FORMAT = 1
SUFFIX = ".undermine"
MANIFEST = "manifest.json"
PROJECT = "project"
EVIDENCE = "evidence"

_MEMBERS_MAX = 10_000
_MEMBER_BYTES_MAX = 64 << 20
_TOTAL_BYTES_MAX = 256 << 20
_NAME_LENGTH_MAX = 500
_DEPTH_MAX = 40
_DIRECTORY_BYTES_MAX = _MEMBERS_MAX * (_NAME_LENGTH_MAX + 100)
_MANIFEST_BYTES_MAX = 8 << 20
_LOG_BYTES_MAX = 256 << 10
_EVIDENCE_BYTES_MAX = 20 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
_GIT_TIMEOUT_S = 10


class Manifest(msgspec.Struct, frozen=True):
    """What a bundle says of itself: the finding, and the circumstances in which it was found."""

    format: int
    undermine: str
    finding: Finding
    config: str
    """The name of the configuration below `project/`."""
    params: dict[str, Param] = {}
    isolation: str = ""
    platform: str = ""
    python: str = ""
    """Of the tool, and of nodes whose command begins with {python}."""
    agents: dict[str, str] = {}
    """The runtime of each node that loaded an agent."""
    fingerprint: str = ""
    commit: str = ""
    """Of the project's git work tree; with a + if something in it was not committed."""
    commands: dict[str, tuple[str, ...]] = {}
    run: int = 0
    landed: tuple[Landing, ...] = ()
    """Where the steps of its plan fired in that run."""
    left_out: tuple[str, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    """A finding and the run that shows it best."""

    finding: Finding
    run: Path
    verdicts: tuple[Verdict, ...]
    runtimes: dict[str, str] = {}
    landed: tuple[Landing, ...] = ()


class Written(msgspec.Struct, frozen=True):
    """A bundle that was made, and what its maker should know."""

    path: str
    files: tuple[str, ...]
    bytes: int
    warnings: tuple[str, ...] = ()


# --- writing


def write(
    config: Config, identity: Mapping[str, Any], seen: Seen, output: Path, include: Sequence[str] = ()
) -> Written:
    """Put a finding into one file. `identity` is what the campaign stored of the configuration it began with."""
    significant = identity.get("significant", {})
    config = msgspec.structs.replace(config, params={**config.params, **significant.get("params", {})})
    files = collect(config, include)
    evidence, left_out = _evidence(config, seen)
    manifest = Manifest(
        format=FORMAT,
        undermine=undermine.__version__,
        finding=_portable(seen.finding, config, seen.run),
        config=files.config,
        params=config.params,
        isolation=identity.get("isolation", ""),
        platform=here(),
        python=identity.get("python", platform.python_version()),
        agents=dict(sorted(seen.runtimes.items())),
        fingerprint=config.fingerprint(),
        commit=_commit(config.project),
        commands={name: role.command for name, role in config.roles.items()},
        run=seen.finding.shown_by or seen.finding.runs[0],
        landed=seen.landed,
        left_out=tuple(left_out),
    )
    members = {f"{PROJECT}/{name}": data for name, data in files.content.items()} | evidence
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    members = {MANIFEST: text, **dict(sorted(members.items()))}
    _zip(output, members, files.executable)
    changed = changes(significant, config.significant()) if significant else []
    warnings = [f"since the campaign began {text}: the bundle has it as it is now" for text in changed[:5]]
    return Written(str(output), tuple(members), output.stat().st_size, (*warnings, *files.warnings, *left_out))


def _evidence(config: Config, seen: Seen) -> tuple[dict[str, bytes], list[str]]:
    """What was seen in the run: its record, history, verdicts and logs, within limits."""
    folder = RunDir(seen.run)
    found = {"verdicts.json": msgspec.json.format(msgspec.json.encode(seen.verdicts), indent=1)}
    for path in (folder.record, folder.history):
        with contextlib.suppress(OSError):
            found[path.name] = path.read_bytes()
    for path in sorted(folder.logs.glob("*")) if folder.logs.is_dir() else ():
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            found[f"logs/{path.name}"] = _tail(path)
    kept: dict[str, bytes] = {}
    left_out = (
        [] if "record.json" in found else ["the run that shows the finding is gone: there is no evidence but verdicts"]
    )
    room = _EVIDENCE_BYTES_MAX
    for name, data in found.items():
        data = _without_paths(data, config, seen.run)
        if len(data) > room:
            left_out.append(f"{EVIDENCE}/{name} was left out: {len(data)} bytes are too many")
            continue
        room -= len(data)
        kept[f"{EVIDENCE}/{name}"] = data
    return kept, left_out


def _tail(path: Path) -> bytes:
    """The end of a log, from a line's beginning where it was cut."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _LOG_BYTES_MAX))
        data = stream.read(_LOG_BYTES_MAX)
    if size <= _LOG_BYTES_MAX:
        return data
    cut, _, rest = data.partition(b"\n")
    rest = rest or cut
    return b"... %d bytes left out ...\n" % (size - len(rest)) + rest


def _without_paths(data: bytes, config: Config, run: Path) -> bytes:
    """The same text with words for the folders of this machine."""
    home = str(Path.home())
    words = {str(run): "{run}", str(config.dir): "{campaigns}", config.project: "{project}", home: "~"}
    for path, word in sorted(words.items(), key=lambda item: -len(item[0])):
        if len(path) > 1:
            pattern = re.escape(os.fsencode(path)) + rb"(?![\w.-])"
            data = re.sub(pattern, word.encode(), data)
    return data


def _portable(finding: Finding, config: Config, run: Path) -> Finding:
    """What was said of it, without paths of this machine; plans stay to the letter."""

    def clean(text: str) -> str:
        return _without_paths(text.encode(errors="replace"), config, run).decode()

    verdicts = tuple(
        msgspec.structs.replace(v, text=clean(v.text), symptom=clean(v.symptom), evidence=tuple(map(clean, v.evidence)))
        for v in finding.verdicts
    )
    return msgspec.structs.replace(
        finding, title=clean(finding.title), symptom=clean(finding.symptom), verdicts=verdicts, suppressed=""
    )


def _zip(output: Path, members: Mapping[str, bytes], executable: Iterable[str]) -> None:
    """Write the file as a whole, readable by its owner only: logs and configurations hold secrets."""
    if output.exists() and not is_bundle(output):
        raise UserError(f"{output} exists and is no bundle; choose another name with -o")
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    runs = {f"{PROJECT}/{name}" for name in executable}
    try:
        with (
            open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w+b") as stream,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        ):
            for name, data in members.items():
                info = zipfile.ZipInfo(name, _EPOCH)
                info.create_system = 3
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = (stat.S_IFREG | (0o755 if name in runs else 0o644)) << 16
                archive.writestr(info, data)
        temporary.replace(output)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def here() -> str:
    """`Linux x86_64`"""
    return f"{platform.system()} {platform.machine()}"


def _commit(project: str) -> str:
    """The commit that the project's folder is at; "" if that cannot be said."""
    commit = _git(project, "rev-parse", "HEAD").strip()
    if not re.fullmatch("[0-9a-f]{40,64}", commit):
        return ""
    return commit + ("+" if _git(project, "status", "--porcelain", "--untracked-files=no", "--", ".").strip() else "")


def _git(project: str, *words: str) -> str:
    command = ["git", "--no-optional-locks", "-C", project, *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


# --- reading


class Unpacked(msgspec.Struct, frozen=True):
    """A bundle on disk: its folder and what it says of itself."""

    folder: str
    manifest: Manifest

    @property
    def config(self) -> Path:
        return Path(self.folder, PROJECT, self.manifest.config)


def is_bundle(path: Path) -> bool:
    """Does it begin as a zip file does?"""
    try:
        with open(path, "rb") as stream:
            return stream.read(2) == b"PK"
    except OSError:
        return False


def read_manifest(path: Path) -> Manifest:
    """What a bundle says of itself, without unpacking it."""
    with _opened(path) as archive:
        return _manifest(path, archive)


def unpack(path: Path, folder: Path) -> Unpacked:
    """Write the bundle's files into a folder of their own; a folder that holds just them is used as it is."""
    with _opened(path) as archive:
        members = _checked(path, archive)
        manifest = _manifest(path, archive)
        name = PurePosixPath(manifest.config)
        if f"{PROJECT}/{name}" not in {info.filename for info in members}:
            raise _damaged(path, f"its configuration {manifest.config!r} is not in it")
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
"""All that the standard library raises over a file that was damaged."""


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        if why := _too_much(path):
            raise _damaged(path, why)
        return zipfile.ZipFile(path)
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"there is no file {path}") from None
    except _ZIP_ERRORS as error:
        raise _damaged(path, str(error) or "it ends too early") from None


_END = struct.Struct("<4s4H2LH")
_END_MARK, _LARGE_MARK = b"PK\x05\x06", b"PK\x06\x07"
_COMMENT_BYTES_MAX = 1 << 16


def _too_much(path: Path) -> str:
    """Why not even the list of members should be read; "" if it may: the standard library reads all of it at once."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _END.size - _COMMENT_BYTES_MAX))
        tail = stream.read()
    at = tail.rfind(_END_MARK)
    if at < 0 or len(tail) - at < _END.size:
        return "it ends too early"
    if _LARGE_MARK in tail[max(0, at - 20) : at]:
        return "it has the form of a very large file"
    directory_bytes = _END.unpack_from(tail, at)[5]
    return f"it has more than {_MEMBERS_MAX} files" if directory_bytes > _DIRECTORY_BYTES_MAX else ""


def _damaged(path: Path, why: str) -> UserError:
    why = "".join(c if c.isprintable() else "?" for c in why[:300])
    return UserError(f"{path} is no bundle, or it is damaged: {why}; make it anew with `undermine bundle`")


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
            raise UserError(f"{path} has format {version}, and this undermine reads up to {FORMAT}; use a newer one")
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, f"its {MANIFEST} cannot be read: {error}") from None


class _Format(msgspec.Struct):
    format: int


def _checked(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """All members, none of which can reach out of its folder or fill the disk."""
    members = archive.infolist()
    if len(members) > _MEMBERS_MAX:
        raise _damaged(path, f"it has {len(members)} files, more than {_MEMBERS_MAX}")
    if sum(info.file_size for info in members) > _TOTAL_BYTES_MAX:
        raise _damaged(path, f"its files have more than {_TOTAL_BYTES_MAX >> 20} MiB")
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
    """Why a member must not be written; "" if it may."""
    name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable():
        return "is no name of a file inside it"
    if len(name) > _NAME_LENGTH_MAX or len(parts) > _DEPTH_MAX:
        return "has a name that is too long"
    if name != MANIFEST and (len(parts) < 2 or parts[0] not in (PROJECT, EVIDENCE)):
        return f"does not belong into {PROJECT} or {EVIDENCE}"
    if kind not in (0, stat.S_IFREG):
        return "is not a plain file"
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is encrypted or compressed in another way"
    if info.file_size > _MEMBER_BYTES_MAX:
        return f"has more than {_MEMBER_BYTES_MAX >> 20} MiB"
    return "is there twice" if name in names else ""


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Its bytes: never more than it says it has, whatever is compressed in it."""
    try:
        with archive.open(info) as stream:
            data = stream.read(info.file_size + 1)
    except _ZIP_ERRORS as error:
        raise _damaged(path, f"{info.filename!r}: {error or 'it ends too early'}") from None
    if len(data) != info.file_size:
        raise _damaged(path, f"{info.filename!r} has not the size that it says")
    return data


def _extract(path: Path, archive: zipfile.ZipFile, members: Sequence[zipfile.ZipInfo], folder: Path) -> None:
    """All or nothing: under another name until everything is there."""
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
    """A folder that is there must be this very bundle; nothing in it is ever overwritten."""
    for info in members:
        target = folder / info.filename
        try:
            same = target.is_file() and target.read_bytes() == _member(path, archive, info)
        except OSError:
            same = False
        if not same and info.filename == MANIFEST:
            raise UserError(f"{folder} is there and holds something else; choose another --dir, or remove it")
        if not same:
            raise UserError(
                f"{target} is not as it is in {path}; to run what is there say -c {folder / PROJECT}, "
                "else choose another --dir or remove the folder"
            )


# --- here and there


def differences(manifest: Manifest, isolation: str) -> list[str]:
    """What is different here from where the finding was made, a phrase each."""
    pairs = (
        ("undermine", manifest.undermine, undermine.__version__),
        ("Python", manifest.python, platform.python_version()),
        ("the platform", manifest.platform, here()),
    )
    found = [f"{what} was {old} there and is {new} here" for what, old, new in pairs if old and old != new]
    if manifest.isolation and manifest.isolation != isolation:
        found.append(f"nodes were kept apart by {manifest.isolation} there and are by {isolation} here")
    return found


def runtimes(run: RunView) -> dict[str, str]:
    """What the agent of each node runs in."""
    return {agent.node: agent.runtime for agent in run.trace.agents}


def other_runtimes(manifest: Manifest, now: Mapping[str, str]) -> list[str]:
    """Nodes whose agents run in something else than they did."""
    found = []
    for node, old in manifest.agents.items():
        new = now.get(node, "")
        if not new:
            found.append(f"the agent of {node} ran in {old} there and did not load here")
        elif new != old:
            found.append(f"the agent of {node} ran in {old} there and runs in {new} here")
    return found


def param_texts(manifest: Manifest) -> dict[str, str]:
    """The bundled parameters as `--set` would give them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in manifest.params.items()
    }
