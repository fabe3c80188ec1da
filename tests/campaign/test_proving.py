"""Proofs that checkers can fail: by real runs first, then by altered copies; unproved checkers are named."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from rich.console import Console

from undermine.analysis.points import Recurrence
from undermine.api.checking import AgentSeen, CheckResult, health_of
from undermine.campaign.proving import SABOTAGES, Proof, Prover, Tally
from undermine.campaign.running import Notice
from undermine.campaign.variables import Unmatched, VariableSeen
from undermine.checkers.registry import BUILTIN
from undermine.cli.check import show_check
from undermine.config.load import load
from undermine.findings.planting import plants
from undermine.model.baseline import Agreement, Agreements, Baseline
from undermine.model.injected import Stage
from undermine.model.plan import Plan
from undermine.model.run import Conditions, HealthSample, NodeExit, Op, RunView, Settling, Verdict, WorkloadResult
from undermine.run.engine import Engine
from undermine.store.rundir import RunDir, load_view, save_record, write_altered
from undermine.testing import run_view

Check = Callable[[RunView], Verdict]
NODES = ("n1", "n2")


def passing() -> RunView:
    puts = [
        Op(i, f"c{i % 2}", "put", args={"key": "k", "value": f"v{i}"}, status="ok", start_ns=10 + i, end_ns=11 + i)
        for i in range(4)
    ]
    read = Op(4, "final", "get", args={"key": "k"}, status="ok", value="v3", phase="final", start_ns=20, end_ns=21)
    return run_view(
        Plan(seed=5),
        ops=[*puts, read],
        nodes=NODES,
        workload=WorkloadResult("ok"),
        settling=Settling(final="ok"),
        started_ns=1,
        healed_ns=19,
        baseline=Baseline(runs=1),
    )


def last_value(run: RunView) -> Verdict:
    """A user's checker: the key has its last value."""
    (read,) = [op for op in run.history if op.phase == "final"]
    return Verdict.ok() if read.value == "v3" else Verdict.fail(f"k is {read.value!r}")


class FakeRunner:
    """The first kind of sabotage ends a node; the others have no effect."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Conditions, Plan]] = []

    def execute(self, folder: Path, run_id: int, plan: Plan, capabilities: Any, conditions: Conditions) -> RunView:
        self.asked.append((folder.name, conditions, plan))
        base = passing()
        exits = (NodeExit("n2", 1, -9, 1, 15, False),) if conditions.sabotage == "dead-node" else ()
        record = msgspec.structs.replace(base.record, id=run_id, exits=exits)
        run = RunDir(folder)
        run.create()
        save_record(run, record)
        write_history(run, base.history)
        return base.with_record(record)


def write_history(run: RunDir, history: tuple[Op, ...]) -> None:
    run.history.write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in history))


class FakeEngine:
    """Runs the user's checkers on a folder, as their own process does."""

    def __init__(self, **checks: Check) -> None:
        self.stages: list[Stage] = []
        self.runner = FakeRunner()
        self._checks = checks
        self.judged: list[Path] = []

    @property
    def user_checkers(self) -> list[str]:
        return list(self._checks)

    def user_checks(self, folder: Path) -> list[Verdict]:
        self.judged.append(folder)
        view = load_view(RunDir(folder))
        return [msgspec.structs.replace(check(view), checker=name) for name, check in self._checks.items()]


def prove(tmp_path: Path, engine: FakeEngine, news: list[Notice] | None = None) -> dict[str, Proof]:
    base = passing()
    folder = tmp_path / "check" / "runs" / "000003"
    run = RunDir(folder)
    run.create()
    save_record(run, base.record)
    write_history(run, base.history)
    heard = (news if news is not None else []).append
    prover = Prover(cast(Engine, engine), base, folder, [kind() for kind in BUILTIN], heard)
    return {proof.checker: proof for proof in prover.prove(tmp_path / "check" / "prove")}


def test_every_checker_is_proved_by_a_real_run_if_possible(tmp_path: Path) -> None:
    proofs = prove(tmp_path, FakeEngine(last_value=last_value))
    assert list(proofs) == [*(checker.name for checker in BUILTIN), "last_value"]
    assert all(proof.proved for proof in proofs.values())
    assert proofs["exits"] == Proof(
        "exits", SABOTAGES["dead-node"], "n2 ended by itself with signal 9: it logged nothing", True
    )
    assert not proofs["hang"].real
    assert proofs["last_value"].text.startswith("k is ")


def test_each_sabotage_is_one_run_without_patience_under_the_same_seed(tmp_path: Path) -> None:
    engine = FakeEngine()
    prove(tmp_path, engine)
    assert [(name, asked) for name, asked, _ in engine.runner.asked] == [
        (kind, Conditions(sabotage=kind)) for kind in SABOTAGES
    ]
    assert {(plan.seed, plan.steps) for *_, plan in engine.runner.asked} == {(5, ())}


def test_a_checker_that_cannot_fail_is_named_and_no_files_are_left(tmp_path: Path) -> None:
    engine = FakeEngine(blind=lambda _: Verdict.ok())
    proof = prove(tmp_path, engine)["blind"]
    assert not proof.proved
    assert "it cannot be shown that it can fail" in proof.text
    assert len(engine.judged) == 1 + len(SABOTAGES) + len(plants(passing(), 5))
    assert [path.name for path in (tmp_path / "check").iterdir()] == ["runs"]


def test_copies_stop_when_all_checkers_are_proved(tmp_path: Path) -> None:
    engine = FakeEngine(last_value=last_value)
    prove(tmp_path, engine)
    assert len(engine.judged) < 1 + len(SABOTAGES) + len(plants(passing(), 5))


def test_a_checker_that_is_always_unknown_says_why(tmp_path: Path) -> None:
    proof = prove(tmp_path, FakeEngine(puzzled=lambda _: Verdict.unknown("no reads")))["puzzled"]
    assert (proof.proved, proof.text) == (False, "it always answers unknown: no reads")


def test_a_checker_that_always_fails_is_not_proved(tmp_path: Path) -> None:
    proof = prove(tmp_path, FakeEngine(angry=lambda _: Verdict.fail("no")))["angry"]
    assert (proof.proved, proof.text) == (False, "it also fails on a correct run: no")


def test_the_scratch_folder_is_removed_also_when_a_run_raises(tmp_path: Path) -> None:
    engine = FakeEngine()

    def broken(folder: Path, *_: Any) -> RunView:
        folder.mkdir(parents=True)
        raise OSError("disk full")

    engine.runner.execute = broken  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        prove(tmp_path, engine)
    assert not (tmp_path / "check" / "prove").exists()


def test_a_broken_real_run_proves_nothing_and_says_why(tmp_path: Path) -> None:
    engine, news = FakeEngine(), []
    whole = engine.runner.execute

    def breaks(folder: Path, *args: Any) -> RunView:
        view = whole(folder, *args)
        return view.with_record(msgspec.structs.replace(view.record, status="broken", reason="no port is free"))

    engine.runner.execute = breaks  # type: ignore[method-assign]
    proofs = prove(tmp_path, engine, news)
    assert not any(proof.real for proof in proofs.values())
    assert f"{SABOTAGES['hang']}: no port is free" in [item.text for item in news]


def test_each_run_is_announced(tmp_path: Path) -> None:
    news: list[Notice] = []
    prove(tmp_path, FakeEngine(), news)
    done = [item for item in news if item.kind == "done"]
    assert [item.data["run"] for item in done] == [2, 3, 4, 5]
    assert done[0].text == f"{SABOTAGES['dead-node']}: noticed by exits"
    assert done[1].text == f"{SABOTAGES['hang']}: noticed by no checker"


def test_an_altered_copy_is_written_like_a_run_and_the_run_is_unchanged(tmp_path: Path) -> None:
    base = passing()
    source = RunDir(tmp_path / "runs" / "1")
    source.create()
    (source.logs / "n1.1.err").write_text("ready\n")
    said = next(plant for plant in plants(base) if plant.logs)
    altered = RunDir(tmp_path / "prove" / "plant")
    write_altered(altered, source, said.record, said.history, said.logs)
    view = load_view(altered)
    assert (view.record, view.history) == (said.record, said.history)
    assert [line.text.strip() for line in view.logs][:2] == ["ready", said.logs[0].text]
    assert (source.logs / "n1.1.err").read_text() == "ready\n"


def test_the_first_altered_copy_that_a_checker_fails_on_is_named() -> None:
    tally = Tally(["a", "b"])
    tally.take("first", True, [Verdict("pass", checker="a"), Verdict("fail", "x", checker="b")])
    assert tally.open() == ["a"]
    tally.take("second", False, [Verdict("fail", "y", checker="a"), Verdict("fail", "y", checker="b")])
    assert tally.proofs() == (Proof("a", "second", "y", False), Proof("b", "first", "x", True))


# --- health answers and the screen


def test_health_answers_are_shown_for_nodes_with_a_health_check(tmp_path: Path) -> None:
    role = '[roles.{}]\nnodes = ["{}"]\ncommand = "true {{port}}"\nagent = "none"\n'
    toml = (
        role.format("a", "n1") + 'health = {http = "/"}\n' + role.format("b", "n2") + '[workload]\ncommand = "true"\n'
    )
    (tmp_path / "undermine.toml").write_text(toml)
    config = load(tmp_path)
    said = (HealthSample("n1", 1, "starting"), HealthSample("n1", 2), HealthSample("n2", 1, "nobody asked"))
    record = passing().record
    assert health_of(config, passing().with_record(msgspec.structs.replace(record, health=said))) == {"n1": ""}
    late = msgspec.structs.replace(record, health=said[:1])
    assert health_of(config, passing().with_record(late)) == {"n1": "starting"}


def checked(**more: Any) -> CheckResult:
    agents = tuple(AgentSeen(node, "python", "python", "3", 1, {}) for node in NODES)
    return CheckResult((), agents, Recurrence(0, 0, 0, {}), (1.0,), 0, {}, (), **more)


def shown(result: CheckResult, monkeypatch: pytest.MonkeyPatch) -> str:
    out = io.StringIO()
    monkeypatch.setattr("undermine.cli.check.console", lambda: Console(file=out, width=200, highlight=False))
    show_check(result)
    return out.getvalue()


def test_the_table_of_proofs_names_unproved_checkers(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = (Proof("exits", "a node dies", "x", True), Proof("[b]mine[/b]", text="it passed all"))
    result = checked(proofs=proofs)
    text = shown(result, monkeypatch)
    assert result.unproved == ("[b]mine[/b]",)
    assert [line.split() for line in text.splitlines() if line.startswith(" exits")] == [
        ["exits", "yes", "real", "run", "a", "node", "dies"]
    ]
    assert "1 of 2 checkers never failed: [b]mine[/b]" in text


def test_without_proofs_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "checkers" not in shown(checked(), monkeypatch).lower()


def test_variables_are_shown_with_their_values_and_paths_that_match_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = (VariableSeen("n1", "status[n2]", "[b]up[/b]"), VariableSeen("n2", "status[n2]", None))
    missing = Unmatched("term", "server", "app:Node.trm", "n1: Node (Node) has no plain attribute trm")
    agreed = Agreements((Agreement(("n1", "status", "*"), ("n2", "status", "*"), "=="),))
    text = shown(checked(variables=seen, unmatched=(missing,), baseline=Baseline(agreements=agreed)), monkeypatch)
    rows = [line.split() for line in text.splitlines()]
    assert ["n1", "status[n2]", "[b]up[/b]"] in rows
    assert ["n2", "status[n2]", "∅"] in rows
    assert "nodes agree at rest about: status" in text
    assert "error: the variable term of the role server matched nothing: n1: Node (Node) has no plain attribute trm" in text
    assert "Variables" not in shown(checked(), monkeypatch)


def test_the_learnt_baseline_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Baseline(
        runs=3, failed=2, failed_as=("stale read",), templates=("a <*>",), slowest_s={"put": 0.5, "get": 2}
    )
    text = shown(checked(baseline=usual, health={"n1": "disk [b]full[/b]\x1b"}), monkeypatch)
    assert "the workload is flaky: 2 of 5 fault-free runs failed (stale read)" in text
    assert "slowest operations without a fault: get 2.00 s, put 0.50 s" in text
    assert "log templates learnt: 1" in text
    assert "n1 reports that it is not healthy: disk [b]full[/b]?" in text
    assert "health: not asked of n2; set `health` in their role" in text
