"""`undermine check`: what the machine allows, what agents observe, and whether the checkers can fail. Injects no fault."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

from undermine import plugins
from undermine.analysis.agreement.suggestions import Suggestions
from undermine.analysis.contents import Contents
from undermine.analysis.points import Recurrence, operations_by_kind, recurrence
from undermine.api import speeds
from undermine.api.opening import build_agents, opened, silent
from undermine.api.planning import count_reasons, learnt_by
from undermine.api.speeds import SpeedCheck
from undermine.campaign.forecast import Forecast
from undermine.campaign.limits import Limits
from undermine.campaign.proving import Proof, Prover
from undermine.campaign.running import Listener
from undermine.campaign.variables import Unmatched, VariableSeen, values_at_end
from undermine.config.schema import Config
from undermine.deployments.machine import Ability, abilities
from undermine.model.baseline import Baseline
from undermine.model.errors import ClusterError
from undermine.model.event import AgentInfo, Event
from undermine.model.rounds import RoundKind
from undermine.model.run import RunView
from undermine.protocols import Counted
from undermine.runtimes.table import runtime_of

_BASELINE_RUNS_MIN = 3
_UNSTABLE_SHOWN = 8


class AgentSeen(msgspec.Struct, frozen=True):
    """The agent that a node loaded, the number of its processes, and the operations that the agent observed."""

    node: str
    wanted: str
    loaded: str
    runtime: str
    processes: int
    operations: dict[str, int]
    why_slow: str = ""
    """Why not all of its processes had the agent's accelerator, or its native helper in a JVM."""
    gaps: tuple[str, ...] = ()
    """Families of operations that the agent does not observe."""


class CheckResult(msgspec.Struct, frozen=True):
    """The result of the preflight: what the machine allows, and what agents observe of the cluster."""

    abilities: tuple[Ability, ...]
    agents: tuple[AgentSeen, ...]
    recurrence: Recurrence
    durations_s: tuple[float, ...]
    possible_faults: int
    skipped: dict[str, int]
    problems: tuple[str, ...]
    isolation: str = ""
    """How nodes are isolated from each other, and why not in the other way."""
    user: str = ""
    """The user that nodes run as; "" for the user of the tool."""
    unstable: tuple[str, ...] = ()
    """Some of the points that not every fault-free run showed. Points that differ only in their callers are one text."""
    baseline: Baseline = Baseline()
    """The baseline that was learnt from the fault-free runs."""
    notes: list[tuple[str, list[int]]] = []
    """Facts that checkers noted in the fault-free runs, such as an exit that a supervisor repaired, and the runs of each."""
    health: dict[str, str] = {}
    """By node that has a health question: its last answer; "" means healthy."""
    contents: Contents = Contents()
    """The operations whose content is part of their points, and those whose content isn't."""
    proofs: tuple[Proof, ...] = ()
    """For each checker, the proof that it can fail; empty without `prove`."""
    variables: tuple[VariableSeen, ...] = ()
    """The variables of each node at the end of the newest fault-free run."""
    unmatched: tuple[Unmatched, ...] = ()
    """The variables of the configuration that no node has."""
    forecast: Forecast = Forecast()
    """How many plans each strategy would reach in a hunt."""
    learnt: dict[str, tuple[str, ...]] = {}
    """By strategy: what it has learnt from the fault-free runs, the most important first."""
    suggestions: Suggestions | None = None
    """The variables that survey runs suggest; None without `suggest`."""

    speed: SpeedCheck | None = None
    """Whether the fault-free run is the same as at speed 1; None if `run.speed` is 1."""

    @property
    def unproved(self) -> tuple[str, ...]:
        """The checkers that never failed, so that nothing shows that they can."""
        return tuple(proof.checker for proof in self.proofs if not proof.proved)

    @property
    def run_s(self) -> float:
        return sum(self.durations_s) / len(self.durations_s) if self.durations_s else 0.0


def check(config: Config, listener: Listener = silent, *, prove: bool = False, suggest: bool = False) -> CheckResult:
    """Run the workload at least three times without faults and report what is observable; with `prove`, also which
    checkers can fail; with `suggest`, also which attributes of the target could be variables."""
    folder = config.dir / "check"
    runs = max(_BASELINE_RUNS_MIN, config.hunt.baseline_runs)
    config = msgspec.structs.replace(config, hunt=msgspec.structs.replace(config.hunt, baseline_runs=runs))
    chosen = plugins.strategies(config)
    build_agents(config, listener)
    slow = speeds.at_speed_1(config, chosen, listener) if config.run.speed != 1 else None
    with opened(config, folder, chosen, listener, fresh=True, survey=True) as (campaign, store, engine):
        campaign.refuse_unusable()
        try:
            campaign.baseline()
        except ClusterError as error:
            raise (speeds.too_fast(error, config.run.speed) if slow else error) from None
        usual = campaign.preparing.learn()
        points, runs = store.baseline_points()
        possible_faults = campaign.possible_faults()
        last = campaign.preparing.newest
        proofs: tuple[Proof, ...] = ()
        if prove:
            folder_of_last = campaign.plan_runner.folder(last.record.id)
            prover = Prover(engine, last, folder_of_last, campaign.plan_runner.checkers, listener)
            proofs = prover.prove(folder / "prove")
        durations = tuple(row["timing"]["total_s"] for row in store.run_rows() if row["kind"] is not RoundKind.SURVEY)
        fast = speeds.fault_free(config.run.speed, store, usual.failed_as)
        suggestions = campaign.surveying.run() if suggest else None
        forecast = campaign.forecast(
            {each.name: len(campaign.ask(each, 1).pruned.kept) for each in chosen if not isinstance(each, Counted)},
            Limits(config.hunt.budget, jobs=config.hunt.jobs_for(os.cpu_count() or 1)),
        )
        return CheckResult(
            abilities=tuple(abilities()),
            agents=tuple(_agents(config, last.trace.agents, last.trace.events)),
            recurrence=recurrence(points, runs),
            durations_s=durations,
            possible_faults=sum(not each.skipped for each in possible_faults),
            skipped=count_reasons(possible_faults),
            problems=last.trace.problems,
            isolation=last.record.isolation,
            user=engine.user,
            unstable=tuple(dict.fromkeys(str(seen.point) for seen in points if seen.runs < runs))[:_UNSTABLE_SHOWN],
            baseline=usual,
            notes=store.notes(),
            health=health_of(config, last),
            contents=campaign.preparing.contents,
            proofs=proofs,
            variables=tuple(values_at_end(engine.config, last)) if engine.config.metadata else (),
            unmatched=campaign.preparing.unmatched_variables(),
            suggestions=suggestions,
            forecast=forecast,
            learnt=learnt_by(chosen),
            speed=speeds.compare(config, slow, fast) if slow else None,
        )


def health_of(config: Config, run: RunView) -> dict[str, str]:
    """The last answer in a run of each node that has a health question; "" means healthy."""
    asked = {node: "" for node in config.node_ids if config.role_of(node).health}
    answers = {sample.node: sample.answer for sample in run.record.health if sample.node in asked}
    unready = {node: why for node, why in run.record.settling.unready.items() if node in asked}
    return {**asked, **answers, **unready}


def _agents(config: Config, agents: Sequence[AgentInfo], events: Sequence[Event]) -> Iterator[AgentSeen]:
    for node in config.node_ids:
        loaded = [agent for agent in agents if agent.node == node]
        yield AgentSeen(
            node=node,
            wanted=config.runtime(config.role_of(node).name).name,
            loaded=", ".join(sorted({agent.agent for agent in loaded})) or "none",
            runtime=loaded[0].runtime if loaded else "",
            processes=len(loaded),
            operations=operations_by_kind(event for event in events if event.node == node),
            why_slow=next((why for agent in loaded if (why := runtime_of(agent).why_slow(agent))), ""),
            gaps=loaded[0].gaps if loaded else (),
        )
