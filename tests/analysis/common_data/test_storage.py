"""The operations whose effect outlives a node, and the destinations where they store data."""

from __future__ import annotations

from story import Story

from undermine.analysis.common_data.storage import storage_operations


def destinations(story: Story, *messages: tuple[str, str]) -> dict[str, list[str]]:
    found = storage_operations(story.analysed(*messages))
    return {story.name(each.row): sorted(map(str, each.destinations)) for each in found}


def test_a_file_has_the_name_that_it_gets_in_the_end() -> None:
    story = Story()
    story.did("create", "file.create", "/r/n1/state.tmp", target="state.tmp")
    story.did("write", "file.write", "/r/n1/state.tmp", target="state.tmp")
    story.did("rename", "file.rename", "/r/n1/state.tmp -> /r/n1/state", target="state.tmp -> state")
    story.did("again", "file.create", "/r/n1/state.tmp", target="state.tmp")
    found = destinations(story)
    assert [found[name] for name in ("create", "write", "rename")] == [["file state"]] * 3
    assert found["again"] == ["file state.tmp"], "this one is never renamed"


def test_reads_failures_and_operations_of_clients_store_nothing() -> None:
    story = Story()
    story.did("read", "file.read", "/r/n1/a", target="a")
    story.did("fails", "file.write", "/r/n1/a", target="a", error="ENOSPC")
    story.did("client", "file.write", "/r/c/a", target="a", node="client")
    story.did("write", "file.write", "/r/n1/a", target="a")
    assert destinations(story) == {"write": ["file a"]}


def test_a_take_changes_the_queue_only_if_it_took_something() -> None:
    story = Story()
    take = '{"store":"r:1/0","kind":"redis","do":[["LPOP",["queue"],[]]]}'
    story.did("empty", "db.write", take)
    story.did("take", "db.write", take)
    story.did("got", "db.got", '{"store":"r:1/0","got":[["queue",["job-1"]]]}', size=2)
    both = '{"store":"r:1/0","kind":"redis","do":[["SADD",["started"],["job-1"]],["HSET",["job-1"],["s","1"]]]}'
    story.did("register", "db.write", both)
    assert destinations(story) == {"take": ["key queue"], "register": ["key job-<n>", "key started"]}


def test_each_message_is_a_destination_but_its_pieces_are_one() -> None:
    story = Story()
    story.did("head", "net.send", "c1", target="peer:n2")
    story.did("body", "net.send", "c1", target="peer:n2")
    story.did("write", "file.write", "/r/n1/a", target="a")
    story.did("other", "net.send", "c1", target="peer:n2")
    found = storage_operations(story.analysed())
    exact = {story.name(each.row): {to.exact for to in each.destinations} for each in found}
    assert exact["head"] == exact["body"] != exact["other"]


def test_a_reply_to_a_client_is_told_apart() -> None:
    story = Story()
    story.did("reply", "net.send", "c1", target="other")
    story.did("got", "net.recv", "c1", pid=9, node="client")
    story.did("tell", "net.send", "c2", target="peer:n2")
    assert destinations(story, ("reply", "got")) == {"reply": ["client other"], "tell": ["node peer:n2"]}


def test_a_named_write_with_keys_has_them_as_its_destinations() -> None:
    story = Story()
    story.did("write", "db.write", '{"store":"zk","do":[["setData",["/a/1"],["x"]]]}', target="setData peer:zk1")
    story.did("read", "db.read", '{"store":"zk","do":[["getData",["/a/1"],[]]]}', target="getData peer:zk1")
    assert destinations(story) == {"write": ["key /a/<n>"]}


def test_a_named_write_to_another_node_is_a_storage_operation() -> None:
    story = Story()
    for name in ("a", "b"):
        story.did(name, "db.write", "create zk1:2181", target="create peer:zk1", content=f"/{name}")
    story.did("read", "db.read", "get zk1:2181", target="get peer:zk1")
    story.did("pragma", "db.write", "PRAGMA x", target="PRAGMA state.db")
    assert destinations(story) == {"a": ["node create peer:zk1"], "b": ["node create peer:zk1"]}
    first, second = storage_operations(story.analysed())
    assert first.destinations != second.destinations, "they have different contents"
