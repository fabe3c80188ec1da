"""Functions that the user names are one operation each: their events, faults at them, and how they look to the target."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from free_ports import free_port

MODULE = """
    import asyncio, enum, socket

    class Kind(enum.Enum):
        VOTE = 1

    class Message:
        def __init__(self, type, size=3):
            self.type, self.size, self.header = type, size, {"kind": "append-17", "parts": [b"first"]}

    class Node:
        def __init__(self):
            self.got = []
        def send(self, to, message, *, urgent=False):
            "Sends a message."
            self.got.append((to, message.type))
            return "sent"
        @staticmethod
        def shout(text, to="s3"):
            return text.upper()
        @classmethod
        def announce(cls, *words, **options):
            return cls.__name__, words
        async def ask(self, to, message):
            await asyncio.sleep(0)
            return "answer of " + str(to)
        async def stream(self):
            yield 1

    def receive(source):
        return Message(source.pop(0)) if source else None

    def handle(message):
        return "handled"

    HANDLERS = {"any": handle}
"""


@pytest.fixture
def target(tool: Any) -> Any:
    """A tool whose target can import the module above."""
    (tool.folder / "talk.py").write_text(textwrap.dedent(MODULE))
    tool.more_config = {"nodes": ["s1", "s2", "s3"], "operations": []}
    return tool


def name(tool: Any, function: str, op: str = "msg.send", **where: Any) -> None:
    described = {key: {"argument": path} if isinstance(path, str) else path for key, path in where.items()}
    tool.more_config["operations"].append({"function": function, "op": op, **described})


def run(tool: Any, source: str) -> Any:
    return tool.run(source, python_path=str(tool.folder))


def logical(outcome: Any) -> list[str]:
    return outcome.short("msg.", "db.")


def troubles(tool: Any) -> str:
    return "".join(path.read_text() for path in tool.trace_dir.glob("*.agent-error"))


def test_a_method_is_an_event_with_kind_peer_and_size(target, any_python):
    target.python = any_python
    name(target, "talk:Node.send", kind="message.type", peer="to", size="message.size")
    outcome = run(
        target,
        """
        from talk import Message, Node
        def work():
            node = Node()
            return node.send("s2", Message("vote-12")), node.send(message=Message("vote-13", 5), to="nobody"), node.got
        print(work())
        """,
    ).ok()
    assert outcome.out == "('sent', 'sent', [('s2', 'vote-12'), ('nobody', 'vote-13')])\n"
    assert logical(outcome) == ["msg.send vote-<n> peer:s2", "msg.send vote-<n> other"]
    first, second = outcome.of("msg.send")
    assert (first.size, second.size) == (3, 5)
    assert first.resource == "vote-12 s2"
    assert first.loc == "__main__:work#2"
    assert first.end_ns >= first.t_ns > 0
    assert troubles(target) == ""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("message.type", "Kind.VOTE"),
        ("message.header[kind]", "append-<n>"),
        ("message.header['kind']", "append-<n>"),
        ("message.header[parts][0]", "first"),
        ("message.header[parts][-1]", "first"),
        ("message.header[absent].more", "?"),
        ("message.nothing", "?"),
        ("2.size", "<n>"),
        ("message", "Message"),
        ("urgent", "False"),
    ],
)
def test_paths_lead_through_attributes_keys_and_indexes(target, path, kind):
    name(target, "talk:Node.send", kind=path, peer="to")
    outcome = run(target, "from talk import *\nNode().send('s2', Message(Kind.VOTE))").ok()
    assert logical(outcome) == [f"msg.send {kind.removeprefix('Kind.')} peer:s2"]


def test_addresses_of_nodes_are_peers(target):
    target.addresses = {"127.0.0.1:4002": "s2"}
    target.more_config["hosts"] = {"198.18.1.3": "s3"}
    name(target, "talk:Node.send", kind={"text": "hello"}, peer="to")
    outcome = run(
        target,
        """
        from talk import Message, Node
        for to in ("127.0.0.1:4002", ("localhost", 4002), "http://localhost:4002/x", "198.18.1.3:9", "198.18.1.3",
                   "127.0.0.1:4003", None, b"s3"):
            Node().send(to, Message("x"))
        """,
    ).ok()
    peers = [line.rpartition(" ")[2] for line in logical(outcome)]
    assert peers == ["peer:s2", "peer:s2", "peer:s2", "peer:s3", "peer:s3", "other", "other", "peer:s3"]


def test_static_and_class_methods_functions_and_tables_are_hooked(target, any_python):
    target.python = any_python
    name(target, "talk:Node.shout", peer="to")
    name(target, "talk:Node.announce", "msg.recv", kind="words[0]", peer="options[who]")
    name(target, "talk:handle", "msg.recv", kind="message.type")
    name(target, "talk:receive", "msg.recv", kind="return.type")
    outcome = run(
        target,
        """
        from talk import *
        import talk
        class Other(Node):
            pass
        print(Node.shout("a"), Node().shout("b", to="s2"), Other.announce("up", who="s3"), Node().announce("down"))
        print(handle(Message("x")), HANDLERS["any"](Message("y")), HANDLERS["any"] is talk.handle)
        print(receive(["ping"]).type, receive([]))
        """,
    ).ok()
    assert outcome.out.splitlines() == [
        "A B ('Other', ('up',)) ('Node', ('down',))",
        "handled handled True",
        "ping None",
    ]
    assert logical(outcome) == [
        "msg.send shout peer:s3",
        "msg.send shout peer:s2",
        "msg.recv up peer:s3",
        "msg.recv down other",
        "msg.recv x other",
        "msg.recv y other",
        "msg.recv ping other",
        "msg.recv ? other",
    ]


def test_a_coroutine_is_an_event_until_it_ends(target, any_python):
    target.python = any_python
    name(target, "talk:Node.ask", kind="message.type", peer="to")
    outcome = run(
        target,
        """
        import asyncio
        from talk import *
        async def main():
            node = Node()
            both = await asyncio.gather(node.ask("s2", Message("a")), node.ask("s3", Message("b")))
            task = asyncio.ensure_future(node.ask("s2", Message("c")))
            await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return both
            try:
                node.ask()
            except TypeError:
                return "refused at once"
        print(asyncio.run(main()))
        """,
    ).ok()
    assert outcome.out == "['answer of s2', 'answer of s3']\n"
    assert sorted(logical(outcome)) == ["msg.send a peer:s2", "msg.send b peer:s3", "msg.send c peer:s2"]
    first, second, third = sorted(outcome.of("msg.send"), key=lambda event: event.target)
    assert first.t_ns < second.t_ns < first.end_ns
    assert (first.error, second.error, third.error) == ("", "", "CancelledError")


def test_a_function_that_cannot_be_hooked_is_reported_and_harms_nothing(target):
    name(target, "talk:Node.stream")
    name(target, "talk:Node.absent")
    name(target, "talk:Absent.method")
    name(target, "talk:Message")
    name(target, "talk:handle", kind="nothing.of.that.name")
    outcome = run(target, "import talk; print(talk.handle(1))")
    assert (outcome.code, outcome.out) == (0, "handled\n")
    said = troubles(target)
    assert "talk:Node.stream: stream is a generator: it is not one operation" in said
    for part in ("talk:Node.absent", "talk:Absent.method", "talk:Message", "no parameter 'nothing'"):
        assert part in said


@pytest.mark.parametrize("way", ["script", "module"])
def test_functions_of_the_program_itself_are_found(target, any_python, way):
    """The program's own functions exist only once it runs."""
    target.python = any_python
    target.packages = ["program"]
    source = """
        import socket
        class Client:
            def send(self, kind):
                return kind
        def receive(kind):
            return kind
        if __name__ == "__main__":
            socket.socket().close()
            print(Client().send("vote"), receive("answer"))
    """
    (target.folder / "program.py").write_text(textwrap.dedent(source))
    name(target, "program:Client.send", kind="kind")
    name(target, "program:receive" if way == "module" else "__main__:receive", "msg.recv", kind="kind")
    command = target.command("", str(target.folder))
    command["args"] = [any_python, *(["-m", "program"] if way == "module" else [str(target.folder / "program.py")])]
    process = subprocess.Popen(**command)
    outcome = target.outcome(process).ok()
    assert outcome.out == "vote answer\n"
    assert logical(outcome) == ["msg.send vote other", "msg.recv answer other"]


def test_only_the_bytes_of_a_message_are_part_of_it(target, any_python):
    target.python = any_python
    name(target, "__main__:send", kind={"text": "hello"}, peer="to")
    name(target, "__main__:handle", "msg.recv", kind={"text": "hello"}, peer="sender")
    port = free_port()
    target.addresses = {f"127.0.0.1:{port}": "s2"}
    outcome = run(
        target,
        """
        import socket
        def listen(port=0):
            server = socket.create_server(("127.0.0.1", port))
            return server, server.getsockname()
        def send(to, *addresses):
            with open("journal", "w") as file:
                for address in addresses:
                    with socket.create_connection(address) as sock:
                        sock.sendall(b"hello")
        def handle(sender, sock):
            sock.recv(5)
            sock.sendall(b"thanks")
        s2, s2_address = listen(PORT)
        other, other_address = listen()
        send("s2", s2_address, other_address)
        with socket.create_connection(s2_address) as sock:
            sock.sendall(b"raw")
            first, second = s2.accept()[0], s2.accept()[0]
            second.sendall(b"hello")
            handle("s2", sock)
        """.replace("PORT", str(port)),
    ).ok()
    seen = [line for line in outcome.short("file.", "net.", "msg.") if "accept" not in line]
    assert seen == [
        "msg.send hello peer:s2",
        "file.create journal",
        "net.connect other",
        "net.send other",
        "net.close other",
        "file.close journal",
        "net.connect peer:s2",
        "net.send peer:s2",
        "msg.recv hello peer:s2",
        "net.send peer:s2",
        "net.close peer:s2",
    ]


SENDS = """
    from talk import Message, Node
    node = Node()
    for number in range(3):
        try:
            print(node.send("s2", Message("vote")), flush=True)
        except OSError as error:
            print(type(error).__name__, flush=True)
    print(len(node.got))
"""
VOTE = {"op": "msg.send", "target": "vote peer:s2", "nth": 2}


@pytest.mark.parametrize(
    ("fault", "place", "said"),
    [
        ({"fault": "error", "error": "ECONNRESET", "scope": "once"}, "before", "sent ConnectionResetError sent 2"),
        ({"fault": "error", "error": "ECONNRESET", "scope": "once"}, "after", "sent ConnectionResetError sent 3"),
        ({"fault": "error", "error": "ETIMEDOUT", "scope": "peer"}, "before", "sent TimeoutError TimeoutError 1"),
        ({"fault": "drop"}, "before", "sent None sent 2"),
        ({"fault": "delay", "delay_s": 0.1, "mode": "operation"}, "before", "sent sent sent 3"),
        ({"fault": "delay", "delay_s": 0.1, "mode": "thread"}, "after", "sent sent sent 3"),
    ],
)
def test_faults_at_a_function_take_effect(target, fault, place, said):
    name(target, "talk:Node.send", kind="message.type", peer="to")
    target.step(fault, {**VOTE, "place": place})
    outcome = run(target, SENDS).ok()
    assert outcome.out.split() == said.split()
    assert outcome.receipts[0].action == fault["fault"]
    second = outcome.of("msg.send")[1]
    if fault["fault"] == "drop":
        assert second.error == "LOST"
    if fault["fault"] == "delay":
        assert outcome.receipts[0].held_ns >= 100_000_000


def test_a_crash_at_a_function_kills_the_node(target):
    name(target, "talk:Node.send", kind="message.type", peer="to")
    target.step({"fault": "crash"}, VOTE)
    outcome = run(target, SENDS)
    assert outcome.code == -signal.SIGKILL
    assert outcome.out == "sent\n"


ASKS = """
    import asyncio, time
    from talk import Message, Node
    async def ticks():
        count = 0
        while True:
            await asyncio.sleep(0.01)
            count += 1
            seen.append(count)
            if count == 30:
                with open(STATE, "r+b") as file:  # heal
                    file.seek(12)
                    file.write(b"\\1")
    async def main():
        ticking = asyncio.ensure_future(ticks())
        try:
            print(await Node().ask("s2", Message("vote")))
        except OSError as error:
            print(type(error).__name__)
        ticking.cancel()
        print("went on" if len(seen) > 5 else "stood still")
    seen = []
    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("fault", "place", "said"),
    [
        ({"fault": "error", "error": "ECONNRESET", "scope": "once"}, "before", "ConnectionResetError, stood still"),
        ({"fault": "error", "error": "ECONNRESET", "scope": "once"}, "after", "ConnectionResetError, stood still"),
        ({"fault": "drop"}, "before", "None, stood still"),
        ({"fault": "delay", "delay_s": 3600, "mode": "operation"}, "before", "answer of s2, went on"),
        ({"fault": "delay", "delay_s": 3600, "mode": "operation"}, "after", "answer of s2, went on"),
        ({"fault": "delay", "delay_s": 0.3, "mode": "thread"}, "before", "answer of s2, stood still"),
    ],
)
def test_faults_at_a_coroutine_take_effect(target, any_python, fault, place, said):
    target.python = any_python
    name(target, "talk:Node.ask", kind="message.type", peer="to")
    target.step(fault, {"op": "msg.send", "target": "vote peer:s2", "place": place})
    outcome = run(target, ASKS.replace("STATE", repr(str(target.state)))).ok()
    assert ", ".join(outcome.out.splitlines()) == said
    assert "never awaited" not in outcome.err
    assert outcome.receipts[0].action == fault["fault"]
    if fault["fault"] == "delay":
        assert outcome.receipts[0].held_ns >= 250_000_000


def test_a_message_dropped_on_arrival_is_never_seen(target):
    name(target, "talk:receive", "msg.recv", kind="return.type")
    target.step({"fault": "drop"}, {"op": "msg.recv", "target": "two other"})
    outcome = run(
        target,
        """
        import talk
        source = ["one", "two", "three"]
        print(talk.receive(source).type, talk.receive(source).type)
        """,
    ).ok()
    assert outcome.out == "one three\n"
    assert [(event.target, event.error) for event in outcome.of("msg.recv")] == [
        ("one other", ""),
        ("two other", "LOST"),
        ("three other", ""),
    ]


def test_lasting_faults_apply_to_raw_operations(target):
    """A partition applies to the sockets below a logical operation."""
    name(target, "__main__:send", kind={"text": "hello"}, peer="to")
    port = free_port()
    target.addresses = {f"127.0.0.1:{port}": "s2"}
    target.lasting = [{"step": 0, "kind": "error", "error": "ECONNRESET", "scope": "peer", "value": "peer:s2"}]
    outcome = run(
        target,
        f"""
        import socket
        server = socket.create_server(("127.0.0.1", {port}))
        def send(to):
            socket.create_connection(("127.0.0.1", {port})).sendall(b"x")
        try:
            send("s2")
        except OSError as error:
            print(type(error).__name__)
        """,
    ).ok()
    assert outcome.out == "ConnectionResetError\n"


LOOKS = """
    import asyncio, copy, inspect, pickle, typing
    import talk
    from talk import Node
    print(Node.send.__name__, Node.send.__qualname__, Node.send.__module__, Node.send.__doc__)
    print(inspect.signature(Node.send), inspect.signature(Node().send), inspect.getfullargspec(Node.send).args)
    print(inspect.isfunction(Node.send), inspect.ismethod(Node().send), callable(Node.send))
    print(inspect.iscoroutinefunction(Node.ask), asyncio.iscoroutinefunction(Node.ask), inspect.iscoroutinefunction(Node.send))
    print(inspect.getsource(Node.send).split()[:2], Node.send.__kwdefaults__)
    print([pickle.loads(pickle.dumps(f, p)) is f for f in (talk.handle, Node.send, Node.shout) for p in range(2, 6)])
    print(copy.copy(talk.handle) is talk.handle, copy.deepcopy(talk.handle) is talk.handle)
    talk.handle.mark = 1
    print(talk.handle.mark, vars(talk.handle), Node.send == Node.send, len({Node.send, Node.send}))
    coroutine = Node().ask("x", talk.Message("y"))
    print(coroutine.__name__, coroutine.__qualname__, inspect.iscoroutine(coroutine))
    coroutine.close()
    node = Node()
    print(pickle.loads(pickle.dumps(node.send)).__func__ is Node.send)
"""


def test_a_hooked_function_looks_unchanged(target, any_python):
    target.python = any_python
    plain = subprocess.run(
        [any_python, "-c", textwrap.dedent(LOOKS)], cwd=target.folder, capture_output=True, text=True, check=True
    )
    for function in ("Node.send", "Node.ask", "Node.shout", "handle"):
        name(target, f"talk:{function}")
    assert run(target, LOOKS).ok().out == plain.stdout
    assert troubles(target) == ""


def test_cloudpickle_sends_the_function_without_the_agent(target):
    """By value, to a process that has neither the agent nor the module."""
    cloudpickle = pytest.importorskip("cloudpickle")
    folder = str(cloudpickle.__path__[0]).rpartition("/")[0]
    for function in ("talk:handle", "talk:Node.send", "__main__:own", "__main__:Own.method", "__main__:wait"):
        name(target, function)
    outcome = target.run(
        """
        import cloudpickle, pickle, socket, talk
        def own(number):
            return number if number == 0 else own(number - 1) + 2
        class Own:
            def method(self):
                return super().__repr__()[:9]
        async def wait():
            return "waited"
        socket.socket().close()
        assert own(2) == 4 and Own().method() == "<__main__"
        by_reference = cloudpickle.dumps(talk.handle)
        assert pickle.loads(by_reference) is talk.handle and b"undermine" not in by_reference
        cloudpickle.register_pickle_by_value(talk)
        with open("values", "wb") as file:
            file.write(cloudpickle.dumps((own, Own, wait, talk.handle, talk.Node, talk.Message)))
        """,
        python_path=f"{target.folder}:{folder}",
    ).ok()
    assert logical(outcome) == ["msg.send own other"] * 3 + ["msg.send method other"]
    stored = (target.data / "values").read_bytes()
    assert b"undermine" not in stored
    reader = """
        import asyncio, pickle, sys, types
        own, Own, wait, handle, Node, Message = pickle.load(open("values", "rb"))
        assert "talk" not in sys.modules and not any(name.startswith("undermine") for name in sys.modules)
        print(own(3), Own().method(), asyncio.run(wait()), handle(1), Node().send("s2", Message("x")))
        print({type(f) for f in (own, Own.method, wait, handle, Node.send)} == {types.FunctionType})
    """
    plain = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(reader)],
        cwd=target.data,
        env={"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    assert plain.stdout == "6 <__main__ waited handled sent\nTrue\n", plain.stderr
