"""Updates in several steps: which changes begin one."""

from __future__ import annotations

import json

import pytest
from story import Story

from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.run import Run
from undermine.analysis.conflicts.updates import Begun, begun


def observed(*objects: str, node: str = "n1", sends: str = "abcdefgh") -> Run:
    """Each message of a node, after the answer to the one before, changes an object on n2. `sends`: the functions that send."""
    run, links = Story(), []
    for number, name in enumerate(objects):
        run.did(f"ask{number}", "net.send", pid=10, node=node, at=f"app:{sends[number]}#{number}")
        run.did(f"asked{number}", "net.recv", pid=2, role="master", thread=f"H{number}")
        run.did(f"change{number}", "heap.write", name, pid=2, role="master", thread=f"H{number}")
        run.did(f"answer{number}", "net.send", pid=2, role="master", thread=f"H{number}")
        run.did(f"answered{number}", "net.recv", pid=10, node=node)
        links += [(f"ask{number}", f"asked{number}"), (f"answer{number}", f"answered{number}")]
    return Run(Origins(run.analysed(*links)))


def updates(*objects: str, **more: str) -> list[Begun]:
    run = observed(*objects, **more)
    found = list(begun(run, run.repeated))
    assert all(run.columns.name(each.row) == "net.send" for each in found)
    return found


def test_the_first_of_several_changes_begins_an_update() -> None:
    (update,) = updates("app:jobs['a'].permit", "app:jobs['a'].commit")
    assert (update.resource.name, update.row) == ("app:jobs['a'].permit", 0)
    assert update.group == ("store", "app:jobs['a']")


@pytest.mark.parametrize("objects", [("app:a.x",), ("app:a.x", "app:b.y"), ("app:a[*]", "app:a.y")])
def test_a_single_change_is_complete_and_items_of_a_list_may_be_others(objects: tuple[str, ...]) -> None:
    assert updates(*objects) == []


@pytest.mark.parametrize(("sends", "count"), [("abbbb", 0), ("abbcc", 1)])
def test_messages_that_come_again_and_again_are_not_steps(sends: str, count: int) -> None:
    assert len(updates("app:a.x", *["app:a.y"] * 4, sends=sends)) == count


def test_another_run_may_show_that_messages_are_repeated() -> None:
    short, long = (observed("app:a.x", *["app:a.y"] * times, sends="abbbb") for times in (1, 4))
    assert len(list(begun(short, short.repeated))) == 1
    assert list(begun(short, long.repeated)) == []


def test_clients_never_die() -> None:
    assert updates("app:a.x", "app:a.y", node="client") == []


def test_nobody_finishes_a_change_of_a_key() -> None:
    run = Story()
    for name, node in (("take", "n1"), ("submit", "client")):
        command = {"store": "redis:1/0", "kind": "redis", "do": [("SET", ["jobs.all"], ["x"])]}
        run.did(name, "db.write", json.dumps(command), pid=10, node=node)
    (update,) = begun(Run(Origins(run.analysed())), ())
    assert (update.row, update.group) == (0, ("store", "jobs.all"))
