"""Writes of a node that dies, and operations of recovery that read them: which pairs there are, and which rule excludes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from story import Story

from undermine.analysis.conflicts.left_behind import (
    CHECKED,
    HARMLESS,
    PASSING,
    RESET,
    SEEN,
    Crashed,
    LeftBehind,
    left_behind,
)
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.recovery import Usual
from undermine.analysis.conflicts.run import Run
from undermine.program import Dependence, Program
from undermine.protocols import TargetProgram

FOLDER = "/runs/{run}/n1/"


class OneRun(Story):
    """The node n1 with its files; `reborn` is its next life."""

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def file(self, op: str, path: str, *, reborn: bool = False, **more: Any) -> None:
        pid = 11 if reborn else 1
        name = f"{op} {path} {len(self.events)}"
        stack = more.pop("stack", (f"app:{op}_{path}#1", "app:boot#1" if reborn else "app:serve#1"))
        resource = FOLDER.format(run=self.run) + path
        more = {"node": "n1", "incarnation": 2 if reborn else 1, "target": path, "stack": stack, **more}
        self.did(name, f"file.{op}", resource, pid=pid, **more)


def fault_free(*, more: bool = True) -> OneRun:
    """A first start that finds nothing; then the node creates, fills and renames a file."""
    run = OneRun(1)
    run.file("open", "data", stack=("app:open_data#1", "app:boot#1"), error="ENOENT")
    if more:
        run.file("create", "data")
        run.file("write", "data")
        run.file("unlink", "old")
    return run


def faulty(
    *before: tuple[str, str], after: tuple[tuple[str, str], ...] = (("open", "data"), ("read", "data"))
) -> OneRun:
    """The node does the operations `before`, dies, and does those `after` when it is back."""
    run = OneRun(2)
    run.file("open", "data", stack=("app:open_data#1", "app:boot#1"), error="ENOENT")
    for op, path in before:
        run.file(op, path)
    run.now += 10
    for op, path in after:
        run.file(op, path, reborn=True)
    return run


def pairs(good: OneRun, bad: OneRun, crash_at: float) -> list[LeftBehind]:
    good_origins = Origins(good.analysed())
    crashed = Crashed(Run(Origins(bad.analysed())), "n1", int(crash_at * 1000))
    return left_behind(crashed, [Run(good_origins)], Usual([good_origins.analysis] * 2))


def told(found: list[LeftBehind], rule: str = "") -> set[tuple[str, str, bool]]:
    return {(pair.write.effect, pair.resource.name, pair.after) for pair in found if pair.rule == rule}


def test_recovery_may_find_each_state_that_the_node_leaves() -> None:
    found = pairs(fault_free(), faulty(), 5)
    assert told(found) == {("create", "data", True), ("write", "data", True)}
    assert all(pair.by_restarted and pair.exact for pair in found)
    [after_write] = [pair for pair in found if pair.write.effect == "write"]
    assert after_write.before is not None
    assert after_write.before.effect == "create"


def test_a_state_that_recovery_has_found_is_harmless() -> None:
    found = pairs(fault_free(), faulty(("create", "data"), ("write", "data")), 5)
    assert told(found) == {("create", "data", True)}
    assert ("write", "data", True) in told(found, SEEN)
    assert ("create", "data", False) in told(found, SEEN), "the first start of the node found nothing there"


def test_a_state_of_a_file_is_known_if_the_same_code_read_and_wrote_another_one() -> None:
    """The start reads every file of a folder. It has found one of them empty."""
    stacks = {"create": ("app:new#1", "app:serve#1"), "open": ("app:load#1", "app:boot#1"), "read": ("app:load#2", "app:boot#1")}
    good, bad = OneRun(1), OneRun(2)
    good.file("create", "logs/b.data", stack=stacks["create"])
    bad.file("create", "logs/a.data", stack=stacks["create"])
    bad.now += 10
    for path in ("logs/a.data", "logs/b.data"):
        for op in ("open", "read"):
            bad.file(op, path, reborn=True, stack=stacks[op])
    assert ("create", "logs/b.data", True) in told(pairs(good, bad, 5), SEEN)
    good.events.clear()
    good.file("create", "logs/b.data", stack=("app:other#1", "app:serve#1"))
    assert ("create", "logs/b.data", True) in told(pairs(good, bad, 5)), "other code wrote it"


def test_a_file_that_recovery_writes_first_is_never_found() -> None:
    found = pairs(fault_free(), faulty(after=(("create", "data"), ("open", "data"), ("read", "data"))), 5)
    assert told(found) == set()
    assert told(found, RESET) == {("create", "data", True), ("create", "data", False), ("write", "data", True)}


def test_files_that_recovery_does_not_read_do_not_matter() -> None:
    assert pairs(fault_free(), faulty(after=(("stat", "other"), ("fsync", "data"))), 5) == []


def test_a_listing_notices_names_that_come_and_go_but_not_contents() -> None:
    good = OneRun(1)
    for op, path in (("create", "logs/1"), ("write", "logs/1"), ("unlink", "logs/1")):
        good.file(op, path)
    found = pairs(good, faulty(after=(("list", "logs"),)), 5)
    assert {effect for effect, _, after in told(found) if after} == {"create", "delete"}


def test_a_listing_has_found_the_names_that_were_there() -> None:
    good = OneRun(1)
    for op, path in (("create", "logs/1"), ("unlink", "logs/1")):
        good.file(op, path)
    found = pairs(good, faulty(("create", "logs/1"), after=(("list", "logs"),)), 5)
    assert ("create", "logs/1", True) in told(found, SEEN)
    assert ("delete", "logs/1", True) in told(found)


def test_a_rename_deletes_one_name_and_creates_another() -> None:
    good = OneRun(1)
    folder = FOLDER.format(run=1)
    good.did("rename", "file.rename", f"{folder}data.tmp -> {folder}data", pid=1, node="n1", target="data.tmp -> data")
    assert told(pairs(good, faulty(), 5)) == {("create", "data", True)}


def test_other_nodes_read_only_shared_files() -> None:
    bad = faulty(after=(("stat", "other"),))
    for path in ("/runs/2/n2/data", "/runs/2/n1/data"):
        bad.did(f"look {path}", "file.stat", path, pid=2, target="data", at="app:take_over#1")
    assert {pair.read.exact for pair in pairs(fault_free(), bad, 5)} == {"/runs/2/n1/data"}


@pytest.mark.parametrize("role", ["store", "master"])
def test_objects_on_other_nodes_live_on(role: str) -> None:
    """A message of n1 changes an object on n2, which n2 reads when it handles a message of the restarted n1. Roles don't
    matter."""

    def change(run: OneRun, life: int, op: str) -> None:
        pid = 10 * life + 1
        run.did(f"send{life}", "net.send", pid=pid, node="n1", incarnation=1 + life)
        run.did(f"recv{life}", "net.recv", pid=2, role=role)
        run.did(f"{op}{life}", f"heap.{op}", "app:jobs[1].commit", pid=2, role=role, target="app:jobs[<n>].commit")

    good, bad = OneRun(1), OneRun(2)
    change(good, 0, "write")
    bad.file("write", "log")
    bad.now += 10
    change(bad, 1, "read")
    good_origins = Origins(good.analysed(("send0", "recv0")))
    crashed = Crashed(Run(Origins(bad.analysed(("send1", "recv1")))), "n1", 5000)
    found = left_behind(crashed, [Run(good_origins)], Usual([good_origins.analysis] * 2))
    assert told(found) == {("write", "app:jobs[<n>].commit", True)}


def test_what_a_handler_writes_only_for_a_moment_stays_nowhere() -> None:
    """The other node lives on and finishes its handler, so it leaves only the last write of it behind."""
    good, bad = OneRun(1), OneRun(2)
    good.did("send", "net.send", pid=1, node="n1")
    good.did("recv", "net.recv", pid=2, role="master")
    for name in ("busy", "idle"):
        good.did(name, "heap.write", "app:state", pid=2, role="master")
    bad.file("write", "log")
    bad.now += 10
    bad.did("send", "net.send", pid=11, node="n1", incarnation=2)
    bad.did("recv", "net.recv", pid=2, role="master")
    bad.did("read", "heap.read", "app:state", pid=2, role="master")
    good_origins = Origins(good.analysed(("send", "recv")))
    crashed = Crashed(Run(Origins(bad.analysed(("send", "recv")))), "n1", 5000)
    found = left_behind(crashed, [Run(good_origins)], Usual([good_origins.analysis] * 2))
    assert {good.name(pair.write.row): pair.rule for pair in found if pair.after} == {"busy": PASSING, "idle": ""}


SOURCE = """
import os

def boot(path):
    if os.path.exists(path):
        return open(path)
    raise ValueError(path)

def careless(path):
    os.stat(path)
"""


def test_the_source_shows_checks_and_harmless_reads(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SOURCE)
    program = Program.read([str(tmp_path)])
    exists, opens, looks = (point.loc for point in sorted(program.facts().points, key=lambda point: point.line))
    bad = faulty(after=())
    for path in ("data", "old"):
        for op, loc in (("stat", exists), ("open", opens), ("read", opens), ("stat", looks)):
            bad.file(op, path, reborn=True, stack=(loc,))
    good_origins = Origins(fault_free().analysed())
    crashed = Crashed(Run(Origins(bad.analysed())), "n1", 5000)
    target = TargetProgram(program.facts(), dependence=Dependence(program))
    found = left_behind(crashed, [Run(good_origins)], Usual([good_origins.analysis] * 2), program=target)
    columns = bad.columns
    rules: dict[str, dict[str, tuple[str, str]]] = {}
    for pair in found:
        if pair.after:
            site = columns.stacks[int(columns.stack[pair.read.row])][0]
            rules.setdefault(pair.write.effect, {})[site] = (pair.rule, pair.impact)
    assert rules["delete"] == {exists: ("", "raise"), opens: (CHECKED, ""), looks: (HARMLESS, "")}
    assert rules["write"] == rules["delete"]
    [because] = {pair.because for pair in found if pair.rule == CHECKED}
    assert "if os.path.exists(path):" in because


def test_keys_of_a_store_are_read_by_whichever_node_recovers() -> None:
    resource = '{"store":"redis:1/0","kind":"redis","do":[["%s",["leader"],["n1"]]]}'
    good, bad = OneRun(1), OneRun(2)
    good.did("claim", "db.write", resource % "SET", pid=1, node="n1")
    bad.file("write", "log")
    bad.now += 10
    bad.did("look", "db.read", resource % "GET", pid=2, at="app:take_over#1")
    bad.file("stat", "other", reborn=True)
    found = pairs(good, bad, 5)
    assert told(found) == {("write", "leader", True)}


def test_the_write_of_another_node_before_the_first_own_one_is_a_state_too() -> None:
    resource = '{"store":"redis:1/0","kind":"redis","do":[["SET",["leader"],["x"]]]}'
    good, bad = OneRun(1), OneRun(2)
    good.did("other", "db.write", resource, pid=3, role="other")
    good.did("claim", "db.write", resource, pid=1, node="n1")
    bad.file("write", "log")
    bad.now += 10
    bad.did("look", "db.read", resource.replace("SET", "GET"), pid=2, at="app:take_over#1")
    bad.file("stat", "other", reborn=True)
    found = pairs(good, bad, 5)
    assert told(found) == {("write", "leader", True), ("write", "leader", False)}
    assert {good.name(pair.before.row) for pair in found if pair.before} == {"other"}


LISTING = """
import os

def boot(path):
    if os.path.isdir(path):
        print(os.listdir(path), file=open(path))
"""


def test_a_look_at_a_folder_does_not_check_the_names_in_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(LISTING)
    program = Program.read([str(tmp_path)])
    exists, lists, _ = (point.loc for point in program.facts().points)
    good, bad = fault_free(), faulty(after=())
    good.file("create", "spool/job")
    for op, loc in (("stat", exists), ("list", lists)):
        bad.file(op, "spool", reborn=True, stack=(loc,))
    good_origins = Origins(good.analysed())
    crashed = Crashed(Run(Origins(bad.analysed())), "n1", 5000)
    target = TargetProgram(program.facts(), dependence=Dependence(program))
    found = left_behind(crashed, [Run(good_origins)], Usual([good_origins.analysis] * 2), program=target)
    listed = [pair for pair in found if pair.read.effect == "list" and pair.after]
    assert listed
    assert all(pair.rule != CHECKED for pair in listed)
