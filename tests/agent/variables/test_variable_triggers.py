"""Triggers that use variables: absence, the state as a part of points, and messages that involve a group of nodes."""

from __future__ import annotations

import signal

import pytest
from fake_tool import FakeTool
from variable_samples import SEND, samples, variable

CRASH = {"fault": "crash"}


@pytest.mark.parametrize(("how", "expected"), [("!=", "1\n"), ("==", "1\n2\n")])
def test_a_comparison_with_null_asks_for_absence(tool: FakeTool, how: str, expected: str) -> None:
    tool.variables = [variable("view[*]", s2=0)]
    tool.step(CRASH, {"when": [{"slot": 0, "is": how, "value": None}]})
    if how == "==":
        tool.variables.append(variable("turn", "turn", **{"": 1}))
        tool.steps[0]["second"]["when"].append({"slot": 1, "is": ">", "value": "1"})
    source = """
    view = {}
    for turn in (1, 2, 3):
        if turn == 2:
            view["s2"] = "up"
        else:
            view.clear()
        send()
        print(turn, flush=True)
    """
    outcome = tool.run(SEND + source)
    assert (outcome.code, outcome.out) == (-signal.SIGKILL, expected)


CONVERSATION = """
    import socket
    server = socket.create_server(("127.0.0.1", 0))
    mood = bytearray(b"%s")
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    peer.sendall(b"after")
    mood[:] = b"begin"
    client.recv_into(mood)
"""


@pytest.mark.parametrize(("mood", "op"), [("start", "net.connect"), ("begin", "net.recv"), ("after", "net.recv")])
def test_a_condition_is_checked_before_connects_and_before_and_after_receives(tool: FakeTool, mood: str, op: str) -> None:
    tool.variables = [variable("mood", **{"": 0})]
    tool.step({"fault": "pause", "nodes": ["s2"]}, {"when": [{"slot": 0, "is": "==", "value": mood}]})
    outcome = tool.run(CONVERSATION % "start").ok()
    assert [request["point"]["op"] for request in tool.requests if request["type"] == "claim"] == [op]
    assert samples(outcome) == [("", "start"), ("", "begin"), ("", "after")]


def test_a_condition_is_true_once_in_a_receive_that_it_is_true_around(tool: FakeTool) -> None:
    """Each look counts: the second one is after the receive."""
    tool.variables = [variable("mood", **{"": 0})]
    tool.step({"fault": "pause", "nodes": ["s2"]}, {"when": [{"slot": 0, "is": "!=", "value": "start"}], "nth": 2})
    tool.run(CONVERSATION % "start").ok()
    (claim,) = [request for request in tool.requests if request["type"] == "claim"]
    assert claim["point"]["op"] == "net.recv"


@pytest.mark.parametrize(
    ("values", "state"),
    [
        (("'down'", "3", "10"), "down, <"),
        (("None", "'a'", "'b'"), "None, ≠"),
        (("''", "'a'", "'a'"), ", ="),
        (("absent", "1.0", "1"), "∅, ="),
        (("absent", "absent", "1"), "∅, ∅"),
        (("5", "absent", "absent"), "5, ="),
        (("5", "10", "9"), "5, >"),
        (("5", "'x'", "9"), "5, ≠"),
    ],
)
def test_the_state_is_a_part_of_the_point(tool: FakeTool, values: tuple[str, ...], state: str) -> None:
    tool.variables = [variable(f"values[{name}]", name, **{"": slot}) for slot, name in enumerate("abc")]
    unseen = {"keys": ["op", "state"], "state": [[0], [1, 2]], "seen": []}
    tool.step({"fault": "pause", "nodes": ["s2"]}, {"op": "net.send", "unseen": unseen})
    given = ", ".join(f"{name}={value}" for name, value in zip("abc", values, strict=True) if value != "absent")
    source = f"\n    values = dict({given})\n    send()\n"
    tool.run(SEND + source).ok()
    claim = tool.requests[-1]
    assert (claim["type"], claim["point"]["state"]) == ("claim", state)
    tool.steps.clear()
    tool.step(CRASH, {"op": "net.send", "unseen": {**unseen, "seen": [["net.send", state]]}})
    assert tool.run(SEND + source).code == 0
    tool.steps.clear()
    tool.step(CRASH, {"op": "net.send", "unseen": {**unseen, "keys": ["op"], "seen": [["net.send"]]}})
    assert tool.run(SEND + source).code == 0


def test_a_new_state_ends_a_fault_at_its_first_message(tool: FakeTool) -> None:
    tool.variables = [variable("term", **{"": 0})]
    until = {"op": "net.send", "unseen": {"keys": ["state"], "state": [[0]], "seen": [["1"], ["2"]]}}
    tool.step({"fault": "pause", "nodes": ["s2"]}, {"op": "net.send"}, until=until)
    tool.run(SEND + "\n    for term in (1, 2, 2, 3, 4):\n        send()\n").ok()
    claims = [(request["half"], request["point"].get("state")) for request in tool.requests if request["type"] == "claim"]
    assert claims == [("second", None), ("until", "3")]


TO_ALL = """
    import os, socket
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for port in (9, 1002, 1003):
        sender.sendto(b"x", ("127.0.0.1", port))
        os.stat(".")
"""


@pytest.mark.parametrize(
    ("node", "group", "target"),
    [
        ("s1", ["s3"], "peer:s3"),
        ("s1", ["s1"], "peer:s2"),
        ("s1", ["s1", "s2"], "peer:s3"),
        ("s1", ["s2", "s3"], "peer:s2"),
        ("s2", ["s1"], None),
        ("s1", ["s1", "s2", "s3"], None),
    ],
)
def test_only_messages_that_leave_or_enter_a_group_count(tool: FakeTool, node: str, group: list[str], target: str | None) -> None:
    tool.node = node
    tool.addresses = {"127.0.0.1:1002": "s2", "127.0.0.1:1003": "s3"}
    tool.step({"fault": "pause", "nodes": ["s2"]}, {"involves": group, "unseen": {"keys": [], "seen": []}})
    tool.run(TO_ALL).ok()
    claims = [request["point"]["target"] for request in tool.requests if request["type"] == "claim"]
    assert claims == ([] if target is None else [target])


def test_variables_are_sampled_after_everything_is_healed(tool: FakeTool) -> None:
    tool.variables = [variable("term", **{"": 0})]
    tool.step(CRASH, {"when": [{"slot": 0, "is": "==", "value": "2"}]})
    tool.heal()
    assert samples(tool.run(SEND + "\n    for term in (1, 2):\n        send()\n")) == [("", "1"), ("", "2")]
    assert tool.slot(0) == "2"


def test_the_absence_at_a_restart_replaces_the_value_of_the_start_before(tool: FakeTool) -> None:
    tool.variables = [variable("view[*]", s2=0), variable("term", "term", **{"": 1})]
    tool.run(SEND + "\n    view, term = {'s2': 'up'}, 1\n    send()\n").ok()
    assert (tool.slot(0), tool.slot(1)) == ("up", "1")
    tool.incarnation = 2
    tool.run(SEND + "\n    send()\n").ok()
    assert (tool.slot(0), tool.slot(1)) == (None, None)


# --- where causal extents end


def test_a_loop_of_asyncio_looks_between_its_rounds(tool: FakeTool, any_python: str) -> None:
    """No operation comes after the last change but one."""
    tool.python = any_python
    tool.more_config = {"observe": []}
    tool.variables = [variable("step")]
    outcome = tool.run(
        """
    import asyncio
    step = 0
    async def main():
        global step
        for step in (1, 2, 3):
            await asyncio.sleep(0)
    asyncio.run(main())
    """
    )
    texts = [text for _, text in samples(outcome)]
    assert [text for text in texts if text in "123"] == ["1", "2", "3"]


def test_a_poll_looks_at_what_was_handled_before_it(tool: FakeTool) -> None:
    tool.variables = [variable("step")]
    outcome = tool.run(
        """
    import selectors, select
    step = "selector"
    selectors.DefaultSelector().select(0)
    step = "select"
    select.select([], [], [], 0)
    """
    )
    assert [text for _, text in samples(outcome)] == ["selector", "select"]


def test_bytes_below_a_logical_operation_count(tool: FakeTool) -> None:
    tool.variables = [variable("step")]
    asking = {"function": "__main__:Client.ask", "op": "db.read", "peer": {"argument": "self.sock"}}
    tool.more_config = {"operations": [asking]}
    outcome = tool.run(
        """
    import socket
    step = "before"
    class Client:
        def __init__(self, sock):
            self.sock = sock
        def ask(self):
            global step
            step = "inside"
            self.sock.send(b"x")
    server = socket.create_server(("127.0.0.1", 0))
    Client(socket.create_connection(server.getsockname())).ask()
    """
    )
    assert outcome.ok().of("raw.send")
    assert not outcome.of("net.send")
    assert samples(outcome) == [("", "before"), ("", "inside")]
