"""`check --prove-checkers` on a real cluster: each of the three sabotages is noticed, and a blind checker is named."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

BLIND = """

@undermine.checker
def blind(run):
    return undermine.Verdict.ok()
"""

STAGED = """

PUTTING = undermine.Stage("putting", operations=["put"])


@undermine.checker
def a_crash_while_putting_loses_nothing(run):
    read = [op for op in run.history if op.phase == "final" and op.f == "get" and op.status == "ok"]
    if run.faults_in(PUTTING, "crash") and any(op.value != f"v{op.args['key'][1:]}" for op in read):
        return undermine.Verdict.fail("a crash while putting lost something")
"""
"""Passes all runs without an injected fault."""


def test_each_sabotage_is_noticed_and_a_checker_that_cannot_fail_is_named(project) -> None:
    with open(project.folder / "hunt.py", "a") as out:
        out.write(BLIND + STAGED)
    done = project.run("check", "--prove-checkers", "--set", "behaviour=sound")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    dead, frozen, lost = (
        next(line for line in lines if words in line and "noticed by" in line)
        for words in ("a node is killed and stays dead", "all nodes freeze for good", "all nodes lose their data")
    )
    assert "exits" in dead
    assert "hang" in frozen or "liveness" in frozen
    assert "no_acked_put_lost" in lost
    assert "checkers never failed: blind;" in done.stdout
    assert done.stdout.count("not shown") == 1
    assert "a_crash_while_putting_loses_nothing" in done.stdout
    assert not (project.results / "check" / "prove").exists()
    project.wait_until_nothing_runs()
