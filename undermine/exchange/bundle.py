"""A finding in one file, with what another machine needs to replay it.

A bundle is a zip file with `manifest.json`, `project/…` (the configuration, the plug-in file and the files they need) and
`evidence/…` (the run that shows the finding best). Equal findings give equal bytes. Paths of this machine are left out.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import undermine
from undermine.config.schema import Config, changes
from undermine.exchange import evidence, safe_zip
from undermine.exchange.evidence import Seen
from undermine.exchange.git import ask
from undermine.exchange.manifest import FORMAT, MANIFEST, PROJECT, Manifest, here
from undermine.exchange.project_files import collect
from undermine.exchange.unpacking import is_bundle
from undermine.model.errors import UserError


class Written(msgspec.Struct, frozen=True):
    """A bundle that was written, and warnings about it."""

    path: str
    files: tuple[str, ...]
    bytes: int
    warnings: tuple[str, ...] = ()


def write(
    config: Config, identity: Mapping[str, Any], seen: Seen, output: Path, include: Sequence[str] = ()
) -> Written:
    """Write a finding to one file. `identity` is the configuration that the campaign stored when it began."""
    significant = identity.get("significant", {})
    config = msgspec.structs.replace(config, params={**config.params, **significant.get("params", {})})
    files = collect(config, include)
    evidence_files, left_out = evidence.collect(config, seen)
    manifest = Manifest(
        format=FORMAT,
        undermine=undermine.__version__,
        finding=evidence.without_paths(seen.finding, config, seen.run),
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
    members = {f"{PROJECT}/{name}": data for name, data in files.content.items()} | evidence_files
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    members = {MANIFEST: text, **dict(sorted(members.items()))}
    _zip(output, members, files.executable)
    changed = changes(significant, config.significant()) if significant else []
    warnings = [f"changed since the campaign began: {text}; the bundle has the current value" for text in changed[:5]]
    return Written(str(output), tuple(members), output.stat().st_size, (*warnings, *files.warnings, *left_out))


def _zip(output: Path, members: Mapping[str, bytes], executable: Iterable[str]) -> None:
    """Write the whole file at once, readable by its owner only, because logs and configurations may hold secrets."""
    if output.exists() and not is_bundle(output):
        raise UserError(f"{output} exists and is not a bundle; choose another file with -o")
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    runs = {f"{PROJECT}/{name}" for name in executable}
    try:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w+b") as stream:
            safe_zip.write(stream, members, runs)
        temporary.replace(output)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _commit(project: str) -> str:
    """The git commit of the project; "" if it is not known."""
    commit = ask(project, "rev-parse", "HEAD").out.strip()
    if not re.fullmatch("[0-9a-f]{40,64}", commit):
        return ""
    return commit + ("+" if ask(project, "status", "--porcelain", "--untracked-files=no", "--", ".").out.strip() else "")
