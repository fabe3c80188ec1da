"""Reads a stored campaign: its findings, bundles, plans, logs and suppressions. `undermine.api` exports these functions.

Never starts a run.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from pathlib import Path

from undermine import target_files
from undermine.checkers.compose import news_of
from undermine.config.schema import Config
from undermine.deployments.sweep import sweep
from undermine.exchange import bundle as bundles
from undermine.exchange import manifest, regression
from undermine.exchange import suppressions as suppression_file
from undermine.exchange.evidence import Seen
from undermine.findings.explaining import Explanation
from undermine.model.errors import UserError
from undermine.model.faults import Partition
from undermine.model.finding import Finding, landings
from undermine.report.explain.issue import issue as issue_of
from undermine.report.explain.story import explanations_of
from undermine.report.partitions import cuts_of, end_of
from undermine.store import stored_plans
from undermine.store.campaign_dirs import CAMPAIGNS, LATEST, SCRATCH, campaign_dir, find_finding, locked, open_store
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, load_record, load_view


def today() -> datetime.date:
    return datetime.date.today()


def bundle(
    config: Config, finding: str, output: Path | None = None, include: Sequence[str] = (), campaign: str = ""
) -> bundles.Written:
    """Write one finding, with everything that another machine needs to replay it, to one file."""
    folder = campaign_dir(config, campaign)
    with open_store(folder) as store:
        found = find_finding(store, finding)
        identity = store.meta("identity") or {}
        run = folder / "runs" / f"{shown_by(found):06d}"
        verdicts = store.verdicts(shown_by(found))
    try:
        view = load_view(RunDir(run))
        runtimes, landed = manifest.runtimes(view), landings(view.record)
    except UserError:
        runtimes, landed = {}, ()
    seen = Seen(found, run, verdicts, runtimes, landed)
    return bundles.write(config, identity, seen, output or Path(found.id + manifest.SUFFIX), include)


def regression_tests(
    config: Config, wanted: Sequence[str] = (), folder: Path = Path("tests"), times: int = 3, campaign: str = ""
) -> tuple[regression.Written, ...]:
    """Write a regression test for each of these findings, or for all reported ones. Tests that exist are left as they are."""
    place = campaign_dir(config, campaign)
    with open_store(place) as store:
        chosen = [find_finding(store, name) for name in wanted] or [each for each in findings(config, campaign) if each.believed]
        told = explanations(store, chosen)
        significant = (store.meta("identity") or {}).get("significant", {})
    params = {name: value for name, value in significant.get("params", {}).items() if config.params.get(name) != value}
    return tuple(
        regression.write(
            finding, Path(config.path), folder, times, manifest.param_texts(params), place.name, told[finding.id].sentence
        )
        for finding in chosen
    )


# --- findings and suppressions


def findings(config: Config, campaign: str = "", baseline: Path | None = None) -> tuple[Finding, ...]:
    """The campaign's findings, each with the suppression that applies today. Those of a baseline are suppressed too."""
    folder = campaign_dir(config, campaign)
    suppressed = suppression_file.matcher(config, today(), baseline)
    with open_store(folder) as store:
        with contextlib.suppress(UserError), locked(folder):  # if it is locked, the hunt writes them itself
            store.write_findings(suppression_file.mark(store.findings(), suppressed))
        return suppression_file.mark(store.findings(), suppressed)


def write_baseline(config: Config, path: Path, campaign: str = "") -> int:
    """Add the reported findings to a file of known ones, unless it has them; return their number."""
    name = campaign_dir(config, campaign).name
    suppression_file.create(path)
    found = [finding for finding in findings(config, campaign, path) if finding.believed or finding.undecided]
    for finding in found:
        suppression_file.add(path, suppression_file.new_known(finding, name, today()))
    return len(found)


def new_logs(store: CampaignStore, found: Sequence[Finding]) -> dict[str, tuple[str, ...]]:
    """By finding id: log lines of the run that shows the finding best, which no correct run has."""
    lines = {}
    for finding in found:
        if news := news_of(store.verdicts(shown_by(finding))):
            lines[finding.id] = news
    return lines


def partition_ends(store: CampaignStore, found: Sequence[Finding]) -> dict[str, str]:
    """By finding id: how the partitions of the run that shows the finding best ended. Other findings are left out."""
    ends = {}
    for finding in found:
        if any(isinstance(step.fault, Partition) for step in finding.plan.steps):
            with contextlib.suppress(UserError):  # its folder is gone
                record = load_record(RunDir(store.runs_dir / f"{shown_by(finding):06d}"))
                ends[finding.id] = "; ".join(end_of(record, cut) for cut in cuts_of(record))
    return {finding: text for finding, text in ends.items() if text}


def explanations(store: CampaignStore, found: Sequence[Finding]) -> dict[str, Explanation]:
    """By finding id: the finding in words."""
    return explanations_of(store, found)


def issue(config: Config, finding: str, campaign: str = "", options: str = "") -> str:
    """A bug report about one finding, in Markdown. `options` are the command-line options with which a later command finds it."""
    with open_store(campaign_dir(config, campaign)) as store:
        return issue_of(store, find_finding(store, finding), options)


def remarks(config: Config, found: Sequence[Finding]) -> dict[str, str]:
    """By finding id: how it was suppressed, if that suppression has ended."""
    ended = suppression_file.lapsed(config, today())
    return {finding.id: text for finding in found if (text := ended(finding))}


def suppress(
    config: Config,
    finding: str,
    reason: str,
    *,
    until: str = "",
    lasts_s: float | None = None,
    fault: str = "",
    campaign: str = "",
) -> suppression_file.Suppression:
    """Do not report this finding until a date (`until`, or "never") or for `lasts_s` seconds; 90 days by default."""
    with open_store(campaign_dir(config, campaign)) as store:
        found = find_finding(store, finding)
    entry = suppression_file.new_entry(found, reason, until, lasts_s, today(), fault)
    suppression_file.add(suppression_file.path_of(config), entry)
    findings(config, campaign)
    return entry


def suppressions(config: Config) -> tuple[suppression_file.Suppression, ...]:
    """The entries of `undermine-suppressions.toml`."""
    return suppression_file.read(suppression_file.path_of(config))


def unsuppress(config: Config, entry_id: str) -> suppression_file.Suppression:
    """Remove a suppression, so that its finding is reported again."""
    removed = suppression_file.remove(suppression_file.path_of(config), entry_id)
    with contextlib.suppress(UserError):  # there may be no campaign
        findings(config)
    return removed


# --- plans, logs and leftovers


def plans(
    config: Config, campaign: str = "", strategies: Sequence[str] = (), most: int = 10, *, every_dropped: bool = False
) -> stored_plans.StoredPlans:
    """The campaign's plans that are still to run, and the dropped ones with their policies and representatives. Works during a
    hunt too."""
    with contextlib.closing(CampaignStore(campaign_dir(config, campaign), read_only=True)) as store:
        return stored_plans.read(store, strategies, most, every_dropped=every_dropped)


def clean(config: Config, *, everything: bool = False) -> list[str]:
    """Remove processes and files that killed sessions left; with `everything`, all campaigns too. Return a line for each."""
    done = sweep(config.dir)
    if everything and config.dir.exists():
        latest = config.dir / LATEST
        if latest.is_symlink():
            latest.unlink()
        for folder in (*sorted((config.dir / CAMPAIGNS).glob("*")), *(config.dir / name for name in SCRATCH)):
            if folder.is_dir():
                with locked(folder):
                    target_files.remove(folder)
                done.append(f"could not remove all of {folder}" if folder.exists() else f"removed {folder}")
    return done


def shown_by(finding: Finding) -> int:
    """The run that shows the finding best."""
    return finding.shown_by or finding.runs[0]


def log_files(config: Config, what: str, node: str = "", campaign: str = "") -> list[Path]:
    """The log files of a run: by its number, or by the id of a finding, for the run that shows it best."""
    folder = campaign_dir(config, campaign)
    with open_store(folder) as store:
        run = int(what) if what.isascii() and what.isdigit() else shown_by(find_finding(store, what))
    logs = RunDir(folder / "runs" / f"{run:06d}").logs
    if not logs.is_dir():
        raise UserError(f"there is no run {what} in {folder}; `undermine report` lists the runs")
    files = [path for path in target_files.regular_files(logs) if not node or path.name.split(".")[0] == node]
    if node and not files:
        raise UserError(f"run {run} has no logs of {node!r}; nodes are {', '.join(config.node_ids)}")
    return [path for path in files if path.stat().st_size]
