"""Doubts about writes that recovery may find: a crash that interrupts an update leaves none."""

from __future__ import annotations

from pathlib import Path

import pytest
from story import Story

from undermine.analysis.conflicts.doubts import ALONE, KEPT, LISTED, OTHER, SETTLED, WHOLE
from undermine.analysis.conflicts.left_behind import Crashed, LeftBehind, left_behind
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.recovery import Usual
from undermine.analysis.conflicts.run import Run
from undermine.program import Dependence, Program
from undermine.protocols import TargetProgram

Step = tuple[str, str, str]
"""An operation on a file: what, the file, the function."""


def files(run: Story, number: int, steps: tuple[Step, ...], *, life: int = 1) -> None:
    for op, path, function in steps:
        folder = f"/runs/{number}/n1/"
        resource = " -> ".join(folder + name for name in path.split(" -> "))
        loc = f"app:{function.removeprefix('app:')}" + ("" if "#" in function else "#1")
        who = {"pid": 10 * life, "node": "n1", "incarnation": life}
        run.did(f"{op} {path} {len(run.events)}", f"file.{op}", resource, target=path, stack=tuple(loc.split()), **who)


def doubts(
    written: tuple[Step, ...],
    read: tuple[Step, ...],
    program: TargetProgram | None = None,
    later: tuple[Step, ...] = (),
    others: tuple[Run, ...] = (),
) -> dict[tuple[str, str, bool], str]:
    """By function and file of a write, and by the state after or before it: the doubt. A handler writes these files, and another
    one writes later. The restarted node reads those, and has found them in an older state."""
    bad, run = Story(), handling(written, later)
    files(bad, 2, tuple(("write", path, "old") for op, path, _ in read if op == "open"))
    files(bad, 2, (("write", "unrelated", "serve"),))
    bad.now += 10
    files(bad, 2, read, life=2)
    crashed = Crashed(Run(Origins(bad.analysed())), "n1", 5000)
    found = left_behind(crashed, [run, *others], Usual([run.origins.analysis] * 2), program=program)
    wrote = {pair: run.site(pair.write)[2][0].removeprefix("app:") for pair in found if not pair.rule}
    return {(function.removesuffix("#1"), pair.resource.name, pair.after): pair.doubt for pair, function in wrote.items()}


def handling(written: tuple[Step, ...], later: tuple[Step, ...] = ()) -> Run:
    """Two messages of a client: their handlers write these files."""
    run = Story()
    for number, steps in enumerate((written, later)):
        run.did(f"request{number}", "net.recv", pid=10, node="n1")
        files(run, 1, steps)
        run.did(f"client{number}", "net.send", pid=99, t=number / 2)
    return Run(Origins(run.analysed(("client0", "request0"), ("client1", "request1"))))


READ_STATE: tuple[Step, ...] = (("open", "state", "load"), ("read", "state", "load"))
READ_BOTH: tuple[Step, ...] = (*READ_STATE, ("open", "epoch", "load"), ("read", "epoch", "load"))


def test_a_file_that_is_written_in_several_steps_may_be_incomplete() -> None:
    found = doubts((("create", "state", "make"), ("write", "state", "fill")), READ_STATE)
    assert found == {("make", "state", True): "", ("make", "state", False): WHOLE, ("fill", "state", True): WHOLE}


def test_a_file_that_is_missing_for_a_moment_is_incomplete() -> None:
    written = (("rename", "state -> state.old", "begin"), ("rename", "state.new -> state", "end"))
    assert doubts(written, READ_STATE)["begin", "state", True] == ""


def test_a_file_that_is_replaced_as_a_whole_is_complete() -> None:
    written = (("rename", "state.new -> state", "first"), ("rename", "state.new -> state", "second"))
    found = doubts(written, READ_STATE)
    assert found["first", "state", True] == ALONE
    assert found["second", "state", True] == WHOLE


def test_records_that_one_function_appends_are_complete() -> None:
    again = doubts((("write", "state", "append"), ("write", "state", "append#2")), READ_STATE)
    assert again["append", "state", True] == ALONE
    other = doubts((("write", "state", "header"), ("write", "state", "append")), READ_STATE)
    assert other["header", "state", True] == ""


ADDED: Step = ("write", "state", "add#1 app:handle#1")


@pytest.mark.parametrize(
    ("later", "doubt"),
    [
        ((ADDED,), ALONE),
        ((("open", "state", "add#1 app:handle#1"), ADDED), ""),
        ((("write", "state", "other#1 app:handle#1"),), ""),
        ((("write", "other", "add#1 app:handle#1"),), ""),
        ((), ""),
    ],
    ids=["another call adds to it", "it was closed", "another function changes it", "another file", "the same call adds to it"],
)
def test_a_log_is_complete_without_records(later: tuple[Step, ...], doubt: str) -> None:
    written = (("create", "state", "make#1 app:handle#1"), ADDED, ADDED)
    assert doubts(written, READ_STATE, later=later)["make", "state", True] == doubt


def test_another_run_may_show_that_a_file_is_a_log() -> None:
    written = (("create", "state", "make#1 app:handle#1"), ADDED)
    assert doubts(written, READ_STATE, others=(handling((), written),))["make", "state", True] == ""
    assert doubts(written, READ_STATE, others=(handling(written, (ADDED,)),))["make", "state", True] == ALONE


def test_two_files_are_one_update() -> None:
    """Without source, an error may depend on both."""
    found = doubts((("rename", "a -> state", "save"), ("rename", "b -> epoch", "save")), READ_BOTH)
    assert found == {
        ("save", "state", True): "",
        ("save", "state", False): WHOLE,
        ("save", "epoch", True): WHOLE,
        ("save", "epoch", False): "",
    }
    unread = doubts((("rename", "a -> state", "save"), ("rename", "b -> other", "save")), READ_STATE)
    assert unread["save", "state", True] == WHOLE, "recovery doesn't read the other one"


def test_the_next_message_begins_another_update() -> None:
    good = Story()
    good.did("client", "net.send", pid=99)
    for name in ("first", "second"):
        good.did(name, "net.recv", pid=10, node="n1")
        files(good, 1, ((("rename", "a -> state", "save"),) if name == "first" else (("rename", "b -> epoch", "save"),)))
    good.did("again", "net.send", pid=99, t=2.5)
    origins = Origins(good.analysed(("client", "first"), ("again", "second")))
    bad = Story()
    files(bad, 2, (("write", "unrelated", "serve"),))
    bad.now += 10
    files(bad, 2, READ_BOTH, life=2)
    crashed = Crashed(Run(Origins(bad.analysed())), "n1", 5000)
    found = left_behind(crashed, [Run(origins)], Usual([origins.analysis] * 2))
    assert {pair.doubt for pair in found if not pair.rule} == {WHOLE}


def test_names_in_a_folder_are_doubtful() -> None:
    written = (("create", "logs/1", "save"), ("write", "logs/1", "fill"))
    assert set(doubts(written, (("list", "logs", "load"),)).values()) == {LISTED}


SOURCE = """
def load(name):
    try:
        return open(name).read()
    except FileNotFoundError:
        return ""

def checked():
    epoch = load("epoch")
    state = load("state")
    if state > epoch:
        raise ValueError(state)

def unchecked():
    epoch = load("epoch")
    state = load("state")
    if state == "":
        raise ValueError(state)
    return epoch
"""


def in_source(folder: Path, function: str, written: tuple[Step, ...]) -> dict[tuple[str, str, bool], str]:
    """The doubts about these writes if this function reads both files."""
    (folder / "app.py").write_text(SOURCE)
    program = Program.read([str(folder)])
    target = TargetProgram(program.facts(), dependence=Dependence(program))
    opened = next(point.loc for point in program.facts().points if point.op == "file.open")
    stacks = {path: (opened, f"app:{function}#{ordinal}") for ordinal, path in enumerate(("epoch", "state"))}
    read = tuple((op, path, " ".join(stack)) for path, stack in stacks.items() for op in ("open", "read"))
    return doubts(written, read, target)


def test_the_source_shows_whether_an_error_depends_on_both_files(tmp_path: Path) -> None:
    written: tuple[Step, ...] = (("rename", "a -> state", "save"), ("rename", "b -> epoch", "save"))
    found = {function: in_source(tmp_path, function, written) for function in ("checked", "unchecked")}
    assert {function: each["save", "state", True] for function, each in found.items()} == {"checked": "", "unchecked": ALONE}


def test_a_file_is_complete_until_it_is_deleted(tmp_path: Path) -> None:
    written: tuple[Step, ...] = (("rename", "b -> epoch", "save"), ("unlink", "state", "save"))
    assert in_source(tmp_path, "unchecked", written)["save", "state", False] == ALONE


# --- objects on other nodes


def object_pairs(*objects: str, read: str = "app:jobs['a'].permit", program: TargetProgram | None = None) -> list[LeftBehind]:
    """Each message of n1, after the answer to the one before, changes an object on n2. Recovery reads one of them there."""
    good, bad, links = Story(), Story(), []
    for number, name in enumerate(objects):
        good.did(f"ask{number}", "net.send", pid=10, node="n1")
        good.did(f"asked{number}", "net.recv", pid=2, role="master", thread=f"H{number}")
        at = f"app:change{number}#1"
        good.did(f"change{number}", "heap.write", name, pid=2, role="master", thread=f"H{number}", at=at)
        good.did(f"answer{number}", "net.send", pid=2, role="master", thread=f"H{number}")
        good.did(f"answered{number}", "net.recv", pid=10, node="n1")
        links += [(f"ask{number}", f"asked{number}"), (f"answer{number}", f"answered{number}")]
    bad.did("old", "heap.write", read, pid=2, role="master")
    files(bad, 2, (("write", "unrelated", "serve"),))
    bad.now += 10
    bad.did("send", "net.send", pid=20, node="n1", incarnation=2)
    bad.did("recv", "net.recv", pid=2, role="master")
    bad.did("look", "heap.read", read, pid=2, role="master")
    origins = Origins(good.analysed(*links))
    crashed = Crashed(Run(Origins(bad.analysed(("send", "recv")))), "n1", 5000)
    found = left_behind(crashed, [Run(origins)], Usual([origins.analysis] * 2), program=program)
    return [pair for pair in found if not pair.rule]


def test_an_object_that_two_messages_change_may_be_half_changed() -> None:
    both = object_pairs("app:jobs['a'].permit", "app:jobs['a'].commit")
    assert {pair.after: pair.doubt for pair in both} == {True: "", False: SETTLED}
    last = object_pairs("app:jobs['a'].commit", "app:jobs['a'].permit")
    assert {pair.after: pair.doubt for pair in last} == {True: SETTLED, False: ""}


def test_an_object_that_is_changed_back_by_a_later_message_may_stay_changed() -> None:
    taken = object_pairs("app:jobs['a'].permit", "app:other", "app:jobs['a'].permit")
    assert "" in {pair.doubt for pair in taken if pair.after}


def test_a_change_of_another_object_does_not_belong_to_the_update() -> None:
    assert {pair.doubt for pair in object_pairs("app:jobs['a'].permit", "app:jobs['b'].commit")} == {SETTLED}


def test_items_of_a_list_may_be_others() -> None:
    found = object_pairs("app:jobs['a'][*]", "app:jobs['a'].commit", read="app:jobs['a'][*]")
    assert {pair.doubt for pair in found} == {OTHER}


def test_a_value_that_is_only_kept_does_no_harm_that_is_known(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("class Node:\n    def load(self):\n        self.state = open('state')\n")
    program = Program.read([str(tmp_path)])
    (opened,) = (point.loc for point in program.facts().points)
    target = TargetProgram(program.facts(), dependence=Dependence(program))
    read: tuple[Step, ...] = (("open", "state", opened), ("read", "state", opened))
    assert doubts((("create", "state", "save"), ("write", "state", "fill")), read, target)["save", "state", True] == KEPT
