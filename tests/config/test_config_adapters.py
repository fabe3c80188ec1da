"""The keys `operations` and `adapters` of a role: what is valid, what is refused, and what the agents are told."""

from __future__ import annotations

import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec
import pytest
from tables import for_each

from undermine.config import adapters
from undermine.config.load import load
from undermine.config.schema import Config, LogicalOperation
from undermine.model.errors import UserError
from undermine.run.agent_files import logical_operations

MINIMAL = """\
[workload]
command = "true"
[roles.store]
nodes = 2
command = "{python} -m server"
"""


def loaded(project: Path, lines: str) -> Config:
    path = project / "undermine.toml"
    path.write_text(MINIMAL + textwrap.dedent(lines))
    return load(path)


def refusal(project: Path, lines: str) -> str:
    with pytest.raises(UserError) as caught:
        loaded(project, lines)
    return str(caught.value).replace(f"{project}/", "")


def told(config: Config) -> dict[str, object]:
    return logical_operations(config.roles["store"], config.project)


def test_without_the_keys_the_usual_adapters_are_on(tmp_path: Path) -> None:
    usual = [{"adapter": "http"}, {"adapter": "redis"}, {"adapter": "tornado"}]
    assert told(loaded(tmp_path, "")) == {"operations": [], "adapters": usual}


def test_operations_reach_the_agent(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """\
        adapters = []
        [[roles.store.operations]]
        function = "myapp.net:Peer.send"
        op = "msg.send"
        kind = "message.type"
        peer = "self.address[0]"
        size = "2"
        [[roles.store.operations]]
        function = "myapp.net:beat"
        op = "msg.recv"
        kind = "=heartbeat"
        """,
    )
    assert told(config) == {
        "operations": [
            {
                "function": "myapp.net:Peer.send",
                "op": "msg.send",
                "kind": {"argument": "message.type"},
                "peer": {"argument": "self.address[0]"},
                "size": {"argument": "2"},
            },
            {"function": "myapp.net:beat", "op": "msg.recv", "kind": {"text": "heartbeat"}},
        ],
        "adapters": [],
    }
    assert msgspec.json.decode(msgspec.json.encode(config), type=Config) == config
    assert config.roles["store"].operations[1] == LogicalOperation("myapp.net:beat", "msg.recv", "=heartbeat")


def test_keys_and_values_reach_the_agent_as_lists(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """\
        operations = [
            {function = "kv:Client.put", op = "db.write", store = "=kv", keys = "key", values = ["value", "=x"]},
            {function = "kv:Client.get", op = "db.read", keys = ["1", "2.name"], values = "return[data]"},
        ]
        """,
    )
    assert told(config)["operations"] == [
        {
            "function": "kv:Client.put",
            "op": "db.write",
            "store": {"text": "kv"},
            "keys": [{"argument": "key"}],
            "values": [{"argument": "value"}, {"text": "x"}],
        },
        {
            "function": "kv:Client.get",
            "op": "db.read",
            "keys": [{"argument": "1"}, {"argument": "2.name"}],
            "values": [{"argument": "return[data]"}],
        },
    ]
    assert msgspec.json.decode(msgspec.json.encode(config), type=Config) == config


@for_each(
    ("lines", "line", "said"),
    [
        (
            'operations = [\n  {function = "a:b", op = "msg.send", keys = "x"}]',
            7,
            'operations.keys is only for "db.read", "db.write" and "db.commit", not for "msg.send"; remove it',
        ),
        (
            'operations = [{function = "a:b", op = "db.write", keys = ["x", "y..z"]}]',
            6,
            'operations.keys must be a path that starts at a parameter, like "message.type" or "0[key]", or "=" and a text, '
            'not "y..z"',
        ),
        (
            'operations = [{function = "a:b", op = "db.write", keys = 1}]',
            6,
            'operations.keys must be a path, like "key", or a list of paths, not 1',
        ),
        (
            'operations = [{function = "a:b", op = "db.write", keys = "return.path"}]',
            6,
            "operations.keys must be known before the function returns; start the path at a parameter",
        ),
        (
            'operations = [{function = "a:b", op = "db.commit", keys = "x", values = "return"}]',
            6,
            "operations.values must be known before the function returns",
        ),
        (
            'operations = [{function = "a:b", op = "db.read", keys = "x", values = ["return", "returned"]}]',
            6,
            'operations.values of a "db.read" are the values that it returned; start each path with "return"',
        ),
        ('operations = [{function = "a:b", op = "db.write", values = "x"}]', 6, "operations.values needs `keys`"),
        ('operations = [{function = "a:b", op = "db.write", store = "=x"}]', 6, "operations.store needs `keys`"),
        ("operations = 1", 6, "roles.store.operations must be a list of tables"),
        ('operations = ["x"]', 6, "roles.store.operations must be a table"),
        ('operations = [{op = "msg.send"}]', 6, "roles.store.operations.function is missing"),
        (
            'operations = [\n  {function = "a:b", op = "net.send"}]',
            7,
            'operations.op must be one of "msg.send", "msg.recv", "db.read", "db.write", "db.commit", not "net.send"',
        ),
        ('operations = [{function = "a.b", op = "msg.send"}]', 6, 'must be written like "package.module:Class.method"'),
        (
            'operations = [{function = "a:b", op = "msg.send", kind = "x..y"}]',
            6,
            "operations.kind must be a path that starts at a parameter",
        ),
        (
            'operations = [{function = "a:b", op = "msg.send", kid = "x"}]',
            6,
            'kid is not a known key; did you mean "kind"?',
        ),
        ('adapters = "redis"', 6, "roles.store.adapters must be a list of texts"),
        (
            'adapters = ["http",\n"reddis"]',
            7,
            'names the unknown adapter "reddis"; did you mean "redis"? (known adapters: http, redis, streams, tornado; '
            "or give a .py file of your project)",
        ),
        ('adapters = ["mine.py"]', 6, "names the file mine.py, which does not exist"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, lines: str, line: int, said: str) -> None:
    message = refusal(tmp_path, lines)
    assert message.startswith(f"undermine.toml:{line}: ")
    assert said in message


def test_an_adapter_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit('never run by the tool')")
    config = loaded(tmp_path, 'adapters = ["streams", "mine.py"]')
    assert told(config)["adapters"] == [
        {"adapter": "streams"},
        {"adapter": "mine", "path": str(tmp_path / "mine.py")},
    ]


def test_an_adapter_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "other_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kafka.py").write_text("raise SystemExit('never run by the tool')")
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = [
        EntryPoint("kafka", "other_package.kafka", adapters.GROUP),
        EntryPoint("broken", "other_package.absent", adapters.GROUP),
    ]

    def entry_points(group: str, name: str = "") -> list[EntryPoint]:
        return [entry for entry in entries if entry.group == group and name in ("", entry.name)]

    monkeypatch.setattr(adapters, "entry_points", entry_points)
    config = loaded(tmp_path, 'adapters = ["kafka"]')
    assert told(config)["adapters"] == [{"adapter": "kafka", "path": str(package / "kafka.py")}]
    assert "other_package.kafka" not in sys.modules
    assert "other_package.absent has no Python file" in refusal(tmp_path, 'adapters = ["broken"]')
    assert "known adapters: broken, http, kafka, redis, streams" in refusal(tmp_path, 'adapters = ["nothing"]')
