"""Everything the command line does, as functions: what `import undermine` offers to scripts.

Each function opens what it needs and leaves nothing behind. Nothing here prints.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import undermine
from undermine import plugins
from undermine.accelerator import why_slow
from undermine.analysis.points import Recurrence, operations_by_kind, recurrence
from undermine.campaign import Campaign, Limits
from undermine.config import Config, changes
from undermine.config_load import load
from undermine.deployments.isolation import choose
from undermine.deployments.machine import Ability, abilities
from undermine.deployments.sweep import sweep
from undermine.engine import Engine, open_engine
from undermine.experiments import Listener, News
from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.protocols import Chance, Strategy
from undermine.resources import example_dir
from undermine.rundir import RunDir
from undermine.store import CONFIRM, REPLAY, Coverage, Store

CAMPAIGNS = "campaigns"
LATEST = "latest"
_UNSTABLE_SHOWN = 8


def silent(_: News) -> None:
    """A listener that does not listen."""


# --- campaigns on disk


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


def _point_latest(config: Config, folder: Path) -> None:
    link = config.dir / LATEST
    temporary = config.dir / f".latest-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.relative_to(config.dir))
    temporary.replace(link)


def campaign_dir(config: Config, name: str = "") -> Path:
    """The named campaign's folder, or the latest one's."""
    folder = config.dir / CAMPAIGNS / name if name else config.dir / LATEST
    if not (folder / "campaign.db").exists():
        if name:
            raise UserError(
                f"there is no campaign {name!r} in {config.dir / CAMPAIGNS}; leave --campaign out for the latest"
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
def open_store(folder: Path, *, exclusive: bool = False, fresh: bool = False) -> Iterator[Store]:
    """The campaign's store; `exclusive` for whoever adds runs, `fresh` to forget what was there."""
    with contextlib.ExitStack() as stack:
        if exclusive:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
            if fresh:
                _empty(folder)
        store = Store(folder)
        stack.callback(store.close)
        yield store


def _empty(folder: Path) -> None:
    """Remove all but the lock, which we hold."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


@contextlib.contextmanager
def _open(
    config: Config, folder: Path, strategies: Sequence[str], listener: Listener, *, fresh: bool = False
) -> Iterator[tuple[Campaign, Store, Engine]]:
    sweep(config.dir)
    with open_store(folder, exclusive=True, fresh=fresh) as store, open_engine(config, folder) as engine:
        chosen = plugins.strategies(config, strategies)
        checkers = plugins.checkers(config, engine.userland.declared["checkers"])
        yield Campaign(engine, store, chosen, checkers, listener), store, engine


def _identity(config: Config) -> dict[str, Any]:
    return {
        "version": undermine.__version__,
        "fingerprint": config.fingerprint(),
        "significant": config.significant(),
        "isolation": choose(config.run.isolation).mode,
        "python": platform.python_version(),
        "config": config.path,
        "name": config.campaign.name,
    }


def _refuse_changes(store: Store, config: Config) -> None:
    old = store.meta("identity")
    if old is None:
        raise UserError("this campaign was never started; run `undermine hunt` without --resume")
    reasons = changes(old["significant"], config.significant()) if old["fingerprint"] != config.fingerprint() else []
    if old["version"] != undermine.__version__:
        reasons.append(f"undermine was {old['version']} and is {undermine.__version__}")
    if old.get("isolation", "ports") != (now := choose(config.run.isolation)).mode:
        reasons.append(f"nodes were kept apart by {old.get('isolation', 'ports')} and would be by {now}")
    if reasons:
        raise UserError(
            "the campaign cannot be resumed as it was: "
            + "; ".join(reasons[:5])
            + ". Undo that, start a new campaign without --resume, or say --accept-changes"
        )


# --- hunt


class HuntResult(msgspec.Struct, frozen=True):
    """What a session of hunting left in the store."""

    folder: str
    findings: tuple[Finding, ...]
    coverage: Coverage
    statuses: dict[str, int]
    duration_s: float

    @property
    def believed(self) -> tuple[Finding, ...]:
        """Findings that were reproduced, or that nobody tried to."""
        return tuple(f for f in self.findings if f.believed)


def hunt(
    config: Config | Path | str,
    *,
    strategies: Sequence[str] = (),
    budget_s: float | None = None,
    runs_max: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    resume: bool = False,
    accept_changes: bool = False,
    params: Mapping[str, str] | None = None,
    listener: Listener = silent,
) -> HuntResult:
    """The whole loop under a budget. With `resume`, the latest campaign goes on."""
    config = config if isinstance(config, Config) else load(Path(config), params or {})
    begun = time.monotonic()
    plugins.strategies(config, strategies)
    choose(config.run.isolation)  # before a folder is made for a campaign that could not run
    folder = campaign_dir(config) if resume else new_campaign_dir(config)
    if seed is None and resume:  # what --seed said when the campaign began
        with open_store(folder) as store:
            seed = (store.meta("identity") or {}).get("seed_said")
    if seed is not None:
        config = msgspec.structs.replace(config, hunt=msgspec.structs.replace(config.hunt, seed=seed))
    limits = Limits(
        budget_s=config.hunt.budget if budget_s is None else budget_s,
        runs_max=config.hunt.max_runs if runs_max is None else runs_max,
        jobs=jobs or config.hunt.jobs_for(os.cpu_count() or 1),
    )
    if resume:
        with open_store(folder) as store:
            if not accept_changes:
                _refuse_changes(store, config)
    with _open(config, folder, strategies, listener) as (campaign, store, _):
        store.set_meta("identity", {**_identity(config), "seed_said": seed})
        _point_latest(config, folder)
        campaign.run(limits)
        return HuntResult(
            str(folder), store.findings(), store.coverage(), store.status_counts(), time.monotonic() - begun
        )


# --- check


class AgentSeen(msgspec.Struct, frozen=True):
    """Which agent a node loaded, in how many processes, and what it saw."""

    node: str
    wanted: str
    loaded: str
    runtime: str
    processes: int
    operations: dict[str, int]
    why_slow: str = ""
    """Why not all of its processes had the agent's accelerator."""
    gaps: tuple[str, ...] = ()
    """What the agent does not see."""


class CheckResult(msgspec.Struct, frozen=True):
    """The preflight: what the machine allows and what of the cluster can be seen."""

    abilities: tuple[Ability, ...]
    agents: tuple[AgentSeen, ...]
    recurrence: Recurrence
    durations_s: tuple[float, ...]
    chances: int
    skipped: dict[str, int]
    problems: tuple[str, ...]
    isolation: str = ""
    """How nodes are kept apart, and why not in the other way."""
    unstable: tuple[str, ...] = ()
    """Some of the points that not every fault-free run showed."""

    @property
    def run_s(self) -> float:
        return sum(self.durations_s) / len(self.durations_s) if self.durations_s else 0.0

    @property
    def exhaustive_s(self) -> float:
        """What trying every fault at every point once would take, with one job."""
        return self.run_s * self.chances


def check(config: Config, listener: Listener = silent) -> CheckResult:
    """Start the cluster, run the workload three times without faults, say what is observable."""
    folder = config.dir / "check"
    config = msgspec.structs.replace(
        config, hunt=msgspec.structs.replace(config.hunt, baseline_runs=max(3, config.hunt.baseline_runs))
    )
    with _open(config, folder, (), listener, fresh=True) as (campaign, store, _):
        campaign.baseline()
        points, runs = store.baseline_points()
        all_chances = campaign.history_of(_NOBODY, 1).chances
        rows = store.run_rows()
        last = campaign.experiments.view(rows[-1]["run"])
        return CheckResult(
            abilities=tuple(abilities()),
            agents=tuple(_agents(config, last.trace.agents, last.trace.events)),
            recurrence=recurrence(points, runs),
            durations_s=tuple(row["timing"]["total_s"] for row in rows),
            chances=sum(not chance.skipped for chance in all_chances),
            skipped=_count_reasons(all_chances),
            problems=last.trace.problems,
            isolation=last.record.isolation,
            unstable=tuple(str(seen.point) for seen in points if seen.runs < runs)[:_UNSTABLE_SHOWN],
        )


class _Nobody:
    """A strategy that proposes nothing, to ask the campaign for a history."""

    name = "nobody"
    summary = ""

    def propose(self, history: Any) -> Sequence[Plan]:
        return ()


_NOBODY: Strategy = _Nobody()


def _agents(config: Config, agents: Sequence[Any], events: Sequence[Any]) -> Iterator[AgentSeen]:
    for node in config.node_ids:
        loaded = [agent for agent in agents if agent.node == node]
        yield AgentSeen(
            node=node,
            wanted=config.agent(config.role_of(node).name),
            loaded=", ".join(sorted({agent.agent for agent in loaded})) or "none",
            runtime=loaded[0].runtime if loaded else "",
            processes=len(loaded),
            operations=operations_by_kind(event for event in events if event.node == node),
            why_slow=next((why for agent in loaded if (why := why_slow(agent))), ""),
            gaps=loaded[0].gaps if loaded else (),
        )


def _count_reasons(all_chances: Sequence[Chance]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for chance in all_chances:
        if chance.skipped:
            reasons[chance.skipped] = reasons.get(chance.skipped, 0) + 1
    return reasons


# --- plan


class Predicted(msgspec.Struct, frozen=True):
    """What one strategy would do first."""

    strategy: str
    summary: str
    plans: tuple[Plan, ...]


class PlanResult(msgspec.Struct, frozen=True):
    """What would be injected, where and why; what is skipped and by which rule."""

    predicted: tuple[Predicted, ...]
    points: int
    chances: int
    skipped: dict[str, int]
    dropped: dict[str, int]


def plan(config: Config, strategies: Sequence[str] = (), count: int = 10, listener: Listener = silent) -> PlanResult:
    """Fault-free runs only, then what each strategy would propose first."""
    folder = config.dir / "plan"
    with _open(config, folder, strategies, listener, fresh=True) as (campaign, store, engine):
        campaign.baseline()
        predicted: list[Predicted] = []
        dropped: dict[str, int] = {}
        for strategy in plugins.strategies(config, strategies):
            plans = list(strategy.propose(campaign.history_of(strategy, count)))
            rules = engine.user_filters(plans)
            for rule in filter(None, rules):
                dropped[rule] = dropped.get(rule, 0) + 1
            kept = tuple(p for p, rule in zip(plans, rules, strict=True) if not rule)
            predicted.append(Predicted(strategy.name, strategy.summary, kept))
        all_chances = campaign.history_of(_NOBODY, 1).chances
        return PlanResult(
            predicted=tuple(predicted),
            points=len(store.baseline_points()[0]),
            chances=sum(not chance.skipped for chance in all_chances),
            skipped=_count_reasons(all_chances),
            dropped=dropped,
        )


# --- demo


def demo_config(home: Path) -> Path:
    """A copy of the embedded example in a folder of the user's, where results may be written."""
    source = example_dir("granary")
    home.mkdir(parents=True, exist_ok=True)
    for name in ("undermine.toml", "hunt.py"):
        shutil.copy2(source / name, home / name)
    shutil.rmtree(home / "granary", ignore_errors=True)
    shutil.copytree(source / "granary", home / "granary", ignore=shutil.ignore_patterns("__pycache__"))
    return home


# --- replay, recheck, clean


class ReplayResult(msgspec.Struct, frozen=True):
    """How often a finding came back."""

    finding: str
    plan: Plan
    tries: int
    fired: int
    hits: int
    symptoms: tuple[str, ...]


def find_finding(store: Store, finding: str) -> Finding:
    found = {f.id: f for f in store.findings()}
    if finding.upper() not in found:
        known = ", ".join(found) or "none"
        raise UserError(f"there is no finding {finding!r} in this campaign; there are: {known}")
    return found[finding.upper()]


def replay(
    config: Config, finding: str, times: int = 5, campaign: str = "", listener: Listener = silent
) -> ReplayResult:
    """Run one finding's plan again, alone, and count how often it fails."""
    folder = campaign_dir(config, campaign)
    with _open(config, folder, (), listener) as (running, store, _):
        found = find_finding(store, finding)
        # under another configuration it says nothing about the finding's own rate
        same = store.meta("identity", {}).get("fingerprint") == config.fingerprint()
        kind = CONFIRM if same else REPLAY
        slots = store.write_round(kind, [msgspec.structs.replace(found.plan, strategy=kind)] * times)
        judged = running.run_alone(slots)
        running.findings()
    fired = [j for j in judged if j.status == "fired"]
    hits = [j.symptom for j in fired if j.symptom]
    return ReplayResult(found.id, found.plan, times, len(fired), len(hits), tuple(dict.fromkeys(hits)))


def recheck(config: Config, campaign: str = "", listener: Listener = silent) -> tuple[int, tuple[Finding, ...]]:
    """Judge the stored runs anew, after a checker was edited."""
    folder = campaign_dir(config, campaign)
    with _open(config, folder, (), listener) as (running, store, _):
        changed = running.experiments.recheck()
        running.findings()
        return changed, store.findings()


def clean(config: Config, *, everything: bool = False) -> list[str]:
    """Remove what dead tools left; with `everything`, all campaigns too."""
    done = sweep(config.dir)
    if everything and config.dir.exists():
        latest = config.dir / LATEST
        if latest.is_symlink():
            latest.unlink()
        for folder in (*sorted((config.dir / CAMPAIGNS).glob("*")), config.dir / "check", config.dir / "plan"):
            if folder.is_dir():
                with locked(folder):
                    shutil.rmtree(folder)
                done.append(f"removed {folder}")
    return done


def log_files(config: Config, what: str, node: str = "", campaign: str = "") -> list[Path]:
    """The log files of a run (by number) or of a finding's first run (by id)."""
    folder = campaign_dir(config, campaign)
    with open_store(folder) as store:
        run = int(what) if what.isascii() and what.isdigit() else find_finding(store, what).runs[0]
    logs = RunDir(folder / "runs" / f"{run:06d}").logs
    if not logs.is_dir():
        raise UserError(f"there is no run {what} in {folder}; see `undermine report` for what there is")
    files = [path for path in sorted(logs.iterdir()) if not node or path.name.split(".")[0] == node]
    if node and not files:
        raise UserError(f"run {run} has no logs of {node!r}; nodes are {', '.join(config.node_ids)}")
    return [path for path in files if path.stat().st_size]


__all__ = [
    "CheckResult",
    "HuntResult",
    "PlanResult",
    "ReplayResult",
    "check",
    "clean",
    "hunt",
    "log_files",
    "plan",
    "recheck",
    "replay",
]
