"""Triggers: points not seen before, states of variables, and `until`."""

from __future__ import annotations

import importlib
import mmap
import signal
import subprocess
import time
from pathlib import Path

import pytest
from waiting import HANG_S

from undermine.analysis.agreement.relations import number_of
from undermine.model.point import point_of

AGENT_DIR = Path(__file__).resolve().parents[3] / "agents" / "python"
CRASH = {"fault": "crash"}
WRITES = """
    import os
    def one():
        open("one", "w").close()
    def two():
        open("two", "w").close()
    one(); one(); two(); one()
    print("end")
"""
PACKAGE = """
class Node:
    def __init__(self, term):
        self.term = term
        self.peers = {"s2": [1, 2], 7: "seven"}
class Plain:
    state = "class"
    def __new__(cls, state):
        self = object.__new__(cls)
        self.state = state
        return self
    @property
    def broken(self):
        raise ValueError("no")
role = "follower"
settings = {"mode": {"deep": None}}
"""
SEND = """
    import socket
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    def send():
        return sender.sendto(b"x", ("127.0.0.1", 9))
"""


def variable(slot: int, path: str, node: str = "s1") -> dict:
    return {"slots": {"": slot}, "node": node, "name": f"v{slot}", "path": path}


@pytest.fixture
def agent_table(monkeypatch):
    monkeypatch.syspath_prepend(str(AGENT_DIR))
    return importlib.import_module("undermine_agent.faults.table")


def test_the_first_unseen_point_fires(tool):
    events = tool.run(WRITES).of("file.open", "file.create")
    seen = [[point_of(event).get("loc"), point_of(event).get("stack")] for event in events if event.target == "one"]
    tool.step(CRASH, {"op": "file.open", "unseen": {"keys": ["loc", "stack"], "seen": seen[:1]}})
    outcome = tool.run(WRITES)
    assert outcome.code == -signal.SIGKILL
    # The same place, called from another one: the stack is new.
    assert tool.requests[-1]["point"]["stack"] == seen[1][1]


def test_all_keys_of_a_point_can_be_unseen(tool):
    seen = [["file.create", "one", "s1", "store"], ["file.open", "one", "s1", "store"]]
    tool.step(CRASH, {"unseen": {"keys": ["op", "target", "node", "role"], "seen": seen}})
    assert tool.run(WRITES).code == -signal.SIGKILL
    assert tool.requests[-1]["point"]["op"] == "file.close"
    tool.steps.clear()
    tool.step(CRASH, {"op": "file.open", "unseen": {"keys": ["op"], "seen": [["file.open"]]}})
    assert tool.run(WRITES).out == "end\n"


def test_until_ends_a_delay_elsewhere(tool):
    tool.step(
        {"fault": "delay", "delay_s": 3600},
        {"op": "file.create", "target": "held"},
        until={"op": "file.create", "target": "other", "nth": 3},
    )
    outcome = tool.run(
        f"""
        import os, threading, time
        def has_fired():
            with open({str(tool.state)!r}, "rb") as file:
                return file.read(65)[64] == 2
        def create_others():
            while not has_fired():
                time.sleep(0.01)
            for _ in range(4):
                open("other", "x").close()
                os.unlink("other")
        other = threading.Thread(target=create_others)
        other.start()
        open("held", "x")
        print("on")
        other.join()
        """
    ).ok()
    assert outcome.out == "on\n"
    assert tool.byte(64) == 3
    claims = [(r["half"], r["point"]["target"]) for r in tool.requests if r["type"] == "claim"]
    assert claims == [("second", "held"), ("until", "other")]
    assert 0 < outcome.receipts[0].held_ns < 60 * 10**9


def test_until_may_have_two_parts_and_counts_only_once_the_step_has_fired(tool):
    match = {"op": "file.create"}
    tool.step(
        {"fault": "pause", "nodes": ["s2"]},
        {**match, "target": "b"},
        until={**match, "target": "a"},
        until_first={**match, "target": "c"},
    )
    source = """
        import os
        for name in %r:
            open(name, "x").close()
            os.unlink(name)
    """
    tool.run(source % "acaab").ok()
    assert (tool.byte(64), tool.byte(66)) == (2, 0)
    tool.run(source % "aac").ok()
    assert (tool.byte(64), tool.byte(66)) == (2, 1)
    tool.run(source % "a").ok()
    assert tool.byte(64) == 3
    assert not tool.run("pass").receipts


def test_variables_are_published_before_sends_and_after_receives(tool, any_python):
    tool.python = any_python
    package = tool.folder / "package"
    package.mkdir()
    (package / "node.py").write_text(PACKAGE)
    paths = ("node:Node.term", "node:Node.peers[s2][1]", "node:Node.peers[7]", "node:role", "node:settings[mode][deep]")
    more = ("node:Plain.state", "node:Plain.broken", "node:Node", "nowhere:x", "__main__:Late.value")
    tool.variables = [variable(slot, path) for slot, path in enumerate((*paths, *more))]
    tool.variables.append(variable(10, "node:role", node="s2"))
    outcome = tool.run(
        SEND
        + """
    import node
    class Late:
        value = 1.5
    late = Late()
    old, new = node.Node(1), node.Node("täxt")
    plain = node.Plain("made")
    send()
    class Sub(node.Node):
        pass
    sub = Sub("x" * 200)
    node.role = None
    late.value = True
    send()
    """,
        python_path=str(package),
    ).ok()
    found = [tool.slot(number) for number in range(11)]
    assert found[0][:100] == "x" * 100
    assert len(found[0]) == 120
    assert found[1:] == ["2", "seven", "None", "None", "made", None, "<Sub>", None, "True", None]
    assert outcome.trace.problems == ()


def test_a_watched_class_looks_unchanged(tool):
    package = tool.folder / "package"
    package.mkdir()
    (package / "node.py").write_text(PACKAGE)
    tool.variables = [variable(0, "node:Node.term"), variable(1, "node:Plain.state")]
    source = """
        import gc, inspect, weakref
        import node
        print(inspect.signature(node.Node), node.Node.__init__.__qualname__, node.Plain("x").state)
        reference = weakref.ref(node.Node(1))
        print(reference())
    """
    outcome = tool.run(source, python_path=str(package)).ok()
    assert outcome.out == "(term) Node.__init__ x\nNone\n"


def test_a_state_of_one_node_fires_at_its_send(tool):
    tool.variables = [variable(0, "__main__:term")]
    tool.step(CRASH, {"when": [{"slot": 0, "is": ">", "value": "9"}]})
    outcome = tool.run(
        SEND
        + """
    for term in (2, 5, 9, 10, 11):
        send()
        print(term, flush=True)
    """
    )
    assert outcome.code == -signal.SIGKILL
    assert outcome.out == "2\n5\n9\n"
    assert tool.requests[-1]["point"]["op"] == "net.send"


def test_a_trigger_fires_when_two_nodes_disagree(tool):
    """The state of two nodes in one file: the step fires at the operation that makes the condition true."""
    tool.variables = [variable(0, "__main__:leader"), variable(1, "__main__:leader", node="s2")]
    tool.step(CRASH, {"when": [{"slot": 0, "is": "!=", "other": 1}, {"slot": 1, "is": "==", "value": "b"}]})
    target = """
    import sys
    for leader in sys.stdin:
        leader = leader.strip() or None
        send()
        print(leader, flush=True)
    """
    first = subprocess.Popen(**tool.command(SEND + target, ""), stdin=subprocess.PIPE)
    tool.node = "s2"
    second = subprocess.Popen(**tool.command(SEND + target, ""), stdin=subprocess.PIPE)

    def tell(process: subprocess.Popen[str], leader: str) -> str:
        process.stdin.write(leader + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    assert tell(first, "a") == "a\n"
    assert tell(second, "a") == "a\n"
    assert tell(first, "b") == "b\n"
    assert tell(second, "b") == "b\n"
    assert tell(first, "a") == ""
    assert first.wait(HANG_S) == -signal.SIGKILL
    second.communicate(timeout=HANG_S)
    assert (tool.slot(0), tool.slot(1)) == ("a", "b")


def test_an_absent_variable_equals_only_another_absent_one(tool):
    tool.variables = [variable(0, "__main__:nothing"), variable(1, "__main__:here")]
    states = [
        ([{"slot": 0, "is": "==", "other": 2}], True),
        ([{"slot": 0, "is": "!=", "other": 2}], False),
        ([{"slot": 0, "is": "==", "value": "None"}], False),
        ([{"slot": 0, "is": "!=", "other": 1}], True),
        ([{"slot": 0, "is": "<", "other": 1}], False),
        ([{"slot": 1, "is": "==", "value": "3.0"}], True),
        ([{"slot": 1, "is": "<", "value": "20"}], True),
        ([{"slot": 1, "is": "<", "value": "2x"}], False),
    ]
    for number, (when, fires) in enumerate(states):
        tool.steps.clear()
        tool.step(CRASH, {"when": when})
        code = tool.run(SEND + "\n    here = 3\n    send()\n").code
        assert code == (-signal.SIGKILL if fires else 0), number


def test_a_trigger_can_combine_an_operation_and_a_state(tool):
    tool.variables = [variable(0, "__main__:term")]
    tool.step(CRASH, {"op": "file.create", "place": "after", "when": [{"slot": 0, "is": "==", "value": "2"}]})
    outcome = tool.run(
        SEND
        + """
    for term in (1, 2):
        send()
        open("file%d" % term, "w").close()
    """
    )
    assert outcome.code == -signal.SIGKILL
    assert (tool.data / "file2").exists()


def test_a_reader_never_sees_half_of_a_text(tool, agent_table):
    tool.variables = [variable(0, "__main__:text")]
    process = tool.start(
        SEND
        + """
    for number in range(20000):
        text = chr(97 + number % 26) * (1 + number % 110)
        if number % 10 == 0:
            send()
    """
    )
    seen = set()
    with tool.state.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        state = agent_table.State(memoryview(view))
        while process.poll() is None:
            text = state.text(0)
            if text:
                seen.add(text)
                assert len(set(text)) == 1
            time.sleep(0.0001)
        del state
    tool.outcome(process).ok()
    assert seen


def test_the_agent_and_the_core_read_numbers_alike(agent_table):
    texts = ["1", "+5", "-0.5", "1.", ".5", "1e3", "9007199254740993", "1e999"]
    others = ["inf", "-inf", "nan", "1_000", "0x10", " 1", "1\n", "١", "", ".", "5e", "leader"]
    for text in texts + others:
        assert agent_table._number(text) == number_of(text)
    assert [text for text in texts + others if number_of(text) is not None] == texts
    assert agent_table.compare("nan", "==", "nan")
    assert (agent_table.relation("nan", "nan"), agent_table.relation("inf", "1")) == ("=", "≠")
