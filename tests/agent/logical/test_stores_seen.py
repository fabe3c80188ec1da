"""Operations on a store: the recorded keys, values and answers are enough to link them."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tables import for_each

from undermine.analysis.stores.links import KINDS, links
from undermine.analysis.stores.usage import uses
from undermine.model.codec import read_columns
from undermine.model.event import Event

SITE = str(Path(pytest.__file__).resolve().parents[1])
AGENT = Path(__file__).resolve().parents[3] / "agents" / "python"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that writes the texts; the agent itself isn't loaded."""
    monkeypatch.syspath_prepend(str(AGENT))
    yield importlib.import_module("undermine_agent.logical.store_calls")
    for name in [name for name in sys.modules if name.startswith("undermine_agent")]:
        del sys.modules[name]


# --- texts


def said(call: Any) -> Any:
    return json.loads(call.text())


def test_keys_and_values_of_all_kinds_are_shown(texts: Any) -> None:
    call = texts.StoreCall("h:1/0", [("SET", [b"k\xff", 7], ["ü", b"x", 1.5, None, {"f": [b"v", {"w"}]}])], "redis")
    assert said(call) == {
        "store": "h:1/0",
        "kind": "redis",
        "do": [["SET", ["k\\xff", "7"], ["ü", "x", "1.5", "f", "v", "w"]]],
    }
    assert json.loads(call.text_of([(b"k", [b"v"]), ("l", None)])) == {
        "store": "h:1/0",
        "got": [["k", ["v"]], ["l", []]],
    }


def test_long_values_have_the_same_digest_as_text_and_as_bytes(texts: Any) -> None:
    assert texts.short("x" * 64) == "x" * 64
    assert texts.short("x" * 65) == texts.short(b"x" * 65) != texts.short("x" * 66)
    assert texts.short("ü" * 40).startswith("#")
    assert len(texts.short(b"x" * 65)) == 13


@pytest.mark.parametrize(
    ("commands", "kept"),
    [
        ([("SET", ["k"], ["v"])] * 21, 20),
        ([("RPUSH", ["k"], ["v"] * 41)], 1),
        ([("RPUSH", ["k"], ["é" * 32] * 40)] * 3, 0),
        ([("RPUSH", ["k" * 60], ["v" * 60] * 20)] * 10, 2),
    ],
)
def test_texts_are_bounded(texts: Any, commands: Any, kept: int) -> None:
    call = texts.StoreCall("h:1/0", commands)
    assert len(call.text()) <= 3500
    assert (len(said(call)["do"]), said(call)["more"]) == (kept, True)
    assert all(len(values) <= 40 for _, _, values in said(call)["do"])


# --- redis


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The adapter's own functions."""
    monkeypatch.syspath_prepend(str(AGENT))
    yield importlib.import_module("undermine_agent.adapters.redis")
    for name in [name for name in sys.modules if name.startswith("undermine_agent")]:
        del sys.modules[name]


@for_each(
    ("words", "keys", "values"),
    [
        ("SET k v EX 5", "k", "v EX 5"),
        ("DEL a b", "a b", ""),
        ("MSET a 1 b 2", "a b", "1 2"),
        ("BLPOP q1 q2 0", "q1 q2", "0"),
        ("BLMOVE q busy LEFT RIGHT 0", "q busy", "LEFT RIGHT 0"),
        ("EVAL script 2 k1 k2 a b", "k1 k2", "a b"),
        ("EVALSHA sha 0 a", "", "a"),
        ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b", "WEIGHTS 1 2"),
        ("LMPOP 2 a b LEFT", "a b", "LEFT"),
        ("BZMPOP 0 1 z MIN", "z", "MIN"),
        ("XREADGROUP GROUP g c COUNT 1 STREAMS s t > 0-1", "s t", "GROUP g c COUNT 1 > 0-1"),
        ("XGROUP CREATE s g $", "s", "CREATE g $"),
        ("BITOP AND d a b", "d a b", "AND"),
        ("PUBLISH news hello", "news", "hello"),
        ("PING", "", ""),
        ("SELECT 3", "", "3"),
    ],
)
def test_keys_are_found_among_the_words_of_a_command(redis: Any, words: str, keys: str, values: str) -> None:
    found = redis.command_in(None, words.split())
    assert found == [(words.split()[0], keys.split(), values.split())]


def test_a_command_may_come_with_its_second_word_and_with_lists(redis: Any) -> None:
    assert redis.command_in(None, ("XGROUP CREATE", "s", "g")) == [("XGROUP", ["s"], ["CREATE", "g"])]
    assert redis.command_in(None, ("BLPOP", ["a", "b"], 1)) == [("BLPOP", ["a", "b"], [1])]
    assert redis.command_in(None, (b"get", b"k")) == [("GET", [b"k"], [])]


PROGRAM = """
    import redis, threading
    client = redis.Redis(port=PORT)
    client.flushall()
    def work():
        mine = redis.Redis(host="127.0.0.1", port=PORT)
        print(mine.blpop(["other", "queue"], 5)[1], mine.blmove("queue2", "busy", 5) if hasattr(mine, "blmove") else "")
    worker = threading.Thread(target=work)
    worker.start()
    client.rpush("queue", "job1")
    client.lpush("queue2", "x" * 100)
    worker.join()
    client.lrem("busy", 0, "x" * 100)
    with client.pipeline() as pipe:
        pipe.hset("h", mapping={"f": 1, "g": "two"})
        pipe.incr("n").set("k", "v", ex=60).expire("h", 60)
        print(pipe.execute())
    client.hget("h", "g"), client.hgetall("h"), client.get("n"), client.get("k"), client.exists("k")
    client.delete("k")
    client.get("k")
    client.eval("return redis.call('RPUSH', KEYS[1], ARGV[1])", 1, "lua", "item")
    client.lpop("lua")
    client.zadd("z", {"m": 2})
    client.zrangebyscore("z", 0, 9)
    client.zpopmin("z")
    client.xgroup_create("s", "g", mkstream=True)
    client.xadd("s", {"f": "v"})
    client.xreadgroup("g", "c", {"s": ">"})
"""
LINKS = {
    "RPUSH item BLPOP",
    "LPUSH item BLMOVE",
    "HSET,INCRBY,SET,EXPIRE value HGET",
    "HSET,INCRBY,SET,EXPIRE value HGETALL",
    "HSET,INCRBY,SET,EXPIRE value GET",
    "HSET,INCRBY,SET,EXPIRE key EXISTS",
    "DEL key GET",
    "EVAL item LPOP",
    "ZADD value ZRANGEBYSCORE",
    "ZADD item ZPOPMIN",
    "XADD item XREADGROUP",
}


def observe(tool: Any, port: int, **more: Any) -> None:
    tool.addresses = {f"127.0.0.1:{port}": "cache"}
    tool.more_config = {"nodes": ["s1", "cache"], "adapters": [{"adapter": "redis"}], **more}


def run(tool: Any, source: str, port: int) -> Any:
    return tool.run(source.replace("PORT", str(port)), python_path=SITE).ok()


def named(event: Event) -> str:
    return ",".join(command for command, *_ in json.loads(event.resource)["do"])


def linked(tool: Any) -> set[str]:
    columns = read_columns(tool.trace_dir)
    found = links(columns)
    assert (columns.t[found.source] < columns.end[found.target]).all()
    pairs = zip(found.source.tolist(), found.target.tolist(), found.kind.tolist(), strict=True)
    return {f"{named(columns.event(a))} {KINDS[kind]} {named(columns.event(b))}" for a, b, kind in pairs}


def test_redis_operations_of_a_program_are_linked(tool: Any, redis_port: int) -> None:
    observe(tool, redis_port)
    outcome = run(tool, PROGRAM, redis_port)
    assert outcome.out.splitlines()[1] == "[2, 1, True, True]"
    assert linked(tool) == LINKS
    (use,) = uses(read_columns(tool.trace_dir))
    assert (use.store, use.node, use.users) == (f"127.0.0.1:{redis_port}/0", "cache", ("s1",))
    pops = [event for event in outcome.of("db.write") if "BLPOP" in event.target]
    (got,) = [event for event in outcome.of("db.got") if event.size == pops[0].seq]
    assert json.loads(got.resource)["got"] == [["queue", ["job1"]]]
    assert (got.target, got.thread, got.kind) == (pops[0].target, pops[0].thread, "raw")
    assert got.t_ns >= pops[0].end_ns


AWAITING = """
    import asyncio
    import redis.asyncio as redis
    async def worker(client, listener):
        print((await client.blpop("queue", 5))[1])
        async for message in listener.listen():
            if message["type"] == "message":
                return message["data"]
    async def main():
        client = redis.Redis(host="127.0.0.1", port=PORT)
        await client.flushall()
        listener = client.pubsub()
        await listener.subscribe("news")
        task = asyncio.create_task(worker(client, listener))
        await asyncio.sleep(0)
        async with client.pipeline(transaction=True) as pipe:
            print(await pipe.rpush("queue", "job").set("k", "v").get("k").execute())
        while not await client.publish("news", "hello"):
            await asyncio.sleep(0.01)
        print(await task, await client.get("k"))
        await listener.aclose() if hasattr(listener, "aclose") else await listener.close()
        await client.aclose() if hasattr(client, "aclose") else await client.close()
    asyncio.run(main())
"""


def test_redis_operations_with_asyncio_and_messages_are_linked(tool: Any, redis_port: int) -> None:
    observe(tool, redis_port)
    outcome = run(tool, AWAITING, redis_port)
    assert sorted(outcome.out.splitlines()) == ["[1, True, b'v']", "b'hello' b'v'", "b'job'"]
    assert linked(tool) == {"RPUSH,SET,GET item BLPOP", "PUBLISH message MESSAGE", "RPUSH,SET,GET value GET"}


APART = """
    import redis, threading
    client = redis.Redis(host="127.0.0.1", port=PORT)
    client.flushall()
    connection = client.connection_pool.get_connection("_")
    connection.send_command("BRPOP", "queue", 5)
    other = threading.Thread(target=redis.Redis(host="127.0.0.1", port=PORT).lpush, args=("queue", "job"))
    other.start()
    print(client.parse_response(connection, "BRPOP"), client.get("k"))
    other.join()
"""


def test_a_command_that_is_sent_in_one_call_and_answered_in_another_is_one_operation(tool: Any, redis_port: int) -> None:
    observe(tool, redis_port)
    outcome = run(tool, APART, redis_port)
    assert outcome.out == "(b'queue', b'job') None\n"
    assert linked(tool) == {"LPUSH item BRPOP"}
    assert [named(event) for event in outcome.of("db.read", "db.write")].count("BRPOP") == 1
    assert [named(event) for event in outcome.of("db.read")] == ["GET"]


def test_a_dropped_answer_is_not_given_to_the_next_command(tool: Any, redis_port: int) -> None:
    observe(tool, redis_port)
    tool.step({"fault": "drop"}, {"op": "db.write", "target": "BRPOP queue peer:cache"})
    again = 'connection.send_command("GET", "k"), client.parse_response(connection, "GET")'
    outcome = run(tool, APART.replace('client.get("k")', again), redis_port)
    assert outcome.out == "None None None\n"
    assert len(outcome.receipts) == 1


def test_commands_sent_by_a_connection_are_not_part_of_other_operations(tool: Any, redis_port: int) -> None:
    observe(tool, redis_port)
    program = """
        import redis
        client = redis.Redis(host="127.0.0.1", port=PORT)
        with client.pipeline() as pipe:
            pipe.watch("x")
        client.publish("news", "hello")
    """
    outcome = run(tool, program, redis_port)
    assert [named(event) for event in outcome.of("db.read", "db.write", "msg.send")] == ["WATCH", "PUBLISH"]


def test_answers_are_recorded_only_if_observed(tool: Any, redis_port: int) -> None:
    observe(tool, redis_port, observe=["sync"])
    outcome = run(tool, PROGRAM, redis_port)
    assert outcome.of("db.got") == []
    assert [["RPUSH", ["queue"], ["job1"]]] in [json.loads(event.resource)["do"] for event in outcome.of("db.write")]


def test_a_step_never_fires_at_an_answer(tool: Any, redis_port: int) -> None:
    observe(tool, redis_port)
    tool.step({"fault": "error", "error": "ETIMEDOUT", "scope": "once"}, {"op": "db.got"})
    outcome = run(tool, "import redis; print(redis.Redis(port=PORT).incr('x' * 9))", redis_port)
    assert outcome.of("db.got")
    assert outcome.receipts == ()
