"""Makes fault-free runs in which agents look for variables, and ranks what they found. Nothing else is learnt from these runs."""

from __future__ import annotations

from collections.abc import Iterator

from undermine.analysis.agreement.attributes import SurveyRun
from undermine.analysis.agreement.suggestions import Suggestions, suggest
from undermine.analysis.pipeline import analyse
from undermine.campaign.running import PlanRunner
from undermine.config.schema import Config, Variable
from undermine.model.errors import ClusterError
from undermine.model.plan import Plan
from undermine.model.rounds import RoundKind
from undermine.store.database import CampaignStore

CHOSEN_MAX = 5
"""How many variables a campaign chooses for itself."""
RUNS = 2
"""The number of survey runs: a state of two nodes is of use only if it recurs."""


class Surveying:
    """The survey runs of one campaign. Runs that an earlier session has finished are not repeated."""

    def __init__(self, config: Config, store: CampaignStore, plan_runner: PlanRunner) -> None:
        self._config = config
        self._store = store
        self._plan_runner = plan_runner

    def run(self) -> Suggestions:
        """Make the runs that are missing; return the variables that they suggest, the best first."""
        waiting = self._store.open_slots(kind=RoundKind.SURVEY)
        missing = RUNS - len(waiting) - len(self._store.past_runs(kind=RoundKind.SURVEY))
        plan = Plan(seed=self._config.hunt.seed, strategy=RoundKind.SURVEY.value, why="shows which attributes could be variables")
        for slot in (*waiting, *(self._store.write_round_of(RoundKind.SURVEY, [plan])[0] for _ in range(missing))):
            self._plan_runner.run_alone([slot])
        if not self._passed():
            raise ClusterError("no survey run passed, so no variables can be suggested; name some in [variables]")
        return suggest(self._traces(), self._roles(), self._identifiers(), self._config.metadata)

    def choose(self) -> dict[str, Variable]:
        """Make the runs and choose the best variables."""
        found = self.run()
        chosen = {one.name: Variable(one.path, one.metadata) for one in found.best[:CHOSEN_MAX]}
        for one in found.best[:CHOSEN_MAX]:
            self._plan_runner.tell("remark", f"variables: uses {one.name} = {one.path}: {one.why}")
        if not chosen:
            self._plan_runner.tell("warning", f"no variables found among {found.paths:,} attributes; name some in [variables]")
        return chosen

    def _traces(self) -> Iterator[SurveyRun]:
        for run in self._passed():
            yield SurveyRun(analyse(self._plan_runner.columns(run)), *self._plan_runner.served(run))

    def _passed(self) -> list[int]:
        past = [run for run in self._store.past_runs(kind=RoundKind.SURVEY) if run.status == "fired"]
        return [run.id for run in past if all(verdict.answer != "fail" for verdict in self._store.verdicts(run.id))]

    def _roles(self) -> dict[str, str]:
        """The role of each node that has an agent."""
        roles = [role for role in self._config.roles.values() if self._config.runtime(role.name).has_agent]
        return {node: role.name for role in roles for node in role.nodes}

    def _identifiers(self) -> set[str]:
        """The texts that name nodes: their ids, hosts and addresses."""
        found: set[str] = set()
        for run in self._passed():
            for node in self._plan_runner.view(run).record.nodes:
                found |= {node.id, node.host, *(f"{node.host}:{port}" for port in node.ports.values())}
        return found
