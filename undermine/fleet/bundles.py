"""A project as one file that is named by its content: packed on the client's machine, unpacked once on each worker."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import msgspec

from undermine.config.schema import Config
from undermine.exchange import project_files, safe_zip
from undermine.exchange.manifest import param_texts
from undermine.exchange.safe_zip import Damaged, ZipLimits
from undermine.fleet.messages import Project
from undermine.model.errors import UserError

_LIMITS = ZipLimits(project_files.FILES_MAX, project_files.BYTES_MAX, project_files.BYTES_MAX)


class Bundle(msgspec.Struct, frozen=True):
    """The files of a project, and what a worker must know to load it."""

    project: Project
    files: bytes
    warnings: tuple[str, ...] = ()
    """The files that the project seems to need and the bundle doesn't have."""


def pack(config: Config, campaign: str) -> Bundle:
    """Pack the files that the configuration names. Equal files give equal digests."""
    found = project_files.collect(config)
    stream = io.BytesIO()
    safe_zip.write(stream, found.content, found.executable, level=6)
    files = stream.getvalue()
    digest = hashlib.blake2b(files, digest_size=16).hexdigest()
    project = Project(digest, campaign, found.config, msgspec.json.encode(config), param_texts(config.params))
    return Bundle(project, files, found.warnings)


def unpack(files: bytes, digest: str, folder: Path) -> None:
    """Write the files to a new folder; an error leaves none."""
    if hashlib.blake2b(files, digest_size=16).hexdigest() != digest:
        raise UserError("the project was damaged on its way to the worker; run the hunt again")
    try:
        with safe_zip.opened(io.BytesIO(files), _LIMITS) as archive:
            members = safe_zip.checked(archive, _LIMITS, lambda name: "")
            temporary = folder.with_name(f".{folder.name}.new")
            temporary.mkdir(mode=0o700, parents=True)
            safe_zip.extract(archive, members, temporary)
            os.rename(temporary, folder)
    except Damaged as error:
        raise UserError(f"the project cannot be unpacked: {error}") from None


def moved(project: Project, folder: Path, results: Path) -> Config:
    """The client's configuration for the unpacked project in this folder."""
    config = msgspec.json.decode(project.config, type=Config)
    return msgspec.structs.replace(
        config,
        path=str(folder / project.config_name),
        project=str((folder / project.config_name).parent),
        campaign=msgspec.structs.replace(config.campaign, dir=str(results)),
    )
