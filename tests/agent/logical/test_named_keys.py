"""Functions that the user names with their keys and values are operations on a store."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

CLIENT = """
    import asyncio, enum, pathlib

    class Level(enum.Enum):
        HIGH = 1

    class Handle:
        pass

    class Client:
        def __init__(self):
            self.address, self.data = ("127.0.0.1", 7000), {}
        def put(self, key, *values):
            self.data[str(key)] = values[0]
        async def get_all(self, *keys):
            await asyncio.sleep(0)
            return [self.data.get(str(key)) for key in keys]

    class Reply:
        def __init__(self, body):
            self.body = body

    def fetch(client, key):
        return Reply(client.data[key])
"""


@pytest.fixture
def target(tool: Any) -> Any:
    (tool.folder / "kv.py").write_text(textwrap.dedent(CLIENT))
    tool.more_config = {"nodes": ["s1", "s2", "s3"], "operations": []}
    return tool


def name(tool: Any, function: str, op: str, keys: list[str], values: list[str], **more: Any) -> None:
    paths = {"keys": [{"argument": path} for path in keys], "values": [{"argument": path} for path in values]}
    tool.more_config["operations"].append({"function": function, "op": op, **paths, **more})


def recorded(tool: Any, source: str) -> list[tuple[str, Any]]:
    outcome = tool.run("from kv import *\nclient = Client()\n" + textwrap.dedent(source), python_path=str(tool.folder)).ok()
    assert not list(tool.trace_dir.glob("*.agent-error"))
    shown = [(event.op, json.loads(event.resource)) for event in outcome.trace if event.op.startswith("db.")]
    return [(op, told.get("do") or told["got"]) for op, told in shown]


def test_keys_and_values_are_texts_of_any_objects(target, any_python):
    target.python = any_python
    name(target, "kv:Client.put", "db.write", ["key"], ["values"], store={"argument": "self.address"})
    found = recorded(
        target,
        """
        client.put(pathlib.PurePosixPath("/jobs/1"), {"state": [b"new", 7]}, None, Level.HIGH, Handle(), b"\\xff")
        """,
    )
    assert found == [("db.write", [["put", ["/jobs/1"], ["state", "new", "7", "HIGH", "Handle", "\\xff"]]])]


def test_the_store_is_named_by_a_path(target):
    name(target, "kv:Client.put", "db.write", ["key"], [], store={"argument": "self.address"})
    outcome = target.run("from kv import *\nClient().put('a', 1)", python_path=str(target.folder)).ok()
    (write,) = outcome.of("db.write")
    assert json.loads(write.resource)["store"] == "127.0.0.1:7000"


def test_a_coroutine_reads_a_value_for_each_of_its_keys(target, any_python):
    target.python = any_python
    name(target, "kv:Client.get_all", "db.read", ["keys"], ["return"])
    found = recorded(target, "client.data.update(a='1', b='2')\nasyncio.run(client.get_all('a', 'b'))")
    assert found == [("db.read", [["get_all", ["a", "b"], []]]), ("db.got", [["a", ["1"]], ["b", ["2"]]])]


def test_a_value_is_found_inside_the_result(target):
    name(target, "kv:fetch", "db.read", ["key"], ["return.body"])
    found = recorded(target, "client.data['a'] = 'text'\nprint(fetch(client, 'a').body)")
    assert found == [("db.read", [["fetch", ["a"], []]]), ("db.got", [["a", ["text"]]])]


def test_a_read_without_values_records_no_answer(target):
    name(target, "kv:fetch", "db.read", ["key"], [])
    found = recorded(target, "client.data['a'] = 'text'\nfetch(client, 'a')")
    assert found == [("db.read", [["fetch", ["a"], []]])]
