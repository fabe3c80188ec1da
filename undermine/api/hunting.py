"""`undermine hunt`: runs the whole loop under a budget, in a new campaign or in the latest one. Never prints."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from undermine import plugins
from undermine.analysis.coverage import CoverageSample, Reached, coverage_of
from undermine.api import changes
from undermine.api.opening import build_agents, identity, opened, refuse_changes, silent
from undermine.api.stored import explanations, new_logs, partition_ends, remarks, today
from undermine.campaign.limits import Limits
from undermine.campaign.running import Listener, Notice
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.deployments.isolation import choose
from undermine.exchange import suppressions
from undermine.findings.explaining import Explanation
from undermine.model.finding import Finding
from undermine.protocols import Strategy
from undermine.store.campaign_dirs import campaign_dir, new_campaign_dir, open_store, point_latest

BATCH = 64
"""The number of plans that a strategy is asked for at a time on a cluster, whatever the number of its workers."""


class HuntResult(msgspec.Struct, frozen=True):
    """The content of the campaign store after a session."""

    folder: str
    findings: tuple[Finding, ...]
    coverage: Reached
    statuses: dict[str, int]
    duration_s: float
    remarks: dict[str, str] = {}
    """By a finding's id: how it was suppressed, if that suppression has ended."""
    new_logs: dict[str, tuple[str, ...]] = {}
    """By a finding's id: log lines of the run that shows it best, which no correct run has."""
    partition_ends: dict[str, str] = {}
    """By a finding's id: how the partitions of the run that shows it best ended."""
    explanations: dict[str, Explanation] = {}
    """By a finding's id: the finding in words."""
    covered: dict[str, int] = {}
    """By strategy: the number of its plans that other runs had already tried."""
    notes: list[tuple[str, list[int]]] = []
    """Facts that checkers noted in runs that passed, such as an exit that a supervisor repaired, and the runs of each."""
    growth: tuple[CoverageSample, ...] = ()
    """How coverage grew: an entry for each experiment that increased it."""

    @property
    def believed(self) -> tuple[Finding, ...]:
        """The findings that are reported: reproduced or not yet re-run, realistic, and not suppressed."""
        return tuple(f for f in self.findings if f.believed)


def hunt(
    config: Config | Path | str,
    *,
    strategies: Sequence[str | Strategy] = (),
    budget_s: float | None = None,
    runs_max: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    scheduler: str = "",
    resume: bool = False,
    accept_changes: bool = False,
    baseline: Path | str | None = None,
    changed_since: str = "",
    params: Mapping[str, str] | None = None,
    listener: Listener = silent,
) -> HuntResult:
    """Run the whole loop under a budget. With `resume`, continue the latest campaign.

    `strategies` has names of strategies, or strategy objects of the calling script. Findings in the file `baseline` are known:
    they are suppressed. With `changed_since`, faults in functions that changed since that git commit are tried first.

    With a `scheduler` (its address, or its scheduler file), plans run on the workers of a Dask cluster. Then `jobs` is the most
    runs that each worker has at a time.
    """
    config = config if isinstance(config, Config) else load(Path(config), params or {})
    begun = time.monotonic()
    chosen = plugins.strategies(config, strategies)
    if not scheduler:
        choose(config.run.isolation)  # raises before a folder is created for a campaign that cannot run
    known = Path(baseline) if baseline else None
    suppressions.matcher(config, today(), known)  # raises before a process is started
    changed = changes.changed_since(config, changed_since) if changed_since else None
    if not scheduler:
        build_agents(config, listener)
    folder = campaign_dir(config) if resume else new_campaign_dir(config)
    seed = _first_seed(folder) if seed is None and resume else seed
    if seed is not None:
        config = msgspec.structs.replace(config, hunt=msgspec.structs.replace(config.hunt, seed=seed))
    if resume and not accept_changes and not scheduler:
        with open_store(folder) as store:
            refuse_changes(store, config)
    limits = Limits(
        budget_s=config.hunt.budget if budget_s is None else budget_s,
        runs_max=config.hunt.max_runs if runs_max is None else runs_max,
        jobs=jobs or config.hunt.jobs_for(os.cpu_count() or 1),
        batch=config.hunt.batch or (BATCH if scheduler else 0),
    )
    session = opened(
        config, folder, chosen, listener, survey=True, baseline=known, changed=changed,
        scheduler=scheduler, jobs=jobs or config.hunt.jobs,
    )  # fmt: skip
    with session as (campaign, store, engine):
        if resume and not accept_changes:  # what the workers are is known only now
            refuse_changes(store, config, engine.isolation)
        campaign.refuse_unusable()  # raises before it becomes the latest campaign
        store.set_meta("identity", {**identity(config, engine.isolation), "seed_said": seed})
        point_latest(config, folder)
        listener(Notice("campaign", f"campaign {folder.name}", {"folder": str(folder)}))
        campaign.run(limits)
        found = store.findings()
        coverage = campaign.plan_runner.coverage or coverage_of(store)
        return HuntResult(
            folder=str(folder),
            findings=found,
            coverage=coverage.reached,
            statuses=store.status_counts(),
            duration_s=time.monotonic() - begun,
            remarks=remarks(config, found),
            new_logs=new_logs(store, found),
            partition_ends=partition_ends(store, found),
            explanations=explanations(store, found),
            covered=store.covered(),
            notes=store.notes(),
            growth=coverage.growth,
        )


def _first_seed(folder: Path) -> int | None:
    """The value of --seed when the campaign was begun."""
    with open_store(folder) as store:
        seed: int | None = (store.meta("identity") or {}).get("seed_said")
        return seed
