"""Which resources an operation accesses, and how."""

from __future__ import annotations

import json

from story import Story

from undermine.analysis.conflicts.accesses import Access, Resource, accesses


def told(story: Story) -> list[tuple[str, str, str]]:
    columns = story.tell()
    return [(story.name(access.row), str(access.resource), access.effect) for access in accesses(columns)]


def store(*commands: tuple[str, list[str], list[str]]) -> str:
    return json.dumps({"store": "redis:1/0", "kind": "redis", "do": commands}, separators=(",", ":"))


def test_files_are_named_below_their_folder() -> None:
    story = Story()
    story.did("make", "file.create", "/runs/1/n1/log-17", target="log-<n>")
    story.did("move", "file.rename", "/runs/1/n1/a -> /runs/1/n1/b", target="a -> b")
    story.did("close", "file.close", "/runs/1/n1/b", target="b")
    assert told(story) == [
        ("make", "file log-<n>", "create"),
        ("move", "file a", "delete"),
        ("move", "file b", "create"),
    ]


def test_a_change_that_fails_only_shows_what_is_there() -> None:
    story = Story()
    story.did("gone", "file.unlink", "/runs/1/n1/a", target="a", error="ENOENT")
    story.did("there", "file.mkdir", "/runs/1/n1/d", target="d", error="EEXIST")
    story.did("lost", "file.rename", "/runs/1/n1/c -> /runs/1/n1/b", target="c -> b", error="ENOENT")
    assert told(story) == [("gone", "file a", "exists"), ("there", "file d", "exists"), ("lost", "file c", "exists")]


def test_files_with_the_same_end_in_one_folder_are_kin() -> None:
    names = ("logs/a.data", "logs/b.data", "logs/a.meta", "other/a.data", "logs/data")
    kin = [Resource("file", name).kin for name in names]
    assert kin[0] == kin[1]
    assert len(set(kin)) == 4
    assert Resource("key", "logs/a.data").kin.name == "logs/a.data"


def test_the_container_of_an_object() -> None:
    names = ("n1 app:jobs['a.b'].state", "n1 app:jobs['a.b']", "n1 app:jobs")
    found = [Access(0, Resource("object", name), name, "write").container for name in names]
    assert found == ["n1 app:jobs['a.b']", "n1 app:jobs", "n1 app:jobs"]


def test_a_transaction_accesses_all_its_keys() -> None:
    story = Story()
    resource = store(("LPOP", ["queue:12"], []), ("SET", ["job:0f3ac91b2d4e"], ["x"]), ("EXISTS", ["lock"], []))
    story.did("take", "db.write", resource)
    story.did("got", "db.got", '{"store":"redis:1/0","got":[["queue:12",["7"]]]}', size=1)
    story.did("idle", "db.write", store(("LPOP", ["queue:12"], [])))
    assert sorted(told(story)) == [
        ("idle", "key queue:<n>", "read"),
        ("take", "key job:<hex>", "write"),
        ("take", "key lock", "exists"),
        ("take", "key queue:<n>", "delete"),
        ("take", "key queue:<n>", "read"),
    ]


def test_a_change_of_a_table_takes_effect_with_the_commit_of_its_thread() -> None:
    story = Story()
    story.did("insert", "db.write", "INSERT INTO jobs VALUES (?)", target="INSERT jobs state.db")
    story.did("other", "db.commit", "COMMIT", target="COMMIT state.db", thread="T2")
    story.did("commit", "db.commit", "COMMIT", target="COMMIT state.db")
    story.did("select", "db.read", "SELECT * FROM jobs", target="SELECT jobs state.db")
    story.did("delete", "db.write", "DELETE FROM jobs", target="DELETE jobs state.db")
    assert told(story) == [
        ("commit", "table jobs state.db", "write"),
        ("select", "table jobs state.db", "read"),
        ("delete", "table jobs state.db", "delete"),
    ]


def test_objects_have_the_names_that_agents_gave_them() -> None:
    story = Story()
    story.did("put", "heap.write", "app:jobs[3].state", target="app:jobs[<n>].state")
    story.did("look", "heap.read", "app:jobs[3].state", target="app:jobs[<n>].state")
    assert told(story) == [
        ("put", "object app:jobs[<n>].state", "write"),
        ("look", "object app:jobs[<n>].state", "read"),
    ]


def test_the_same_object_of_two_nodes_is_two_objects() -> None:
    story = Story()
    for pid in (1, 2):
        story.did(f"put{pid}", "heap.write", "app:state", pid=pid)
    assert [access.exact for access in accesses(story.tell())] == ["n1 app:state", "n2 app:state"]


def test_only_a_whole_value_replaces_what_was_there() -> None:
    story = Story()
    story.did("set", "db.write", store(("SET", ["a"], ["1"])))
    story.did("push", "db.write", store(("RPUSH", ["a"], ["1"])))
    story.did("delete", "db.write", store(("DEL", ["a"], [])))
    story.did("add", "heap.write", "app:items[*]")
    story.did("assign", "heap.write", "app:items")
    story.did("append", "file.write", "/a", target="a")
    story.did("make", "file.create", "/a", target="a")
    columns = story.tell()
    assert [story.name(access.row) for access in accesses(columns) if access.whole] == ["set", "delete", "assign", "make"]


def test_a_command_that_takes_a_lock_looks_first() -> None:
    story = Story()
    story.did("try", "db.write", store(("HSETNX", ["locks"], ["a", "1"])))
    story.did("set", "db.write", store(("SET", ["lock"], ["1", "NX", "EX", "5"])))
    story.did("put", "db.write", store(("SET", ["value"], ["NX"])))
    looked = {name for name, _, effect in told(story) if effect == "exists"}
    assert looked == {"try", "set"}
