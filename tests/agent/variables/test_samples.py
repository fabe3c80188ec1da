"""Samples of variables: each changed value is an event, also that a key is gone."""

from __future__ import annotations

from textwrap import dedent

import pytest
from fake_tool import FakeTool
from variable_samples import SEND, samples, variable


def text_of(tool: FakeTool, path: str, source: str) -> str | None:
    """The text of a variable after these lines."""
    tool.variables = [variable(path)]
    key, text = samples(tool.run(dedent(SEND) + dedent(source) + "\nsend()\n"))[-1]
    assert key == ""
    return text


def test_each_changed_value_is_a_sample(tool: FakeTool, any_python: str) -> None:
    tool.python = any_python
    tool.variables = [variable("term"), variable("leader", "leader")]
    outcome = tool.run(
        SEND
        + """
    term, leader = 1, None
    send()
    send()
    term = 2
    send()
    leader = "s2"
    send()
    del leader
    send()
    """
    )
    assert samples(outcome, "v") == [("", "1"), ("", "2")]
    assert samples(outcome, "leader") == [("", "None"), ("", "s2"), ("", None)]


def test_a_sample_has_the_time_and_the_stack_of_the_operation_before_which_it_was_read(tool: FakeTool) -> None:
    tool.variables = [variable("term")]
    outcome = tool.run(SEND + "\n    term = 1\n    send()\n")
    (send,), (sample,) = outcome.of("net.send"), outcome.of("variable.sample")
    assert (sample.t_ns, sample.stack, sample.thread) == (send.t_ns, send.stack, send.thread)
    assert sample.seq > send.seq


def test_there_is_one_variable_for_each_key(tool: FakeTool, any_python: str) -> None:
    tool.python = any_python
    tool.variables = [variable("view[*][0]", s2=0, s3=1)]
    outcome = tool.run(
        SEND
        + """
    view = {"s2": ("up", 1), 3: ["down"], ("a", 4): ("odd",), object(): ("hidden",)}
    send()
    view["s2"] = ("down", 2)
    del view[3]
    send()
    view["s3"] = ()
    send()
    del view["s2"]
    send()
    """
    )
    assert sorted(samples(outcome)[:3]) == [("3", "down"), ("[a, 4]", "odd"), ("s2", "up")]
    assert samples(outcome)[3:] == [("s2", "down"), ("3", None), ("s2", None)]
    assert (tool.slot(0), tool.slot(1)) == (None, None)


def test_several_keys_are_joined_and_objects_as_keys_give_an_attribute(tool: FakeTool) -> None:
    tool.variables = [variable("table[*.id][*]"), variable("peers[*.id].state", "peers"), variable("names[*]", "names")]
    outcome = tool.run(
        SEND
        + """
    class Peer:
        __slots__ = ("id", "state")
        def __init__(self, id, state):
            self.id, self.state = id, state
    table = {Peer("s2", 0): [7, 8], Peer("s3", 0): []}
    peers = [Peer("s2", "up"), Peer("s3", "down"), Peer(None, None), 5]
    names = {"x", "y"}
    send()
    """
    )
    assert samples(outcome, "v") == [("s2,0", "7"), ("s2,1", "8")]
    assert samples(outcome, "peers") == [("s2", "up"), ("s3", "down"), ("None", "None")]
    assert sorted(samples(outcome, "names")) == [("x", "x"), ("y", "y")]


VALUES = [
    ("None", "None"),
    ("True", "True"),
    ("1.5", "1.5"),
    ("'a\\x1fb'", "a b"),
    ("''", ""),
    ("b'text'", "text"),
    ("bytearray(b'\\xff\\x00')", "0xff00"),
    ("{'b', 'a'}", "{a, b}"),
    ("frozenset([2, 10])", "{10, 2}"),
    ("[1, 'x', None]", "[1, x, None]"),
    ("(('h', 1), ('g', 2))", "[[h, 1], [g, 2]]"),
    ("[[[1]]]", "[[<list>]]"),
    ("{'b': 1, 'a': 2}", "{a, b}"),
    ("collections.deque([1, 2])", "[1, 2]"),
    ("collections.OrderedDict(x=1)", "{x}"),
    ("list(range(40))", "[" + ", ".join(map(str, range(32))) + ", …40]"),
    ("set(range(5000))", "{…5000}"),
    ("Colour.RED", "RED"),
    ("Number.ONE", "ONE"),
    ("Own()", "<Own>"),
    ("[Own()]", "[<Own>]"),
    ("1 << 5000", "<int>"),
    ("Text('x')", "x"),
    ("Pair(1, 2)", "[1, 2]"),
    ("uuid.UUID(int=0xabc << 100)", "0000abc0-0000-0000-0000-000000000000"),
]


def test_values_have_texts(tool: FakeTool, any_python: str) -> None:
    tool.python = any_python
    classes = """
    import collections, enum, uuid
    class Colour(enum.Enum):
        RED = 1
    class Number(enum.IntEnum):
        ONE = 1
    class Own:
        def __repr__(self):
            raise SystemExit("called")
    class Text(str):
        def __str__(self):
            raise SystemExit("called")
        __repr__ = __format__ = __hash__ = __eq__ = encode = __str__
    Pair = collections.namedtuple("Pair", "a b")
    """
    tool.variables = [variable(f"values[{number}]", str(number)) for number in range(len(VALUES))]
    values = ", ".join(value for value, _ in VALUES)
    outcome = tool.run(SEND + classes + f"\n    values = [{values}]\n    send()\n")
    for number, (value, text) in enumerate(VALUES):
        expected = text if len(text) <= 120 else text[:111]
        ((_, found),) = samples(outcome, str(number))
        assert found is not None
        assert found[:111] == expected, value


NOWHERE = "nothing owner.x owner.list[3] owner.list[x] owner.dict[y] owner.list.x owner.dict[x].y"


@pytest.mark.parametrize("path", NOWHERE.split())
def test_a_path_that_leads_nowhere_is_absent(tool: FakeTool, path: str) -> None:
    source = """
    class Owner: pass
    owner = Owner()
    owner.list, owner.dict = [1], {"x": 1}
    """
    assert text_of(tool, path, source) is None


def test_a_module_that_is_not_loaded_says_nothing(tool: FakeTool) -> None:
    """Another process of the node may have loaded it."""
    tool.variables = [{"node": "s1", "name": "v", "path": "elsewhere:x", "slots": {"": 0}}]
    state = bytearray(tool.state.read_bytes())
    outcome = tool.run(SEND + "\n    send()\n")
    assert samples(outcome) == []
    assert tool.state.read_bytes() == state


def test_keys_are_bounded(tool: FakeTool) -> None:
    tool.variables = [variable("many[*]"), variable("too_many[*]", "too_many"), variable("too_many[7]", "one")]
    outcome = tool.run(
        SEND
        + """
    many = {"k%03d" % number: number for number in range(300, -1, -1)}
    too_many = dict.fromkeys(range(5000))
    send()
    """
    )
    found = samples(outcome, "v")
    assert sorted(key for key, _ in found) == [f"k{number:03}" for number in range(256)]
    assert samples(outcome, "too_many") == []
    assert samples(outcome, "one") == [("", None)]


def test_a_long_text_is_cut_and_ends_with_a_hash(tool: FakeTool) -> None:
    one = text_of(tool, "text", "text = 'x' * 200 + 'a'")
    other = text_of(tool, "text", "text = 'x' * 200 + 'b'")
    assert one is not None
    assert other is not None
    assert len(one) == len(other) == 120
    assert one[:111] == other[:111]
    assert one != other
    assert text_of(tool, "text", "text = 'ä' * 10_000_000") is not None


def test_variables_are_read_before_and_after_receives_before_connecting_and_when_a_thread_ends(tool: FakeTool) -> None:
    tool.variables = [variable("at")]
    outcome = tool.run(
        """
    import socket, threading
    server = socket.create_server(("127.0.0.1", 0))
    at = "before connecting"
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    at = "before sending"
    peer.sendall(b"y")
    at = "before receiving"
    client.recv(1)
    def work():
        global at
        at = "at the end of a thread"
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    at = "unseen"
    """
    )
    texts = [text for _, text in samples(outcome)]
    assert texts == ["before connecting", "before sending", "before receiving", "at the end of a thread"]
