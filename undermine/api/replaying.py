"""`undermine replay` runs plans of findings, bundles and the user again; `recheck` judges stored runs again. Never prints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from undermine import plugins
from undermine.api.opening import build_agents, changes_since, has_configuration, opened, silent
from undermine.campaign.loop import Campaign
from undermine.campaign.replaying import Replaying, ReplayResult, Wanted
from undermine.campaign.running import Listener, Notice
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.deployments.isolation import choose
from undermine.exchange.manifest import differences, other_runtimes, param_texts, runtimes
from undermine.exchange.unpacking import Unpacked, read_manifest, unpack
from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.store.campaign_dirs import REPLAYS, campaign_dir, find_finding, open_store
from undermine.store.database import CampaignStore


def replay(
    config: Config,
    finding: str,
    times: int = 5,
    campaign: str = "",
    listener: Listener = silent,
    *,
    control: bool = True,
    variants: bool = False,
    smallest: bool = False,
) -> ReplayResult:
    """Run one finding's plan again, with the fault and without it; count how often it fails. `smallest`: its smallest plan."""
    folder = campaign_dir(config, campaign)
    with open_store(folder) as store:
        found = find_finding(store, finding)  # raises before a process is started
    if smallest and found.smallest is None:
        raise UserError(f"{found.id} has no smaller plan; leave out --smallest")
    chosen = plugins.strategies(config)
    build_agents(config, listener)
    with opened(config, folder, chosen, listener) as (running, store, _):
        # runs under another configuration do not count for the finding's rate
        same = has_configuration(store, config)
        if smallest and found.smallest:
            result = Replaying(running, store, Wanted(times, control), same=False).plan(found.smallest, (), found.id)
        else:
            result = Replaying(running, store, Wanted(times, control, variants), same=same).finding(found)
        running.findings()
        warnings = () if same else tuple(changes_since(store, config))
    return msgspec.structs.replace(result, warnings=warnings)


def replay_plans(
    config: Config,
    plans: Sequence[Plan],
    times: int = 1,
    campaign: str = "",
    listener: Listener = silent,
    *,
    control: bool = True,
) -> tuple[ReplayResult, ...]:
    """Run the user's own plans, one after the other. Their runs are stored in the named campaign, or in the latest one if it has
    this configuration; otherwise in a folder of their own."""
    folder = _campaign_with(config, campaign)
    with _opened_for_plans(config, folder, listener) as (running, store):
        replaying = Replaying(running, store, Wanted(times, control), same=False)
        return tuple(replaying.plan(plan) for plan in plans)


def replay_bundle(
    path: Path,
    config: Config | None = None,
    times: int = 5,
    listener: Listener = silent,
    *,
    folder: Path | None = None,
    params: Mapping[str, str] | None = None,
    control: bool = True,
    variants: bool = False,
) -> ReplayResult:
    """Run the plan of the finding in a bundle. This runs the bundle's commands and plug-in file. With a `config`, only the
    bundle's plans are used, and nothing is unpacked."""
    if config is None:
        unpacked = unpack(path, folder or Path(f"{path.name}.d"))
        manifest, config = unpacked.manifest, _load_bundled(unpacked, params or {})
        if {name: role.command for name, role in config.roles.items()} != manifest.commands:
            raise UserError(f"{path} was changed: its configuration has other commands than it shows")
    else:
        manifest = read_manifest(path)
    warnings = differences(manifest, choose(config.run.isolation).mode)
    with _opened_for_plans(config, None, listener) as (running, store):
        warnings += other_runtimes(manifest, runtimes(running.preparing.newest))
        for text in warnings:
            listener(Notice("warning", text))
        replaying = Replaying(running, store, Wanted(times, control, variants), same=False)
        result = replaying.foreign(manifest.finding, manifest.landed)
    return msgspec.structs.replace(result, warnings=tuple(warnings))


def recheck(config: Config, campaign: str = "", listener: Listener = silent) -> tuple[int, tuple[Finding, ...]]:
    """Judge the stored runs again, after a checker was edited; return how many runs have other verdicts, and all findings."""
    folder = campaign_dir(config, campaign)
    with opened(config, folder, plugins.strategies(config), listener) as (running, store, _):
        changed = running.plan_runner.recheck()
        running.findings()
        return changed, store.findings()


def _load_bundled(unpacked: Unpacked, params: Mapping[str, str]) -> Config:
    try:
        return load(unpacked.config, {**param_texts(unpacked.manifest.params), **params})
    except UserError as error:
        raise UserError(f"the bundle cannot run here: {error}") from error


def _campaign_with(config: Config, name: str) -> Path | None:
    """The named campaign, or the latest one if it was begun with this configuration."""
    if name:
        return campaign_dir(config, name)
    try:
        folder = campaign_dir(config)
    except UserError:
        return None
    with open_store(folder) as store:
        return folder if has_configuration(store, config) else None


@contextlib.contextmanager
def _opened_for_plans(config: Config, folder: Path | None, listener: Listener) -> Iterator[tuple[Campaign, CampaignStore]]:
    """A campaign that has at least one fault-free run; without a folder, a fresh one."""
    hunt = msgspec.structs.replace(config.hunt, baseline_runs=1, benign_runs=0)
    config = msgspec.structs.replace(config, hunt=hunt)
    chosen = plugins.strategies(config)
    build_agents(config, listener)
    with opened(config, folder or config.dir / REPLAYS, chosen, listener, fresh=folder is None) as (running, store, _):
        if folder:
            running.baseline()
        else:
            running.preparing.run()
        yield running, store
