"""Campaign folders: creates them, finds the named or the latest one, and locks one for writing. Never starts a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from undermine import target_files
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.store.database import CampaignStore

CAMPAIGNS = "campaigns"
LATEST = "latest"
REPLAYS = "replay"
"""The folder for replayed plans that belong to no campaign; emptied before each use."""
TRACES = "trace"
"""The folder for the run that `undermine trace` records; emptied before each use."""
SCRATCH = ("check", "plan", REPLAYS, TRACES)


def new_campaign_dir(config: Config) -> Path:
    """Create an empty folder for a campaign. It becomes the latest one only when the campaign begins (`point_latest`)."""
    home = config.dir / CAMPAIGNS
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = time.strftime("%Y-%m-%d-%H%M%S")
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        folder = home / f"{stem}{suffix}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder
    raise UserError(f"{home} already has 99 campaigns that began in this second; try again")


def point_latest(config: Config, folder: Path) -> None:
    """Make this campaign the latest one, atomically."""
    link = config.dir / LATEST
    temporary = config.dir / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.relative_to(config.dir))
    temporary.replace(link)


def campaign_dir(config: Config, name: str = "") -> Path:
    """The folder of the named campaign; of the latest one if the name is empty or `latest`."""
    name = "" if name == LATEST else name
    folder = config.dir / CAMPAIGNS / name if name else config.dir / LATEST
    if not (folder / "campaign.db").exists():
        if name:
            raise UserError(
                f"there is no campaign {name!r} in {config.dir / CAMPAIGNS}; omit --campaign to use the latest one"
            )
        raise UserError(f"there is no campaign in {config.dir} yet; run `undermine hunt` first")
    return folder.resolve()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the campaign; raise a `UserError` if another process has locked it."""
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another undermine is using {folder}; wait until it has ended, or stop it") from None
        yield


@contextlib.contextmanager
def open_store(folder: Path, *, exclusive: bool = False, fresh: bool = False) -> Iterator[CampaignStore]:
    """Open the campaign store. `exclusive` locks it, which adding runs and upgrading it requires; `fresh` also removes its old
    content."""
    with contextlib.ExitStack() as stack:
        if exclusive:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
            if fresh:
                _empty(folder)
        store = CampaignStore(folder, upgrade=exclusive)
        stack.callback(store.close)
        yield store


def _empty(folder: Path) -> None:
    """Remove everything except the lock file, which this process holds."""
    for path in folder.iterdir():
        if path.name != "lock":
            target_files.remove(path)


def find_finding(store: CampaignStore, finding: str) -> Finding:
    """The finding with this id, in upper or lower case; raise a `UserError` if there is none."""
    found = {f.id: f for f in store.findings()}
    if finding.upper() not in found:
        known = ", ".join(found) or "none"
        raise UserError(f"there is no finding {finding!r} in this campaign; its findings are: {known}")
    return found[finding.upper()]
