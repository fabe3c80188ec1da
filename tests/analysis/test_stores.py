"""Operations on stores that made others possible: by key and value, in redis and in stores that no table knows."""

from __future__ import annotations

import cProfile
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from undermine.analysis.pipeline import analyse
from undermine.analysis.stores import links as stores
from undermine.analysis.stores.commands import TABLES, CommandEffect, Commands, everything, first
from undermine.analysis.stores.usage import uses
from undermine.model.columns import Columns
from undermine.model.event import Event, ordered
from undermine.testing import event

STORE = "127.0.0.1:6379/0"
READS = {"GET", "HGET", "LRANGE", "LLEN", "EXISTS", "ZRANGE", "SMEMBERS", "XREAD", "MGET", "HGETALL"}


class Course:
    """A run made by hand: each operation is named, so that links can be told by name."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.names: dict[tuple[int, int], str] = {}
        self._seq = itertools.count(1)

    def did(
        self,
        name: str,
        at: Any,
        *commands: Any,
        got: Any = None,
        op: str = "",
        pid: int = 100,
        store: str = STORE,
        kind: str = "redis",
        **more: Any,
    ) -> None:
        """Commands are (name, keys, values); `at` is when, or (begin, end)."""
        begin, end = at if isinstance(at, tuple) else (at, at + 1)
        seq = next(self._seq)
        op = op or {
            "PUBLISH": "msg.send",
            "SUBSCRIBE": "msg.send",
            "PSUBSCRIBE": "msg.send",
            "MESSAGE": "msg.recv",
        }.get(commands[0][0], "db.read" if commands[0][0] in READS else "db.write")
        said = {"store": store, "kind": kind, "do": [[command, keys, values] for command, keys, values in commands]}
        common = {"pid": pid, "thread": "main", "node": f"n{pid}"}
        self.names[pid, seq] = name
        self.events.append(
            event(
                op, seq=seq, t_ns=begin, end_ns=end, resource=json.dumps(said, separators=(",", ":")), **common, **more
            )
        )
        if got is not None:
            text = json.dumps({"store": store, "got": got}, separators=(",", ":"))
            number = next(self._seq)
            self.events.append(event("db.got", seq=number, t_ns=end, end_ns=end, size=seq, resource=text, **common))

    def columns(self) -> Columns:
        return Columns.of(ordered(self.events))

    def links(self, **tables: Commands) -> set[str]:
        columns = self.columns()
        found = stores.links(columns, {**TABLES, **tables})
        assert (columns.t[found.source] < columns.end[found.target]).all(), "an edge backwards in time"
        named = [self.names[e.pid, e.seq] if e.op != "db.got" else "?" for e in columns.events()]
        rows = zip(found.source.tolist(), found.target.tolist(), found.kind.tolist(), strict=True)
        return {f"{named[a]} {stores.KINDS[kind]} {named[b]}" for a, b, kind in rows}


@pytest.fixture
def course() -> Course:
    return Course()


# --- queues


@pytest.mark.parametrize(
    ("push", "pop"),
    [
        (("LPUSH", ["q"], ["a"]), ("BRPOP", ["q"], ["0"])),
        (("RPUSH", ["q"], ["a"]), ("LPOP", ["q"], [])),
        (("LPUSH", ["q"], ["a"]), ("LMOVE", ["q", "p"], ["LEFT", "RIGHT"])),
        (("ZADD", ["q"], ["NX", "1.5", "a"]), ("ZPOPMIN", ["q"], [])),
        (("SADD", ["q"], ["b", "a"]), ("SPOP", ["q"], [])),
        (("EVALSHA", ["q"], ["a"]), ("BLPOP", ["x", "q"], ["1"])),
    ],
)
def test_an_item_that_was_put_is_taken(course: Course, push: Any, pop: Any) -> None:
    course.did("push", 1, push)
    course.did("other", 2, ("LPUSH", ["other"], ["a"]))
    course.did("pop", 3, pop, got=[["q", ["a"]]])
    assert course.links() == {"push item pop"}


def test_one_that_waited_gets_what_is_put_later(course: Course) -> None:
    course.did("pop", (1, 9), ("BLPOP", ["q"], ["0"]), got=[["q", ["a"]]], pid=1)
    course.did("push", (5, 20), ("LPUSH", ["q"], ["a"]), pid=2)
    course.did("late", 10, ("LPUSH", ["q"], ["a"]), pid=2)
    assert course.links() == {"push item pop"}


def test_a_blocking_pop_ends_the_previous_extent(course: Course) -> None:
    """The last one found nothing; who asks without waiting is in the midst of something."""
    course.did("push", 1, ("LPUSH", ["q"], ["x"]), pid=7)
    course.did("pop", 10, ("BRPOP", ["q"], ["1"]), got=[["q", ["x"]]])
    course.did("more", 20, ("LPOP", ["other"], []))
    course.did("again", (30, 40), ("BRPOP", ["q"], ["1"]))
    course.did("idle", 50, ("SET", ["k"], ["v"]))
    found = analyse(course.columns())
    by_name = {course.names.get((e.pid, e.seq), "?"): row for row, e in enumerate(found.columns.events())}
    cause = {name: found.cause[row] for name, row in by_name.items()}
    assert cause["pop"] == by_name["push"]
    assert cause["more"] == by_name["pop"]
    assert cause["again"] == cause["idle"] == -1


def test_items_that_are_fetched_together_have_no_known_cause(course: Course) -> None:
    for n in (1, 2):
        course.did(f"push{n}", n, ("LPUSH", ["q"], [f"x{n}"]), pid=7 + n)
    course.did("pop", 10, ("LPOP", ["q"], ["2"]), got=[["q", ["x1", "x2"]]])
    course.did("work", 20, ("SET", ["k"], ["v"]))
    assert {"push1 item pop", "push2 item pop"} <= course.links()
    found = analyse(course.columns())
    rows = {course.names.get((e.pid, e.seq)): row for row, e in enumerate(found.columns.events())}
    assert found.cause[rows["pop"]] == -1
    assert found.cause[rows["work"]] == rows["pop"]


def test_equal_items_are_taken_once_each_in_their_order(course: Course) -> None:
    for number in range(3):
        course.did(f"push{number}", number * 2 + 1, ("LPUSH", ["q"], ["a"]))
    for number in range(3):
        course.did(f"pop{number}", number * 2 + 10, ("RPOP", ["q"], []), got=[["q", ["a"]]])
    course.did("none", 30, ("RPOP", ["q"], []), got=[["q", []]])
    assert course.links() == {f"push{n} item pop{n}" for n in range(3)}


def test_from_the_same_end_the_newest_comes_first(course: Course) -> None:
    course.did("old", 1, ("RPUSH", ["q"], ["a"]))
    course.did("new", 3, ("RPUSH", ["q"], ["a"]))
    course.did("pop", 5, ("RPOP", ["q"], []), got=[["q", ["a"]]])
    assert course.links() == {"new item pop"}


def test_a_pop_is_matched_to_the_outermost_push(course: Course) -> None:
    for number, side in enumerate("LLR"):
        course.did(f"push{number}", number * 2 + 1, (f"{side}PUSH", ["q"], ["a"]))
    for number, side in enumerate("LRR"):
        course.did(f"pop{number}", number * 2 + 10, (f"{side}POP", ["q"], []), got=[["q", ["a"]]])
    assert course.links() == {"push1 item pop0", "push2 item pop1", "push0 item pop2"}


def test_chains_of_moves(course: Course) -> None:
    course.did("push", 1, ("RPUSH", ["queue"], ["job1"]), pid=1)
    course.did("move", (2, 30), ("BLMOVE", ["queue", "busy"], ["LEFT", "RIGHT", "0"]), got=[["queue", ["job1"]]], pid=2)
    course.did("again", 10, ("RPOPLPUSH", ["busy", "dead"], []), got=[["busy", ["job1"]]], pid=3)
    course.did("look", 40, ("LRANGE", ["dead"], ["0", "-1"]), got=[["dead", ["job1"]]], pid=1)
    assert course.links() == {"push item move", "move item again", "again value look"}


def test_a_removed_item_is_not_taken_later(course: Course) -> None:
    course.did("first", 1, ("LPUSH", ["q"], ["a"]))
    course.did("del", 3, ("DEL", ["q"], []))
    course.did("second", 5, ("LPUSH", ["q"], ["a"]))
    course.did("pop", 7, ("RPOP", ["q"], []), got=[["q", ["a"]]])
    course.did("third", 9, ("LPUSH", ["q"], ["a"]))
    course.did("rem", 11, ("LREM", ["q"], ["0", "a"]))
    course.did("fourth", 13, ("LPUSH", ["q"], ["a"]))
    course.did("next", 15, ("RPOP", ["q"], []), got=[["q", ["a"]]])
    course.did("flush", 17, ("FLUSHDB", [], []))
    course.did("length", 19, ("LLEN", ["q"], []))
    assert course.links() == {"second item pop", "fourth item next", "next key length"}


@pytest.mark.parametrize(
    ("pushes", "places", "pops", "gives"),
    [
        ("RR", ["1", "-1"], "L", ["push1"]),
        ("RRR", ["-2", "-1"], "LL", ["push1", "push2"]),
        ("LLL", ["0", "1"], "RR", ["push1", "push2"]),
        ("RL", ["0", "0"], "L", ["push1"]),
        ("RR", ["0", "9"], "LL", ["push0", "push1"]),
        ("RR", ["5", "-9"], "L", []),
    ],
)
def test_a_trimmed_item_is_not_taken(
    course: Course, pushes: str, places: list[str], pops: str, gives: list[str]
) -> None:
    for number, side in enumerate(pushes):
        course.did(f"push{number}", number * 2 + 1, (f"{side}PUSH", ["q"], ["a"]))
    course.did("trim", 20, ("LTRIM", ["q"], places))
    for number, side in enumerate(pops):
        course.did(f"pop{number}", number * 2 + 30, (f"{side}POP", ["q"], []), got=[["q", ["a"]]])
    assert {link for link in course.links() if " item " in link} == {
        f"{push} item pop{n}" for n, push in enumerate(gives)
    }


def test_equal_items_of_which_one_may_have_been_trimmed_away_have_no_giver(course: Course) -> None:
    """The second is put while the list is trimmed."""
    course.did("push0", 1, ("RPUSH", ["q"], ["a"]))
    course.did("b", 3, ("RPUSH", ["q"], ["b"]))
    course.did("trim", (10, 20), ("LTRIM", ["q"], ["1", "-1"]))
    course.did("push1", 11, ("RPUSH", ["q"], ["a"]))
    course.did("pop", 30, ("LPOP", ["q"], []), got=[["q", ["b"]]])
    course.did("pop0", 32, ("LPOP", ["q"], []), got=[["q", ["a"]]])
    assert {link for link in course.links() if " item " in link} == {"b item pop"}


def test_a_pop_during_a_trim_makes_the_positions_uncertain(course: Course) -> None:
    """The first may have been taken before, and then the second was trimmed away, or after."""
    for number in range(3):
        course.did(f"push{number}", number * 2 + 1, ("RPUSH", ["q"], ["b" if number == 0 else "a"]))
    course.did("pop", (10, 30), ("LPOP", ["q"], []), got=[["q", ["b"]]])
    course.did("trim", (15, 20), ("LTRIM", ["q"], ["0", "1"]))
    course.did("push3", 40, ("RPUSH", ["q"], ["a"]))
    course.did("pop0", 50, ("RPOP", ["q"], []), got=[["q", ["a"]]])
    course.did("trim1", 60, ("LTRIM", ["q"], ["-1", "-1"]))
    course.did("pop1", 70, ("LPOP", ["q"], []), got=[["q", ["a"]]])
    assert {link for link in course.links() if " item " in link} == {"push0 item pop"}


@pytest.mark.parametrize(
    "command",
    [
        ("LTRIM", ["q"], ["1", "-1"]),
        ("LPOP", ["q"], []),
        ("LREM", ["q"], ["1", "a"]),
        ("DEL", ["q"], []),
        ("FLUSHDB", [], []),
    ],
)
@pytest.mark.parametrize(("end", "error"), [(11, "ConnectionError"), (0, "")])
def test_an_operation_that_failed_or_never_ended_may_have_removed_items(
    course: Course, command: Any, end: int, error: str
) -> None:
    """Equal items cannot be told apart, so the popped one has no origin; a single item has one."""
    course.did("push0", 1, ("RPUSH", ["q"], ["a"]))
    course.did("push1", 3, ("RPUSH", ["q"], ["a"]))
    course.did("other", 5, ("RPUSH", ["q"], ["b"]))
    course.did("failed", (10, end), command, error=error)
    course.did("pop0", 20, ("LPOP", ["q"], []), got=[["q", ["a"]]])
    course.did("pop1", 30, ("RPOP", ["q"], []), got=[["q", ["b"]]])
    assert course.links() == {"other item pop1"}


def test_a_retried_push_may_have_put_its_item_twice(course: Course) -> None:
    course.did("failed", 1, ("RPUSH", ["q"], ["a"]), error="TimeoutError")
    course.did("again", 3, ("RPUSH", ["q"], ["a"]))
    course.did("pop", 5, ("LPOP", ["q"], []), got=[["q", ["a"]]])
    assert course.links() == set()


@pytest.mark.parametrize("empties", [("DEL", ["q"], []), ("FLUSHDB", [], [])])
def test_in_a_list_that_was_emptied_nothing_is_in_doubt(course: Course, empties: Any) -> None:
    course.did("old", (1, 4), ("RPUSH", ["q"], ["a"]))
    course.did("meanwhile", (3, 6), ("LTRIM", ["q"], ["1", "-1"]))
    course.did("failed", 7, ("LTRIM", ["q"], ["1", "-1"]), error="ConnectionError")
    course.did("empty", 9, empties)
    for number in range(3):
        course.did(f"push{number}", number * 2 + 11, ("RPUSH", ["q"], ["a"]))
    course.did("trim", 20, ("LTRIM", ["q"], ["1", "-1"]))
    for number in (1, 2):
        course.did(f"pop{number}", number * 10 + 20, ("LPOP", ["q"], []), got=[["q", ["a"]]])
    assert course.links() == {"push1 item pop1", "push2 item pop2"}


def test_an_item_that_is_put_while_the_list_is_deleted_may_be_gone(course: Course) -> None:
    course.did("delete", (1, 9), ("DEL", ["q"], []), pid=1)
    course.did("push0", 3, ("RPUSH", ["q"], ["a"]), pid=2)
    course.did("push1", 11, ("RPUSH", ["q"], ["a"]), pid=2)
    course.did("pop", 20, ("LPOP", ["q"], []), got=[["q", ["a"]]])
    assert course.links() == set()


def test_a_trim_costs_what_it_removes_and_not_what_it_leaves() -> None:
    """The usual list with a limit: 1,000 operations with few items, and with many."""
    calls = {}
    for limit in (10, 400):
        course = Course()
        for number in range(500):
            course.did("push", number * 4 + 1, ("LPUSH", ["q"], [f"x{number}"]))
            course.did("trim", number * 4 + 3, ("LTRIM", ["q"], ["0", str(limit - 1)]))
        columns, profile = course.columns(), cProfile.Profile()
        profile.runcall(stores.links, columns)
        calls[limit] = sum(entry.callcount for entry in profile.getstats())
    assert calls[400] <= calls[10]


def test_a_dropped_operation_caused_nothing_and_a_failed_one_may_have(course: Course) -> None:
    course.did("lost", 1, ("LPUSH", ["q"], ["a"]), error="LOST")
    course.did("failed", (3, 4), ("LPUSH", ["q"], ["a"]), error="ConnectionError")
    course.did("pop", 5, ("RPOP", ["q"], []), got=[["q", ["a"]]])
    assert course.links() == {"failed item pop"}


def test_the_killed_give_but_do_not_take(course: Course) -> None:
    course.did("push", (1, 0), ("LPUSH", ["q"], ["a"]), pid=1)
    course.did("taker", (2, 0), ("BRPOP", ["q"], ["0"]), pid=2)
    course.did("pop", 5, ("RPOP", ["q"], []), got=[["q", ["a"]]], pid=3)
    assert course.links() == {"push item pop"}


def test_streams_go_by_the_ids_of_their_entries(course: Course) -> None:
    course.did("one", 1, ("XADD", ["s"], ["*", "f", "same"]), got=[["s", ["1-0"]]])
    course.did("two", 3, ("XADD", ["s"], ["*", "f", "same"]), got=[["s", ["2-0"]]])
    ask = ("XREADGROUP", ["s"], ["GROUP", "g", "c", ">"])
    course.did("group", 5, ask, got=[["s", ["2-0", "f", "same"]]])
    course.did("other", 7, ask, got=[["s", ["2-0", "f", "same"]]])
    course.did("range", 9, ("XRANGE", ["s"], ["-", "+"]), got=[["s", ["1-0", "f", "same"]]])
    assert course.links() == {"two item group", "two item other", "one value range"}


# --- values


def test_a_value_comes_from_its_newest_writer(course: Course) -> None:
    course.did("old", 1, ("SET", ["k"], ["a", "EX", "9"]))
    course.did("set", 3, ("SET", ["k"], ["a"]))
    course.did("other", 5, ("SET", ["k"], ["b"]))
    course.did("stale", (4, 9), ("GET", ["k"], []), got=[["k", ["a"]]])
    course.did("get", 10, ("GET", ["k"], []), got=[["k", ["b"]]])
    assert course.links() == {"set value stale", "other value get"}


def test_fields_of_a_hash(course: Course) -> None:
    course.did("both", 1, ("HSET", ["h"], ["x", "1", "y", "2"]))
    course.did("one", 3, ("HSET", ["h"], ["y", "1"]))
    course.did("hget", 5, ("HGET", ["h"], ["x"]), got=[["h", ["1"]]])
    course.did("all", 7, ("HGETALL", ["h"], []), got=[["h", ["x", "1", "y", "1"]]])
    course.did("more", 9, ("HINCRBY", ["h"], ["x", "5"]), got=[["h", ["6"]]])
    course.did("again", 11, ("HGET", ["h"], ["x"]), got=[["h", ["6"]]])
    assert course.links() == {"both value hget", "one value all", "more value again"}


def test_reads_without_a_value_depend_on_the_newest_change(course: Course) -> None:
    course.did("push", 1, ("LPUSH", ["q"], ["a"]))
    course.did("expire", 3, ("EXPIRE", ["q"], ["10"]))
    course.did("length", 5, ("LLEN", ["q"], []))
    course.did("del", 7, ("DEL", ["q"], []))
    course.did("none", 9, ("GET", ["q"], []), got=[["q", []]])
    course.did("unknown", 11, ("GET", ["nobody"], []), got=[["nobody", ["v"]]])
    assert course.links() == {"expire key length", "del key none"}


def test_members_that_are_read_stay(course: Course) -> None:
    course.did("add", 1, ("ZADD", ["z"], ["7", "m"]))
    for number in range(2):
        course.did(f"range{number}", 3 + number, ("ZRANGE", ["z"], ["0", "-1"]), got=[["z", ["m"]]])
    course.did("pop", 9, ("ZPOPMIN", ["z"], []), got=[["z", ["m", "7.0"]]])
    assert course.links() == {"add value range0", "add value range1", "add item pop"}


def test_stores_and_databases_are_kept_apart(course: Course) -> None:
    course.did("here", 1, ("SET", ["k"], ["a"]))
    course.did("there", 3, ("SET", ["k"], ["a"]), store="127.0.0.1:6379/1")
    course.did("get", 5, ("GET", ["k"], []), got=[["k", ["a"]]])
    assert course.links() == {"here value get"}


# --- pipelines


def test_a_pipeline_is_one_operation(course: Course) -> None:
    course.did("push", 1, ("LPUSH", ["q"], ["a", "b"]))
    course.did("set", 3, ("MSET", ["k1", "k2"], ["v1", "v2"]))
    commands = [
        ("RPOP", ["q"], []),
        ("EXISTS", ["k1"], []),
        ("GET", ["k2"], []),
        ("SET", ["k3"], ["c"]),
        ("GET", ["k3"], []),
    ]
    course.did("pipe", 5, *commands, got=[["q", ["a"]], ["k2", ["v2"]], ["k3", ["c"]]])
    course.did("get", 7, ("GET", ["k3"], []), got=[["k3", ["c"]]])
    assert course.links() == {"push item pipe", "set key pipe", "set value pipe", "pipe value get"}


# --- messages


def test_a_published_message_arrives_at_all_subscribers(course: Course) -> None:
    course.did("early", 1, ("PUBLISH", ["news"], ["x"]), pid=1)
    course.did("listen", 3, ("SUBSCRIBE", ["news"], []), pid=2)
    course.did("pattern", 3, ("PSUBSCRIBE", ["n*"], []), pid=3, store="127.0.0.1:6379/5")
    course.did("first", 5, ("PUBLISH", ["news"], ["x"]), pid=1)
    course.did("second", 7, ("PUBLISH", ["news"], ["x"]), pid=1)
    course.did("a", 9, ("MESSAGE", ["news"], ["x"]), pid=2)
    course.did("b", 11, ("MESSAGE", ["news"], ["x"]), pid=2)
    course.did("c", 13, ("MESSAGE", ["news"], ["x"]), pid=3, store="127.0.0.1:6379/5")
    course.did("d", 15, ("MESSAGE", ["old"], ["x"]), pid=3)
    assert course.links() == {"first message a", "second message b", "first message c"}


def test_links_of_a_pipeline_name_the_command_and_key(course: Course) -> None:
    both = (("SET", ["k"], ["v"]), ("RPUSH", ["q"], ["a"]), ("EXPIRE", ["k"], ["9"]))
    course.did("both", 1, *both)
    course.did("pop", 3, ("LPOP", ["other"], []), ("BLPOP", ["x", "q"], ["0"]), got=[["other", []], ["q", ["a"]]])
    course.did("get", 5, ("MGET", ["z", "k"], []), got=[["z", []], ["k", ["v"]]])
    course.did("ask", 7, ("EXISTS", ["k"], []))
    found = stores.links(course.columns())
    assert [tuple(detail) for detail in found.details] == [
        ("RPUSH", "BLPOP", "q"),
        ("SET", "MGET", "k"),
        ("EXPIRE", "EXISTS", "k"),
    ]
    assert [stores.KINDS[kind] for kind in found.kind.tolist()] == ["item", "value", "key"]


def test_a_read_value_is_a_link_and_not_a_cause(course: Course) -> None:
    """The trace has all relations; only items and messages are causes."""
    course.did("set", 1, ("SET", ["k"], ["v"]), pid=1)
    course.did("push", 3, ("RPUSH", ["q"], ["a"]), pid=1)
    course.did("get", 5, ("GET", ["k"], []), got=[["k", ["v"]]], pid=2)
    course.did("ask", 7, ("EXISTS", ["k"], []), pid=2)
    course.did("pop", 9, ("BLPOP", ["q"], ["0"]), got=[["q", ["a"]]], pid=3)
    analysis = analyse(course.columns())
    found = analysis.stores
    pairs = zip(found.source.tolist(), found.target.tolist(), found.kind.tolist(), found.causes.tolist(), strict=True)
    name = [course.names.get((e.pid, e.seq), "got") for e in analysis.columns.events()]
    assert [(name[a], name[b], found.kinds[kind], causes) for a, b, kind, causes in pairs] == [
        ("set", "get", "value", False),
        ("set", "ask", "key", False),
        ("push", "pop", "item", True),
    ]
    caused = {(name[int(analysis.cause[row])], name[row]) for row in range(len(name)) if analysis.cause[row] >= 0}
    assert ("push", "pop") in caused
    assert not {("set", "get"), ("set", "ask")} & caused
    assert not len(analysis.causal())


def test_items_are_told_from_what_is_only_read(course: Course) -> None:
    course.did("push", 1, ("LPUSH", ["q"], ["a"]))
    course.did("set", 2, ("SET", ["k"], ["a"]))
    course.did("get", 3, ("GET", ["k"], []), got=[["k", ["a"]]])
    course.did("pop", 5, ("RPOP", ["q"], []), got=[["q", ["a"]]])
    found = stores.links(course.columns())
    assert sorted(found.kind.tolist()) == [stores.ITEM, stores.VALUE]


# --- other stores


def test_a_store_of_its_own_table(course: Course) -> None:
    shelf = Commands(
        {
            "DEPOSIT": CommandEffect(puts=everything),
            "FETCH": CommandEffect(takes=True),
            "GET": CommandEffect(writes=first),
        }
    )
    course.did("deposit", 1, ("DEPOSIT", ["box"], ["a"]), kind="shelf", op="db.write")
    course.did("fetch", 3, ("FETCH", ["box"], []), kind="shelf", op="db.write", got=[["box", ["a"]]])
    course.did("odd", 5, ("GET", ["k"], ["v", "w"]), kind="shelf", op="db.read")
    course.did("read", 7, ("LOOK", ["k"], []), kind="shelf", op="db.read", got=[["k", ["v"]]])
    assert course.links(shelf=shelf) == {"deposit item fetch", "odd value read"}


def test_a_store_without_a_table_goes_by_its_operations(course: Course) -> None:
    course.did(
        "insert",
        1,
        ("INSERT", ["t/1"], ["a"]),
        ("UPDATE", ["t/2"], ["b"]),
        op="db.commit",
        store="pg:5432/app",
        kind="sql",
    )
    course.did(
        "select", 3, ("SELECT", ["t/2", "t/1"], []), op="db.read", got=[["t/2", ["b"]]], store="pg:5432/app", kind="sql"
    )
    course.did("watch", 5, ("EVENT", ["t/1"], ["a"]), op="msg.recv", store="pg:5432/app", kind="sql")
    assert course.links() == {"insert value select", "insert key select", "insert message watch"}


def test_texts_that_no_adapter_wrote_are_ignored(course: Course) -> None:
    for resource in ("SELECT t", '{"store":', '{"store":1,"do":[]}', '{"store":"s","do":[["GET"]]}'):
        course.events.append(event("db.read", resource=resource, t_ns=1, end_ns=2, seq=next(course._seq)))
    course.events.append(event("db.got", resource="[]", t_ns=3, end_ns=3, seq=next(course._seq)))
    assert len(stores.links(course.columns())) == 0
    assert uses(course.columns()) == ()
    assert len(stores.links(Columns.of([]))) == 0


def test_the_stores_of_a_run(course: Course) -> None:
    course.did("set", 1, ("SET", ["k"], ["a"]), ("DEL", ["x"], []), pid=1, target="PIPELINE(SET,DEL) peer:redis1")
    course.did("get", 3, ("GET", ["k"], []), pid=2, target="GET k peer:redis1")
    course.did("else", 5, ("GET", ["k"], []), pid=2, store="10.0.0.1:1/0", target="GET k other")
    other, redis = uses(course.columns())
    assert (redis.store, redis.node, redis.operations, redis.users) == (STORE, "redis1", 2, ("n1", "n2"))
    assert redis.commands == {"SET": 1, "DEL": 1, "GET": 1}
    assert (other.node, other.operations) == ("", 1)


Turn = tuple[int, int, int, bool, str]
"""Time since the turn before, how long the operation began before and ended after it, whether it pushes, and what."""


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.booleans(), st.sampled_from("ab")),
        max_size=100,
    )
)
def test_every_link_of_a_simulated_queue_is_found(turns: list[Turn]) -> None:
    """The server does one thing at a time; seen from outside, the operations overlap."""
    course = Course()
    queue: list[tuple[str, str]] = []
    expected, now = set(), 10
    for number, (pause, before, after, pushes, letter) in enumerate(turns):
        now += pause
        at = (now - before, now + after)
        if pushes or not queue:
            value = f"{letter}{number}"
            queue.append((f"push{number}", value))
            course.did(f"push{number}", at, ("LPUSH", ["q"], [value]), pid=number + 1)
        else:
            name, value = queue.pop(0)
            expected.add(f"{name} item pop{number}")
            course.did(f"pop{number}", at, ("BRPOP", ["q"], ["0"]), got=[["q", [value]]], pid=number + 1)
    assert course.links() == expected
