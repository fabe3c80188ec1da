"""Opens a campaign so that runs can be added, and refuses to resume one under other conditions. Starts no run, unless the
campaign must choose its variables first."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

import undermine
from undermine import plugins
from undermine.api.helpers import helpers
from undermine.api.stored import today
from undermine.campaign.helpers import no_catch_up
from undermine.campaign.loop import Campaign
from undermine.campaign.running import Listener, Notice
from undermine.config.schema import Config, Variable, changes
from undermine.deployments.isolation import choose
from undermine.deployments.sweep import sweep
from undermine.exchange import suppressions
from undermine.fleet.engine import open_fleet
from undermine.model.errors import UserError
from undermine.program.repository.changes import Changed
from undermine.protocols import Strategy
from undermine.run.agent_files import prepare_agents
from undermine.run.engine import Engine, open_engine
from undermine.store.campaign_dirs import open_store
from undermine.store.database import CampaignStore

_REASONS_MAX = 5
_VARIABLES = "variables"
"""The key under which the store keeps the variables that the campaign has chosen."""


def silent(_: Notice) -> None:
    """A listener that ignores everything."""


def build_agents(config: Config, listener: Listener) -> None:
    """Build missing agents before the first run. The listener gets a notice that says how long it may take."""
    prepare_agents(config, lambda text: listener(Notice("building", text)))


@contextlib.contextmanager
def opened(
    config: Config,
    folder: Path,
    strategies: Sequence[Strategy],
    listener: Listener,
    *,
    fresh: bool = False,
    survey: bool = False,
    baseline: Path | None = None,
    changed: Changed | None = None,
    scheduler: str = "",
    jobs: int = 0,
) -> Iterator[tuple[Campaign, CampaignStore, Engine]]:
    """Open and lock the campaign in a folder; `fresh` empties the folder first. `survey` makes a campaign with
    `variables = "auto"` choose its variables, if it has not done so. Findings in `baseline` are suppressed. Faults
    in `changed` functions are tried first. With a `scheduler`, plans run on the workers of its Dask cluster, at most `jobs` at a
    time on each.

    If nodes will be started, call `build_agents` before.
    """
    sweep(config.dir)
    with open_store(folder, exclusive=True, fresh=fresh) as store:
        if survey and config.auto_variables and store.meta(_VARIABLES) is None:
            with _opened(config, folder, store, (), listener, scheduler=scheduler, jobs=jobs) as (campaign, _):
                store.set_meta(_VARIABLES, msgspec.to_builtins(campaign.surveying.choose()))
        if config.auto_variables:
            chosen = msgspec.convert(store.meta(_VARIABLES, {}), dict[str, Variable])
            config = msgspec.structs.replace(config, variables=chosen)
        session = _opened(config, folder, store, strategies, listener, baseline, changed, scheduler=scheduler, jobs=jobs)
        with session as (campaign, engine):
            yield campaign, store, engine


@contextlib.contextmanager
def _opened(
    config: Config,
    folder: Path,
    store: CampaignStore,
    strategies: Sequence[Strategy],
    listener: Listener,
    baseline: Path | None = None,
    changed: Changed | None = None,
    *,
    scheduler: str = "",
    jobs: int = 0,
) -> Iterator[tuple[Campaign, Engine]]:
    helping = helpers(config, changed)
    if scheduler:  # each worker builds what its own agents need
        helping = msgspec.structs.replace(helping, catch_up=no_catch_up)
    with _engine(config, folder, listener, scheduler, jobs) as engine:
        checkers = plugins.checkers(config, engine.declared["checkers"])
        suppressed = suppressions.matcher(config, today(), baseline)
        yield Campaign(engine, store, strategies, checkers, listener, suppressed, helping), engine


def _engine(
    config: Config, folder: Path, listener: Listener, scheduler: str, jobs: int
) -> contextlib.AbstractContextManager[Engine]:
    if not scheduler:
        return open_engine(config, folder)
    return open_fleet(config, folder, scheduler, lambda kind, text: listener(Notice(kind, text)), most=jobs)


# --- the conditions of a campaign


def identity(config: Config, isolation: str = "") -> dict[str, Any]:
    """The conditions of a campaign that is begun now, as its store keeps them. `isolation` is that of the workers; "": the one of
    this machine."""
    return {
        "version": undermine.__version__,
        "fingerprint": config.fingerprint(),
        "significant": config.significant(),
        "isolation": isolation or choose(config.run.isolation).mode,
        "python": platform.python_version(),
        "config": config.path and os.path.abspath(config.path),  # a report may be written from another folder
        "name": config.campaign.name,
    }


def has_configuration(store: CampaignStore, config: Config) -> bool:
    """Was this campaign begun with this configuration?"""
    return (store.meta("identity") or {}).get("fingerprint") == config.fingerprint()


def changes_since(store: CampaignStore, config: Config) -> list[str]:
    """The first changes of the configuration since the campaign was begun."""
    before = (store.meta("identity") or {}).get("significant", {})
    return changes(before, config.significant())[:_REASONS_MAX]


def refuse_changes(store: CampaignStore, config: Config, isolation: str = "") -> None:
    """Raise a `UserError` if the campaign was begun under other conditions, or never. `isolation` is as for `identity`."""
    old = store.meta("identity")
    if old is None:
        raise UserError("this campaign was never started; run `undermine hunt` without --resume")
    reasons = changes(old["significant"], config.significant()) if old["fingerprint"] != config.fingerprint() else []
    if old["version"] != undermine.__version__:
        reasons.append(f"undermine was {old['version']} and is {undermine.__version__}")
    now = isolation or str(choose(config.run.isolation))
    if old.get("isolation", "ports") != now.partition(" ")[0]:
        reasons.append(f"nodes were isolated by {old.get('isolation', 'ports')} and now would be by {now}")
    if reasons:
        raise UserError(
            "the campaign cannot be resumed, since its conditions have changed: "
            + "; ".join(reasons[:_REASONS_MAX])
            + ". Undo these changes, start a new campaign without --resume, or add --accept-changes"
        )
