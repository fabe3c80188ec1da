"""Shows which checkers can fail: in real runs that the tool sabotages, then in altered copies of a passing run.

The story of `prove`:

1. Make three runs without a plan that the tool sabotages: it kills a node for good, freezes all nodes for good, or removes all
   data before the final reads.
2. Judge copies of a passing run with a defect in the history, the record or the logs (`findings/planting.py`), until every
   checker has failed once or all copies are used.
3. Report for each checker the first plant that it failed on, or that it never failed.

A checker that never fails here may be unable to fail; then its passes mean nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from undermine.campaign.running import Listener, Notice
from undermine.checkers.compose import check_all
from undermine.findings.planting import plants
from undermine.model.plan import Plan
from undermine.model.run import Conditions, RunView, Sabotage, Verdict
from undermine.protocols import Checker
from undermine.run.engine import Engine
from undermine.store.rundir import RunDir, write_altered

PROVE = "prove"
SABOTAGES: dict[Sabotage, str] = {
    "dead-node": "a node is killed and stays dead",
    "hang": "all nodes freeze for good",
    "lost-write": "all nodes lose their data",
}
_TEXT_MAX = 200

Trial = tuple[str, bool, Sequence[Verdict]]
"""The planted defect, whether it was in a real run, and the verdicts."""


class Proof(msgspec.Struct, frozen=True):
    """The plant that a checker failed on, and the text of its verdict; without a plant, it never failed."""

    checker: str
    plant: str = ""
    text: str = ""
    real: bool = False
    """True for a real run of the cluster, false for an altered copy of one."""

    @property
    def proved(self) -> bool:
        return bool(self.plant)


class Prover:
    """Plants defects and notes which checkers fail."""

    def __init__(
        self, engine: Engine, base: RunView, base_folder: Path, checkers: Sequence[Checker], listener: Listener
    ) -> None:
        self._engine = engine
        self._base = base
        self._base_folder = base_folder
        self._checkers = list(checkers)
        self._listen = listener
        self._run = base.record.id

    def prove(self, scratch: Path) -> tuple[Proof, ...]:
        """Do all three steps, then remove the scratch folder."""
        tally = Tally([*(checker.name for checker in self._checkers), *self._engine.user_checkers])
        try:
            usual = self._judge(self._base, self._base_folder)
            tally.expect(usual)
            for trial in self._sabotaged(scratch):
                tally.take(*trial)
            self._planted(scratch / "plant", tally)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return tally.proofs()

    def _judge(self, view: RunView, folder: Path) -> Sequence[Verdict]:
        return check_all(view, self._checkers, lambda: self._engine.user_checks(folder))

    # --- real runs

    def _sabotaged(self, scratch: Path) -> Iterator[Trial]:
        plan = Plan(seed=self._base.plan.seed, strategy=PROVE, why="a defect that every checker should be able to see")
        for sabotage, words in SABOTAGES.items():
            self._run += 1
            folder = scratch / sabotage
            self._tell("run", words)
            conditions = Conditions(sabotage=sabotage, speed=self._base.speed)
            view = self._engine.runner.execute(folder, self._run, plan, None, conditions)
            verdicts = self._judge(view, folder)
            shutil.rmtree(folder, ignore_errors=True)
            record = view.record
            noticed = _failing(verdicts)
            result = f"noticed by {', '.join(noticed)}" if noticed else record.reason or "noticed by no checker"
            self._tell("done", f"{words}: {result}", status=record.status, symptom="")
            yield words, True, verdicts

    # --- altered copies

    def _planted(self, folder: Path, tally: Tally) -> None:
        self._run += 1
        made = plants(self._base, self._base.plan.seed, stages=self._engine.stages)
        self._tell("run", "altered copies of a passing run")
        used = 0
        for plant in made:
            if not tally.open():
                break
            used += 1
            write_altered(RunDir(folder), RunDir(self._base_folder), plant.record, plant.history, plant.logs)
            tally.take(plant.text, False, self._judge(plant.view(self._base), folder))
        self._tell("done", f"{used} altered copies of a passing run", status="fired", symptom="")

    def _tell(self, kind: str, text: str, **data: str) -> None:
        self._listen(Notice(kind, text, {"run": self._run, "strategy": PROVE, **data}))


def _failing(verdicts: Sequence[Verdict]) -> list[str]:
    return [verdict.checker for verdict in verdicts if verdict.answer == "fail"]


class Tally:
    """The first plant that each checker failed on. Pure."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(dict.fromkeys(names))
        self._usual: dict[str, Verdict] = {}
        self._proofs: dict[str, Proof] = {}
        self._unknown: dict[str, str] = {}
        self._answered: set[str] = set()
        self._plants = 0

    def expect(self, verdicts: Sequence[Verdict]) -> None:
        """Add the verdicts on the run without a defect. A checker that fails there cannot be proved."""
        self._usual = {verdict.checker: verdict for verdict in verdicts}
        self._see(verdicts)

    def _see(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            if verdict.answer == "unknown":
                self._unknown.setdefault(verdict.checker, verdict.text)
            else:
                self._answered.add(verdict.checker)

    def take(self, plant: str, real: bool, verdicts: Sequence[Verdict]) -> None:
        """Add the verdicts on a plant."""
        self._plants += 1
        self._see(verdicts)
        for verdict in verdicts:
            if self._noticed(verdict):
                text = (verdict.text or "; ".join(verdict.evidence))[:_TEXT_MAX]
                self._proofs.setdefault(verdict.checker, Proof(verdict.checker, plant, text, real))

    def _noticed(self, verdict: Verdict) -> bool:
        """Does the checker fail here, but not on the run without a defect?"""
        usual = self._usual.get(verdict.checker)
        return verdict.answer == "fail" and (usual is None or usual.answer != "fail")

    def open(self) -> list[str]:
        """The checkers that have not failed yet."""
        return [name for name in self._names if name not in self._proofs]

    def proofs(self) -> tuple[Proof, ...]:
        return tuple(self._proofs.get(name) or Proof(name, text=self._why_unproved(name)) for name in self._names)

    def _why_unproved(self, name: str) -> str:
        """Why a checker is not proved."""
        if (usual := self._usual.get(name)) and usual.answer == "fail":
            return f"it also fails on a correct run: {usual.text[:_TEXT_MAX]}"
        if name in self._unknown and name not in self._answered:
            return f"it always answers unknown: {self._unknown[name][:_TEXT_MAX]}"
        return f"it passed all of {self._plants} plants: it cannot be shown that it can fail"
