"""Everything that the command line does, as functions for scripts.

Each function opens what it needs and leaves nothing behind. Never prints.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import undermine
from undermine import plugins
from undermine.analysis.coverage import Reached, Stage, coverage_of
from undermine.analysis.points import Recurrence, operations_by_kind, recurrence
from undermine.api import tracing
from undermine.api.stored import (
    bundle,
    clean,
    findings,
    log_files,
    new_logs,
    plans,
    remarks,
    suppress,
    suppressions,
    today,
    unsuppress,
)
from undermine.api.tracing import TraceResult, trace_stored
from undermine.campaign.experiments import Listener, News
from undermine.campaign.loop import Campaign, Limits
from undermine.campaign.proving import Proof, Prover
from undermine.campaign.replaying import Replaying, ReplayResult, Wanted
from undermine.config.load import load
from undermine.config.schema import Config, changes
from undermine.deployments.isolation import choose
from undermine.deployments.machine import Ability, abilities
from undermine.deployments.sweep import sweep
from undermine.exchange import suppressions as suppression_file
from undermine.exchange.manifest import differences, other_runtimes, param_texts, runtimes
from undermine.exchange.plan_file import read as read_plans
from undermine.exchange.unpacking import Unpacked, read_manifest, unpack
from undermine.model.baseline import Baseline
from undermine.model.errors import UserError
from undermine.model.event import AgentInfo
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.model.run import RunView
from undermine.policies.pruning import Explanation, explain
from undermine.protocols import Chance, Strategy
from undermine.resources import example_dir
from undermine.run.engine import Engine, open_engine
from undermine.runtimes import jvm
from undermine.runtimes.accelerator import why_slow
from undermine.store.campaign_dirs import (
    REPLAYS,
    campaign_dir,
    find_finding,
    new_campaign_dir,
    open_store,
    point_latest,
)
from undermine.store.database import Store

_UNSTABLE_SHOWN = 8
_EXAMPLES = 3


def silent(_: News) -> None:
    """A listener that does not listen."""


# --- opening a campaign


@contextlib.contextmanager
def _open(
    config: Config,
    folder: Path,
    strategies: Sequence[str],
    listener: Listener,
    *,
    fresh: bool = False,
    runs: bool = True,
) -> Iterator[tuple[Campaign, Store, Engine]]:
    """With `runs`, nodes will be started."""
    if runs:
        _build_agents(config, listener)
    sweep(config.dir)
    with open_store(folder, exclusive=True, fresh=fresh) as store, open_engine(config, folder) as engine:
        chosen = plugins.strategies(config, strategies)
        checkers = plugins.checkers(config, engine.userland.declared["checkers"])
        suppressed = suppression_file.matcher(config, today())
        yield Campaign(engine, store, chosen, checkers, listener, suppressed), store, engine


def _build_agents(config: Config, listener: Listener) -> None:
    """What takes long is done before the first run, and told."""
    if any(config.agent(role) == "jvm" for role in config.roles):
        jvm.agent_jar(lambda text: listener(News("building", text)))


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
    coverage: Reached
    statuses: dict[str, int]
    duration_s: float
    remarks: dict[str, str] = {}
    """By a finding's id: how it was suppressed, if that is over."""
    new_logs: dict[str, tuple[str, ...]] = {}
    """By a finding's id: what nodes wrote then and in no correct run."""
    growth: tuple[Stage, ...] = ()
    """How coverage grew: a stage for each experiment that brought something new."""

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
    chosen = plugins.strategies(config, strategies)
    choose(config.run.isolation)  # before a folder is made for a campaign that could not run
    suppression_file.matcher(config, today())
    _build_agents(config, listener)
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
        campaign.proposing.refuse_unknown(chosen)  # before it is the latest
        store.set_meta("identity", {**_identity(config), "seed_said": seed})
        point_latest(config, folder)
        campaign.run(limits)
        found = store.findings()
        spent_s = time.monotonic() - begun
        said = remarks(config, found), new_logs(store, found)
        counted = campaign.experiments.coverage or coverage_of(store)
        reached, grown = counted.reached, counted.growth
        return HuntResult(str(folder), found, reached, store.status_counts(), spent_s, *said, grown)


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
    """Why not all of its processes had the agent's accelerator, or its native helper in a JVM."""
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
    baseline: Baseline = Baseline()
    """What the fault-free runs were like."""
    health: dict[str, str] = {}
    """What each node that can be asked said of itself: "" is healthy."""
    proofs: tuple[Proof, ...] = ()
    """For each checker what shows that it can fail; empty if nobody asked."""

    @property
    def unproved(self) -> tuple[str, ...]:
        """Checkers that could not be shown to fail."""
        return tuple(proof.checker for proof in self.proofs if not proof.proved)

    @property
    def run_s(self) -> float:
        return sum(self.durations_s) / len(self.durations_s) if self.durations_s else 0.0

    @property
    def exhaustive_s(self) -> float:
        """What trying every fault at every point once would take, with one job."""
        return self.run_s * self.chances


def check(config: Config, listener: Listener = silent, *, prove: bool = False) -> CheckResult:
    """Start the cluster, run the workload three times without faults, say what is observable; on demand, what the
    checkers can see."""
    folder = config.dir / "check"
    config = msgspec.structs.replace(
        config, hunt=msgspec.structs.replace(config.hunt, baseline_runs=max(3, config.hunt.baseline_runs))
    )
    with _open(config, folder, (), listener, fresh=True) as (campaign, store, engine):
        campaign.proposing.refuse_unknown(plugins.strategies(config))
        campaign.baseline()
        usual = campaign.preparing.learn()
        points, runs = store.baseline_points()
        all_chances = campaign.history_of(_NOBODY, 1).chances
        rows = store.run_rows()
        last = campaign.preparing.newest
        proofs: tuple[Proof, ...] = ()
        if prove:
            folder_of_last = campaign.experiments.folder(last.record.id)
            prover = Prover(engine, last, folder_of_last, campaign.experiments.checkers, listener)
            proofs = prover.prove(folder / "prove")
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
            baseline=usual,
            health=_health(config, last),
            proofs=proofs,
        )


def _health(config: Config, run: RunView) -> dict[str, str]:
    """What the nodes that can be asked said last in a run."""
    asked = {node: "" for node in config.node_ids if config.role_of(node).health}
    said = {sample.node: sample.answer for sample in run.record.health if sample.node in asked}
    unready = {node: why for node, why in run.record.settling.unready.items() if node in asked}
    return {**asked, **said, **unready}


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
            why_slow=next((why for agent in loaded if (why := _why_slow(agent))), ""),
            gaps=loaded[0].gaps if loaded else (),
        )


def _why_slow(agent: AgentInfo) -> str:
    return jvm.why_no_helper(agent) if agent.is_jvm else why_slow(agent)


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
    kept: int = 0
    """How many there are in all, of which `plans` are the first."""
    dropped: tuple[Explanation, ...] = ()
    """What policies drop: for each of them how many, and some or all of them with what stands for it."""


class PlanResult(msgspec.Struct, frozen=True):
    """What would be injected, where and why; what is skipped and by which rule."""

    predicted: tuple[Predicted, ...]
    points: int
    chances: int
    skipped: dict[str, int]
    dropped: dict[str, int]


def plan(
    config: Config,
    strategies: Sequence[str] = (),
    count: int = 10,
    listener: Listener = silent,
    *,
    every_dropped: bool = False,
) -> PlanResult:
    """Fault-free runs only, then what each strategy would propose first; of what policies drop a few, or each one."""
    folder = config.dir / "plan"
    chosen = plugins.strategies(config, strategies)
    with _open(config, folder, strategies, listener, fresh=True) as (campaign, store, _):
        campaign.proposing.refuse_unknown(chosen)
        campaign.baseline()
        predicted: list[Predicted] = []
        dropped: dict[str, int] = {}
        for strategy in chosen:
            made = campaign.ask(strategy, count)
            for rule, number in made.counts.items():
                dropped[rule] = dropped.get(rule, 0) + number
            told = explain(made, sys.maxsize if every_dropped else _EXAMPLES)
            predicted.append(Predicted(strategy.name, strategy.summary, made.kept[:count], len(made.kept), told))
        all_chances = campaign.history_of(_NOBODY, 1).chances
        return PlanResult(
            predicted=tuple(predicted),
            points=len(store.baseline_points()[0]),
            chances=sum(not chance.skipped for chance in all_chances),
            skipped=_count_reasons(all_chances),
            dropped=dropped,
        )


# --- trace


def trace(config: Config, listener: Listener, out: Path | None = None) -> TraceResult:
    """Record a fault-free run, judge it and draw it; one that failed has a symptom, and is drawn all the same."""
    return tracing.trace(config, listener, out, plugins.checkers)


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


# --- replay


def replay(
    config: Config,
    finding: str,
    times: int = 5,
    campaign: str = "",
    listener: Listener = silent,
    *,
    control: bool = True,
    variants: bool = False,
) -> ReplayResult:
    """Run one finding's plan again, alone, with the fault and without; count how often it fails."""
    folder = campaign_dir(config, campaign)
    with open_store(folder) as store:
        found = find_finding(store, finding)  # before anything is started for it
    with _open(config, folder, (), listener) as (running, store, _):
        # under another configuration it says nothing about the finding's own rate
        same = _is_of(store, config)
        result = Replaying(running, store, Wanted(times, control, variants), same=same).finding(found)
        running.findings()
        before = (store.meta("identity") or {}).get("significant", {})
    warnings = () if same else tuple(changes(before, config.significant())[:5])
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
    """Run plans of the user's own, one after the other. The runs go to the latest campaign if it has this configuration,
    else to a folder of their own."""
    folder = _campaign_of(config, campaign)
    with _open_for_plans(config, folder, listener) as (running, store):
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
    """Run the finding in a bundle. This runs the commands and the plug-in file that are in it; with a `config` only its plans
    are taken, and nothing is unpacked."""
    if config is None:
        unpacked = unpack(path, folder or Path(f"{path.name}.d"))
        manifest, config = unpacked.manifest, _load_bundled(unpacked, params or {})
    else:
        manifest = read_manifest(path)
    warnings = differences(manifest, choose(config.run.isolation).mode)
    with _open_for_plans(config, None, listener) as (running, store):
        warnings += other_runtimes(manifest, runtimes(running.preparing.newest))
        for text in warnings:
            listener(News("warning", text))
        replaying = Replaying(running, store, Wanted(times, control, variants), same=False)
        result = replaying.foreign(manifest.finding, manifest.landed)
    return msgspec.structs.replace(result, warnings=tuple(warnings))


def _load_bundled(unpacked: Unpacked, params: Mapping[str, str]) -> Config:
    try:
        return load(unpacked.config, {**param_texts(unpacked.manifest), **params})
    except UserError as error:
        raise UserError(f"the bundle cannot run here: {error}") from error


def _is_of(store: Store, config: Config) -> bool:
    """Did this campaign begin with this configuration?"""
    return (store.meta("identity") or {}).get("fingerprint") == config.fingerprint()


def _campaign_of(config: Config, name: str) -> Path | None:
    """The campaign that knows what is normal under this configuration, if there is one."""
    if name:
        return campaign_dir(config, name)
    try:
        folder = campaign_dir(config)
    except UserError:
        return None
    with open_store(folder) as store:
        return folder if _is_of(store, config) else None


@contextlib.contextmanager
def _open_for_plans(config: Config, folder: Path | None, listener: Listener) -> Iterator[tuple[Campaign, Store]]:
    """A campaign that has seen at least one fault-free run; without a folder, one that begins anew."""
    hunt = msgspec.structs.replace(config.hunt, baseline_runs=1, benign_runs=0)
    config = msgspec.structs.replace(config, hunt=hunt)
    with _open(config, folder or config.dir / REPLAYS, (), listener, fresh=folder is None) as (running, store, _):
        if folder:
            running.baseline()
        else:
            running.preparing.run()
        yield running, store


# --- recheck


def recheck(config: Config, campaign: str = "", listener: Listener = silent) -> tuple[int, tuple[Finding, ...]]:
    """Judge the stored runs anew, after a checker was edited."""
    folder = campaign_dir(config, campaign)
    with _open(config, folder, (), listener, runs=False) as (running, store, _):
        changed = running.experiments.recheck()
        running.findings()
        return changed, store.findings()


__all__ = [
    "CheckResult",
    "HuntResult",
    "PlanResult",
    "ReplayResult",
    "TraceResult",
    "bundle",
    "campaign_dir",
    "check",
    "clean",
    "coverage_of",
    "findings",
    "hunt",
    "log_files",
    "new_logs",
    "open_store",
    "plan",
    "plans",
    "read_plans",
    "recheck",
    "remarks",
    "replay",
    "replay_bundle",
    "replay_plans",
    "suppress",
    "suppressions",
    "today",
    "trace",
    "trace_stored",
    "unsuppress",
]
