"""Campaigns on disk: where they lie, which one is the latest, and who may add to one. Never runs anything."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.store.database import CampaignStore

CAMPAIGNS = "campaigns"
LATEST = "latest"
REPLAYS = "replay"
"""The folder, fresh each time, for plans that belong to no campaign."""
TRACES = "trace"
"""The folder, fresh each time, for a run that is recorded to be looked at."""
SCRATCH = ("check", "plan", REPLAYS, TRACES)


def new_campaign_dir(config: Config) -> Path:
    """A fresh folder for a campaign; it becomes the latest one when the campaign has begun."""
    home = config.dir / CAMPAIGNS
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = time.strftime("%Y-%m-%d-%H%M%S")
    for suffix in ("", *(f"-{n}" for n in range(2, 100))):
        folder = home / f"{stem}{suffix}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder
    raise UserError(f"{home} has too many campaigns of this second; try again")


def point_latest(config: Config, folder: Path) -> None:
    link = config.dir / LATEST
    temporary = config.dir / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.relative_to(config.dir))
    temporary.replace(link)


def campaign_dir(config: Config, name: str = "") -> Path:
    """The named campaign's folder, or that of the one that is `latest`, as is the one without a name."""
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
    """Refuse to touch a campaign that somebody works on."""
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another undermine is working on {folder}; wait for it or end it") from None
        yield


@contextlib.contextmanager
def open_store(folder: Path, *, exclusive: bool = False, fresh: bool = False) -> Iterator[CampaignStore]:
    """The campaign's store; `exclusive` for whoever adds runs, `fresh` to forget what was there."""
    with contextlib.ExitStack() as stack:
        if exclusive:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
            if fresh:
                _empty(folder)
        store = CampaignStore(folder)
        stack.callback(store.close)
        yield store


def _empty(folder: Path) -> None:
    """Remove all but the lock, which we hold."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def find_finding(store: CampaignStore, finding: str) -> Finding:
    found = {f.id: f for f in store.findings()}
    if finding.upper() not in found:
        known = ", ".join(found) or "none"
        raise UserError(f"there is no finding {finding!r} in this campaign; there are: {known}")
    return found[finding.upper()]
