"""Adapters for redis-py, HTTP and asyncio's streams: their operations, and how faults look to a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from library_targets import CLIENTS, GETS, SERVER, run, use


def seen(outcome: Any) -> list[str]:
    return [line for line in outcome.short("msg.", "db.") if not line.startswith("db.got")]


# --- redis


COMMANDS = """
    import redis
    client = redis.Redis(port=PORT)
    client.flushall()
    print(client.set("user:17", "x"), client.get("user:17"), client.get(b"user:18"), client.exists("a"))
    with client.pipeline() as pipe:
        print(pipe.set("a", 1).set("b", 2).delete("user:17").execute())
    client.rpush("queue", "job")
    print(client.blpop("queue", 1), client.eval("return 1", 1, "key:5"))
    def transfer(pipe):
        value = int(pipe.get("a"))
        pipe.multi()
        pipe.set("a", value + 1)
    print(client.transaction(transfer, "a"))
    listener = client.pubsub()
    listener.subscribe("news")
    while listener.get_message(timeout=200)["type"] != "subscribe":
        pass
    print(client.publish("news", "hello"))
    print(listener.get_message(timeout=200)["data"])
"""
SEEN = [
    "db.write FLUSHALL peer:cache",
    "db.write SET user:<n> peer:cache",
    "db.read GET user:<n> peer:cache",
    "db.read GET user:<n> peer:cache",
    "db.read EXISTS a peer:cache",
    "db.write PIPELINE(SET,DEL) peer:cache",
    "db.write RPUSH queue peer:cache",
    "db.write BLPOP queue peer:cache",
    "db.write EVAL key:<n> peer:cache",
    "db.read WATCH a peer:cache",
    "db.read GET a peer:cache",
    "db.write PIPELINE(SET) peer:cache",
    "msg.send SUBSCRIBE news peer:cache",
    "msg.send PUBLISH news peer:cache",
    "msg.recv MESSAGE news peer:cache",
]


def test_redis_commands_pipelines_and_messages_are_operations(tool, redis_port):
    use(tool, "redis", cache=redis_port)
    outcome = run(tool, COMMANDS, PORT=redis_port).ok()
    assert outcome.out.splitlines() == [
        "True b'x' None 0",
        "[True, True, 1]",
        "(b'queue', b'job') 1",
        "[True]",
        "1",
        "b'hello'",
    ]
    assert seen(outcome) == SEEN
    assert "net.send peer:cache" not in outcome.short("net.")
    first = outcome.of("db.write")[1]
    assert json.loads(first.resource) == {
        "store": f"127.0.0.1:{redis_port}/0",
        "kind": "redis",
        "do": [["SET", ["user:17"], ["x"]]],
    }


def test_the_keys_of_commands_tell_them_apart_if_the_target_masks_numbers(tool, redis_port):
    use(tool, "redis", cache=redis_port)
    tool.more_config["contents"] = [["db.read", "GET user:<n> peer:cache"], ["db.write", "PIPELINE(SET,DEL) peer:cache"]]
    outcome = run(tool, COMMANDS, PORT=redis_port).ok()
    assert seen(outcome) == SEEN
    contents = {(event.op, event.target): [] for event in outcome.trace if event.content}
    for event in outcome.trace:
        contents.get((event.op, event.target), []).append(event.content)
    assert contents == {
        ("db.read", "GET user:<n> peer:cache"): ["user:17", "user:18"],
        ("db.write", "PIPELINE(SET,DEL) peer:cache"): ["a b user:17"],
    }


def test_redis_commands_with_asyncio_are_operations(tool, redis_port):
    use(tool, "redis", cache=redis_port)
    outcome = run(
        tool,
        """
        import asyncio
        import redis.asyncio as redis
        async def main():
            client = redis.Redis(host="127.0.0.1", port=PORT)
            await client.flushall()
            print(await client.set("user:17", "x"), await client.get("user:17"))
            async with client.pipeline() as pipe:
                print(await pipe.set("a", 1).append("a", 2).execute())
            listener = client.pubsub()
            await listener.subscribe("news")
            while (await listener.get_message(timeout=200))["type"] != "subscribe":
                pass
            await client.publish("news", "hello")
            print((await listener.get_message(timeout=200))["data"])
            await listener.aclose() if hasattr(listener, "aclose") else await listener.close()
            await client.aclose() if hasattr(client, "aclose") else await client.close()
        asyncio.run(main())
        """,
        PORT=redis_port,
    ).ok()
    assert outcome.out.splitlines() == ["True b'x'", "[True, 2]", "b'hello'"]
    sent = [line for line in seen(outcome) if "UNSUBSCRIBE" not in line]
    assert sent == [
        "db.write FLUSHALL peer:cache",
        "db.write SET user:<n> peer:cache",
        "db.read GET user:<n> peer:cache",
        "db.write PIPELINE(SET,APPEND) peer:cache",
        "msg.send SUBSCRIBE news peer:cache",
        "msg.send PUBLISH news peer:cache",
        "msg.recv MESSAGE news peer:cache",
    ]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"fault": "error", "error": "ETIMEDOUT", "scope": "once"}, "TimeoutError None"),
        ({"fault": "error", "error": "ECONNRESET", "scope": "once"}, "ConnectionError None"),
        ({"fault": "error", "error": "ECONNREFUSED", "scope": "once"}, "ConnectionError None"),
        ({"fault": "drop"}, "True None"),
        ({"fault": "delay", "delay_s": 0.05, "mode": "operation"}, "True b'1'"),
    ],
)
@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_faults_at_a_redis_command_take_effect(tool, redis_port, fault, said, way):
    use(tool, "redis", cache=redis_port)
    tool.step(fault, {"op": "db.write", "target": "SET y peer:cache"})
    plain = """
        import redis
        client = redis.Redis(port=PORT)
        client.flushall()
        try:
            print(client.set("y", 1))
        except redis.exceptions.RedisError as error:
            print(type(error).__name__)
        print(client.get("y"))
    """
    awaiting = """
        import asyncio, redis.asyncio, redis.exceptions
        async def main():
            client = redis.asyncio.Redis(port=PORT)
            await client.flushall()
            try:
                print(await client.set("y", 1))
            except redis.exceptions.RedisError as error:
                print(type(error).__name__)
            print(await client.get("y"))
            await client.connection_pool.disconnect()
        asyncio.run(main())
    """
    outcome = run(tool, plain if way == "threads" else awaiting, PORT=redis_port).ok()
    assert outcome.out.split() == said.split()


def test_a_pop_that_is_dropped_returns_nothing(tool, redis_port):
    """A pop changes the store, so faults can follow it too. A dropped one finds nothing."""
    use(tool, "redis", cache=redis_port)
    for name in ("BLPOP", "LPOP", "ZPOPMIN"):
        tool.step({"fault": "drop"}, {"op": "db.write", "target": f"{name} q peer:cache"})
    outcome = run(
        tool,
        """
        import redis
        client = redis.Redis(port=PORT)
        print(client.blpop("q", 1), client.lpop("q"), client.zpopmin("q"))
        """,
        PORT=redis_port,
    ).ok()
    assert outcome.out.splitlines() == ["None None []"]


def test_a_redis_message_can_be_dropped(tool, redis_port):
    use(tool, "redis", cache=redis_port)
    tool.step({"fault": "drop"}, {"op": "msg.recv", "target": "MESSAGE news peer:cache"})
    outcome = run(
        tool,
        """
        import redis
        client = redis.Redis(port=PORT)
        listener = client.pubsub(ignore_subscribe_messages=True)
        listener.subscribe("news")
        while not client.pubsub_numsub("news")[0][1]:
            pass
        print([client.publish("news", text) for text in ("one", "two")])
        for message in listener.listen():
            if message is not None:
                print(message["data"])
                break
        """,
        PORT=redis_port,
    ).ok()
    assert outcome.out.splitlines() == ["[1, 1]", "b'two'"]


# --- HTTP


@pytest.mark.parametrize("client", CLIENTS)
def test_http_requests_and_answers_are_messages(tool, client):
    if client == "urllib3":
        pytest.importorskip("urllib3")
    port = free_port()
    use(tool, "http", s2=port)
    tool.packages = ["target"]
    calls = '\n    print(get("/item/17?x=1"), get("/absent"))'
    outcome = run(tool, SERVER + CLIENTS[client] + calls, PORT=port).ok()
    assert outcome.out == "/item/17?x=1 /absent\n"
    assert [line for line in seen(outcome) if line.endswith("peer:s2")] == [
        "msg.send GET /item/<n> peer:s2",
        "msg.recv 200 GET /item/<n> peer:s2",
        "msg.send GET /absent peer:s2",
        "msg.recv 404 GET /absent peer:s2",
    ]
    received = [line for line in seen(outcome) if not line.endswith("peer:s2")]
    assert [line.rpartition(" ")[0] for line in received] == ["msg.recv GET /item/<n>", "msg.recv GET /absent"]
    assert not [line for line in outcome.short("net.send") if line.endswith("peer:s2")]


@pytest.mark.parametrize("client", ["http.client", "urllib3"])
@pytest.mark.parametrize(
    ("fault", "op", "said"),
    [
        ({"fault": "drop"}, "msg.send", {"RemoteDisconnected", "ProtocolError"}),
        ({"fault": "drop"}, "msg.recv", {"RemoteDisconnected", "ProtocolError"}),
        (
            {"fault": "error", "error": "ECONNRESET", "scope": "once"},
            "msg.send",
            {"ConnectionResetError", "ProtocolError"},
        ),
    ],
)
def test_faults_at_http_messages_take_effect(tool, client, fault, op, said):
    if client == "urllib3":
        pytest.importorskip("urllib3")
    port = free_port()
    use(tool, "http", s2=port)
    tool.step(fault, {"op": op, "target": ("200 " if op == "msg.recv" else "") + "GET /b peer:s2"})
    outcome = run(tool, SERVER + CLIENTS[client] + GETS, PORT=port).ok()
    first, second, third = outcome.out.split()
    assert (first, third) == ("/a", "/c")
    assert second in said
    lost = [event.target for event in outcome.trace if event.error == "LOST"]
    assert len(lost) == (1 if fault["fault"] == "drop" else 0)


# --- asyncio's streams


def test_streams_are_messages_by_call_site(tool, any_python):
    tool.python = any_python
    port = free_port()
    use(tool, "streams", s2=port)
    tool.step({"fault": "drop"}, {"op": "msg.send", "loc": "__main__:ask#1", "nth": 2})
    outcome = tool.run(
        f"""
        import asyncio
        async def serve(reader, writer):
            while line := await reader.readline():
                writer.write(b"re: " + line)
                await writer.drain()
            writer.close()
        async def ask(reader, writer, text):
            writer.write(text.encode() + b"\\n")
            await writer.drain()
            return reader.readline()
        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", {port})
            reader, writer = await asyncio.open_connection("127.0.0.1", {port})
            first = await (await ask(reader, writer, "one"))
            await ask(reader, writer, "two")
            (await ask(reader, writer, "three")).close()
            print(first, await reader.readline())
            writer.close()
            server.close()
        asyncio.run(main())
        """
    ).ok()
    assert outcome.out == "b're: one\\n' b're: three\\n'\n"
    client = [line for line in seen(outcome) if line.endswith("peer:s2")]
    assert len([line for line in client if line.startswith("msg.send __main__:ask#")]) == 3
    assert len([line for line in client if line.startswith("msg.recv __main__:main#")]) == 2


# --- one of one's own


def test_the_adapter_in_the_documentation_works(tool, any_python, tmp_path):
    """The example of docs/adapters.md, with a library like the one it describes."""
    tool.python = any_python
    text = (Path(__file__).parents[3] / "docs" / "adapters.md").read_text()
    adapter = tmp_path / "undermine_mq.py"
    adapter.write_text(text.split("```python\n")[1].split("```")[0])
    library = tool.folder / "mq"
    library.mkdir()
    (library / "__init__.py").write_text("from mq.channel import Channel\n")
    (library / "channel.py").write_text(
        "class ConnectionLost(Exception): pass\n"
        "class Message:\n    def __init__(self, topic): self.topic = topic\n"
        "class Channel:\n"
        "    host, port = '127.0.0.1', 4002\n"
        "    def __init__(self): self.queue = []\n"
        "    def publish(self, topic, body): self.queue.append(Message(topic)); return True\n"
        "    def get(self, timeout=None): return self.queue.pop(0) if self.queue else None\n"
    )
    use(tool, str(adapter), s2=4002)
    tool.step({"fault": "drop"}, {"op": "msg.recv", "target": "b peer:s2"})
    tool.step({"fault": "error", "error": "EPIPE", "scope": "once"}, {"op": "msg.send", "target": "d peer:s2"})
    outcome = tool.run(
        """
        import mq
        channel = mq.Channel()
        for topic in "abcd":
            try:
                print(channel.publish(topic, b"body"))
            except Exception as error:
                print(type(error).__name__, error)
        print(channel.get().topic, channel.get(timeout=1).topic, channel.get())
        """,
        python_path=str(tool.folder),
    ).ok()
    assert outcome.out.splitlines() == ["True", "True", "True", "ConnectionLost Broken pipe", "a c None"]
    assert [event.size for event in outcome.of("msg.send")] == [4, 4, 4, 4]
    assert seen(outcome)[4:] == ["msg.recv a peer:s2", "msg.recv b peer:s2", "msg.recv c peer:s2"]


def test_an_adapter_can_name_the_content(tool, tmp_path):
    adapter = tmp_path / "terms.py"
    adapter.write_text(
        "def install(hooks):\n"
        "    send = dict(kind='vote', content=lambda value, **_: 'term %d' % value)\n"
        "    hooks.when_imported('json', lambda m: hooks.function(m, 'dumps', 'msg.send', **send))\n"
    )
    use(tool, str(adapter))
    tool.more_config["contents"] = [["msg.send", "vote other"]]
    outcome = tool.run("import json; json.dumps(1); json.dumps(2)").ok()
    assert [event.content for event in outcome.of("msg.send")] == ["term 1", "term 2"]


def test_a_broken_adapter_is_reported_and_harms_nothing(tool, tmp_path):
    broken, wrong = tmp_path / "broken.py", tmp_path / "wrong.py"
    broken.write_text("def install(hooks): raise KeyError('no')")
    wrong.write_text(
        "def install(hooks): hooks.when_imported('json', lambda m: hooks.function(m, 'dumps', 'msg.send', lambda x: x.y))"
    )
    use(tool, str(broken), str(wrong), "unheard-of")
    outcome = tool.run("import json; print(json.dumps(1))")
    assert (outcome.code, outcome.out) == (0, "1\n")
    said = "".join(path.read_text() for path in tool.trace_dir.glob("*.agent-error"))
    for part in ("adapter broken: KeyError", "dumps: AttributeError", "there is no adapter 'unheard-of'"):
        assert part in said


def test_adapters_import_nothing_of_their_libraries(tool):
    use(tool, "redis", "http", "streams")
    outcome = tool.run("import sys; print({'redis', 'http', 'asyncio'} & {n.split('.')[0] for n in sys.modules})").ok()
    assert outcome.out == "set()\n"
