"""Errors, losses and delays at logical operations take effect at the wire, below the retries of the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from free_ports import free_port
from library_targets import CLIENTS, GETS, SERVER, run, use

RESET = {"fault": "error", "error": "ECONNRESET", "scope": "once", "logical": "wire"}
LASTING = {"fault": "error", "error": "ECONNRESET", "scope": "peer", "logical": "wire"}
DROP = {"fault": "drop", "logical": "wire"}
DELAY = {"fault": "delay", "delay_s": 1.0, "mode": "operation", "logical": "wire"}
CALL = {"logical": "call"}
SET_Y = {"op": "db.write", "target": "SET y peer:cache"}
SETTING = """
    import redis
    from redis.retry import Retry
    from redis.backoff import NoBackoff
    client = redis.Redis(port=PORT, retry=Retry(NoBackoff(), RETRIES), socket_timeout=TIMEOUT)
    client.flushall()
    try:
        print(client.set("y", 1))
    except redis.exceptions.RedisError as error:
        print(type(error).__name__)
    try:
        print(client.get("y"))
    except redis.exceptions.RedisError as error:
        print(type(error).__name__)
"""
AWAITING = """
    import asyncio, redis.asyncio, redis.exceptions
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    async def main():
        client = redis.asyncio.Redis(port=PORT, retry=Retry(NoBackoff(), RETRIES), socket_timeout=TIMEOUT)
        await client.flushall()
        for ask in (lambda: client.set("y", 1), lambda: client.get("y")):
            try:
                print(await ask())
            except redis.exceptions.RedisError as error:
                print(type(error).__name__)
        await client.connection_pool.disconnect()
    asyncio.run(main())
"""


def set_y(tool: Any, port: int, way: str, retries: int, timeout: str = "None") -> Any:
    use(tool, "redis", cache=port)
    source = SETTING if way == "threads" else AWAITING
    return run(tool, source, PORT=port, RETRIES=retries, TIMEOUT=timeout).ok()


def places(outcome: Any) -> list[tuple[str, str]]:
    return [(receipt.action, receipt.detail.partition("peer:cache")[2]) for receipt in outcome.receipts]


@pytest.mark.parametrize("way", ["threads", "asyncio"])
@pytest.mark.parametrize(("retries", "said"), [(0, "ConnectionError None"), (3, "True b'1'")])
def test_a_library_that_retries_hides_one_reset(tool, redis_port, way, retries, said):
    tool.step(RESET, SET_Y)
    outcome = set_y(tool, redis_port, way, retries)
    assert outcome.out.split() == said.split()
    (command,) = [event for event in outcome.of("db.write") if event.target.startswith("SET y")]
    assert outcome.receipts[0].seq == command.seq
    assert command.error == ("" if retries else "ConnectionError")
    assert places(outcome) == [("error", ": ECONNRESET once, at net.send peer:cache")]
    assert [event.error for event in outcome.of("net.send") if event.error] == ["ECONNRESET"]


@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_an_error_at_the_call_is_above_the_retries(tool, redis_port, way):
    tool.step({**RESET, **CALL}, SET_Y)
    outcome = set_y(tool, redis_port, way, 3)
    assert outcome.out.split() == ["ConnectionError", "None"]
    assert places(outcome) == [("error", ": ECONNRESET once, at the call")]
    assert not [event for event in outcome.of("net.send") if event.error]


@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_retries_reach_an_error_that_lasts(tool, redis_port, way):
    tool.step(LASTING, SET_Y)
    outcome = set_y(tool, redis_port, way, 3)
    assert outcome.out.split() == ["ConnectionError", "ConnectionError"]
    ((action, place),) = places(outcome)
    assert (action, place.partition(", at ")[0]) == ("error", ": ECONNRESET peer")
    assert place.endswith((", at net.send peer:cache", ", at net.recv peer:cache"))
    assert len([event for event in outcome.of("net.connect") if event.error == "ECONNRESET"]) >= 3


@pytest.mark.parametrize("way", ["threads", "asyncio"])
@pytest.mark.parametrize(("retries", "said"), [(0, "TimeoutError None"), (3, "True b'1'")])
def test_a_lost_command_is_waited_for_and_sent_again(tool, redis_port, way, retries, said):
    """The connection loses everything, so the client sees its own time limit. The server never sees the command."""
    tool.step(DROP, SET_Y)
    outcome = set_y(tool, redis_port, way, retries, timeout="0.3")
    assert outcome.out.split() == said.split()
    assert places(outcome) == [("drop", ": at net.send peer:cache")]
    assert [event.error for event in outcome.of("net.send")].count("LOST") == 1


LATE = """
    while client.get("y") is None:
        pass
    print("arrived")
"""


@pytest.mark.parametrize("way", ["threads", "asyncio"])
@pytest.mark.parametrize(("retries", "said"), [(0, "TimeoutError None"), (3, "True b'1'")])
def test_a_late_command_meets_the_clients_own_time_limit(tool, redis_port, way, retries, said):
    """The client gives up, and may try again on a new connection."""
    tool.step(DELAY, SET_Y)
    outcome = set_y(tool, redis_port, way, retries, timeout="0.3")
    assert outcome.out.split() == said.split()
    (command,) = [event for event in outcome.of("db.write") if event.target.startswith("SET y")]
    assert command.end_ns - command.t_ns >= 300_000_000
    assert outcome.receipts[0].seq == command.seq
    assert places(outcome) == [("delay", ": at net.send peer:cache")]


def test_a_late_command_is_carried_out_after_its_client_gave_up(tool, redis_port):
    use(tool, "redis", cache=redis_port)
    tool.step(DELAY, SET_Y)
    outcome = run(tool, SETTING + LATE, PORT=redis_port, RETRIES=0, TIMEOUT="0.3").ok()
    assert outcome.out.split() == ["TimeoutError", "None", "arrived"]
    assert outcome.receipts[0].held_ns >= 1_000_000_000


@pytest.mark.parametrize("way", ["threads", "asyncio"])
def test_a_client_without_a_time_limit_waits_for_a_late_command(tool, redis_port, way):
    tool.step(DELAY, SET_Y)
    outcome = set_y(tool, redis_port, way, 0)
    assert outcome.out.split() == ["True", "b'1'"]
    (command,) = [event for event in outcome.of("db.write") if event.target.startswith("SET y")]
    assert command.end_ns - command.t_ns >= 1_000_000_000


SUBSCRIBING = """
    import redis
    client = redis.Redis(port=PORT, socket_timeout=0.3)
    listener = client.pubsub()
    listener.subscribe("first")
    while (listener.get_message(timeout=200) or {"type": ""})["type"] != "subscribe":
        pass
    listener.subscribe("news")
    answer = listener.get_message(timeout=0.2)
    print(answer, client.pubsub_numsub("news")[0][1], sorted(listener.channels), listener.connection._sock is not None)
    listener.connection.disconnect()
    while (listener.get_message(timeout=200) or {"type": ""})["type"] != "subscribe":
        pass
    while not client.pubsub_numsub("news")[0][1]:
        listener.get_message(timeout=0.01)
    print("subscribed again")
"""


def test_a_lost_subscription_is_repeated_when_the_client_connects_again(tool, redis_port):
    """As after lost packets: the client waits for an answer, has noted the channel, and asks for it on a new connection."""
    use(tool, "redis", cache=redis_port)
    tool.step(DROP, {"op": "msg.send", "target": "SUBSCRIBE news peer:cache"})
    outcome = run(tool, SUBSCRIBING, PORT=redis_port).ok()
    assert outcome.out.splitlines() == ["None 0 [b'first', b'news'] True", "subscribed again"]
    assert places(outcome) == [("drop", ": at net.send peer:cache")]


def test_a_subscription_dropped_at_the_call_sends_nothing(tool, redis_port):
    """The connection stays whole: no lost packet causes that."""
    use(tool, "redis", cache=redis_port)
    tool.step({**DROP, **CALL}, {"op": "msg.send", "target": "SUBSCRIBE news peer:cache"})
    outcome = run(tool, SUBSCRIBING, PORT=redis_port).ok()
    assert outcome.out.splitlines()[0] == "None 0 [b'first', b'news'] True"
    assert places(outcome) == [("drop", ": at the call")]
    assert not [event for event in outcome.of("net.send") if event.error]


# --- HTTP


@pytest.mark.parametrize(
    ("client", "fault", "said"),
    [
        ("http.client", RESET, "ConnectionResetError"),
        ("urllib3", RESET, "ProtocolError"),
        ("retrying", RESET, "/b"),
        ("http.client", DROP, "TimeoutError timeout"),
        ("urllib3", DROP, "ReadTimeoutError"),
        ("retrying", DROP, "/b"),
    ],
)
def test_a_request_that_fails_at_the_wire(tool, client, fault, said):
    pytest.importorskip("urllib3")
    port = free_port()
    use(tool, "http", s2=port)
    tool.step(fault, {"op": "msg.send", "target": "GET /b peer:s2"})
    source = CLIENTS["urllib3" if client == "retrying" else client]
    source = source.replace("retries=False", "retries=3") if client == "retrying" else source
    source = source.replace("timeout=200", "timeout=0.3" if fault is DROP else "timeout=200")
    outcome = run(tool, SERVER + source + GETS, PORT=port).ok()
    first, second, third = outcome.out.split()
    assert (first, third) == ("/a", "/c")
    assert second in said.split()
    assert outcome.receipts[0].detail.endswith("at net.send peer:s2")


@pytest.mark.parametrize(
    ("client", "said"), [("http.client", "TimeoutError timeout"), ("urllib3", "ReadTimeoutError"), ("retrying", "/b")]
)
def test_an_answer_that_is_lost_at_the_wire_is_waited_for(tool, client, said):
    pytest.importorskip("urllib3")
    port = free_port()
    use(tool, "http", s2=port)
    tool.step(DROP, {"op": "msg.recv", "target": "200 GET /b peer:s2"})
    source = CLIENTS["urllib3" if client == "retrying" else client].replace("timeout=200", "timeout=0.3")
    source = source.replace("retries=False", "retries=3") if client == "retrying" else source
    outcome = run(tool, SERVER + source + GETS, PORT=port).ok()
    first, second, third = outcome.out.split()
    assert (first, third) == ("/a", "/c")
    assert second in said.split()
    assert [receipt.detail for receipt in outcome.receipts] == ["before msg.recv 200 GET /b peer:s2: at net.recv peer:s2"]


# --- functions that the user names

NODE = """
import socket, threading
connection = None
outbox = []
def send(peer, data):
    connection.sendall(data)
    return "sent"
def queue(peer, data):
    outbox.append(data)
    return "queued"
def ask(peer, data):
    return "answer"
def take(peer, size):
    return connection.recv(size)
async def deliver(peer, data):
    import asyncio
    await asyncio.to_thread(connection.sendall, data)
async def tell(peer, data):
    transport.sendto(data, address)
async def bind(port):
    import asyncio
    global transport, address
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    address = ("127.0.0.1", port)
def flush():
    for data in outbox:
        connection.sendall(data)
def connect(port):
    global connection
    server = socket.create_server(("127.0.0.1", port))
    connection = socket.create_connection(("127.0.0.1", port))
    return server.accept()[0]
"""


def named(tool: Any, port: int, function: str, fault: dict[str, Any], source: str, nth: int = 1) -> Any:
    folder = Path(tool.folder) / "package"
    folder.mkdir()
    (folder / "wired.py").write_text(NODE)
    use(tool, s2=port)
    described = {"function": f"wired:{function}", "op": "msg.send", "kind": {"text": "entry"}, "peer": {"argument": "peer"}}
    tool.more_config["operations"] = [described]
    tool.step(fault, {"op": "msg.send", "target": "entry peer:s2", "nth": nth})
    return tool.run("import wired\n" + source.replace("PORT", str(port)), python_path=str(folder)).ok()


ONE_BY_ONE = """
other = wired.connect(PORT)
for data in (b"one", b"two", b"three"):
    try:
        print(wired.send("s2", data))
    except OSError as error:
        print(type(error).__name__)
try:
    print(other.recv(3))
    other.settimeout(0.1)
    print(other.recv(9))
except OSError as error:
    print(type(error).__name__)
"""


def test_a_named_function_gets_the_error_of_its_connection(tool, any_python):
    """The connection is really reset: later sends fail, and the other side notices."""
    tool.python = any_python
    outcome = named(tool, free_port(), "send", RESET, ONE_BY_ONE, nth=2)
    first, second, third, *_, other = outcome.out.splitlines()
    assert (first, second, other) == ("sent", "ConnectionResetError", "ConnectionResetError")
    assert third in ("BrokenPipeError", "ConnectionResetError")
    assert outcome.receipts[0].detail == "before msg.send entry peer:s2: ECONNRESET once, at net.send peer:s2"


def test_a_named_function_loses_its_bytes_and_all_that_follow(tool, any_python):
    tool.python = any_python
    outcome = named(tool, free_port(), "send", DROP, ONE_BY_ONE, nth=2)
    assert outcome.out.splitlines()[:4] == ["sent", "sent", "sent", "b'one'"]
    assert outcome.out.splitlines()[4] in ("TimeoutError", "timeout")
    assert outcome.receipts[0].detail == "before msg.send entry peer:s2: at net.send peer:s2"
    assert [event.error for event in outcome.of("msg.send")] == ["", "", ""]


DATAGRAMS = """
import asyncio, time
async def main():
    await wired.bind(PORT)
    longest = 0
    telling = asyncio.ensure_future(wired.tell("s2", b"one"))
    while not telling.done():
        begun = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - begun)
    print("went on" if longest < 0.9 else "stood still")
asyncio.run(main())
"""


def test_a_late_datagram_does_not_hold_the_event_loop(tool, any_python):
    """No stream can be late, so the coroutine waits at the call."""
    tool.python = any_python
    outcome = named(tool, free_port(), "tell", DELAY, DATAGRAMS)
    assert outcome.out == "went on\n"
    assert outcome.receipts[0].detail == "before msg.send entry peer:s2: at the call"
    assert outcome.receipts[0].held_ns >= 1_000_000_000


def test_a_named_function_waits_for_a_message_that_is_lost(tool, any_python):
    tool.python = any_python
    folder = Path(tool.folder) / "package"
    folder.mkdir()
    (folder / "wired.py").write_text(NODE)
    port = free_port()
    use(tool, s2=port)
    argument = {"kind": {"text": "entry"}, "peer": {"argument": "peer"}, "size": {"argument": "return"}}
    tool.more_config["operations"] = [{"function": "wired:take", "op": "msg.recv", **argument}]
    tool.step(DROP, {"op": "msg.recv", "nth": 2})
    source = f"""
import wired
other = wired.connect({port})
other.sendall(b"onetwosix")
print(wired.take("s2", 3))
wired.connection.settimeout(0.2)
try:
    print(wired.take("s2", 3))
except OSError as error:
    print(type(error).__name__)
"""
    outcome = tool.run(source, python_path=str(folder)).ok()
    first, second = outcome.out.splitlines()
    assert first == "b'one'"
    assert second in ("TimeoutError", "timeout")
    assert outcome.receipts[0].detail == "before msg.recv entry peer:s2: at net.recv peer:s2"


def test_a_buffered_message_is_hit_when_it_is_sent(tool):
    source = """
import threading
other = wired.connect(PORT)
print(wired.queue("s2", b"one"))
sender = threading.Thread(target=wired.flush)
sender.start()
sender.join()
other.settimeout(0.1)
try:
    print(other.recv(9))
except OSError as error:
    print("nothing")
"""
    outcome = named(tool, free_port(), "queue", DROP, source)
    assert outcome.out.splitlines() == ["queued", "nothing"]
    (message,) = outcome.of("msg.send")
    (receipt,) = outcome.receipts
    assert (receipt.action, receipt.seq, receipt.detail) == (
        "drop", message.seq, "before msg.send entry peer:s2: at net.send peer:s2",
    )  # fmt: skip


def test_a_thread_that_inherits_the_context_of_a_coroutine_is_hit(tool):
    source = """
import asyncio
other = wired.connect(PORT)
try:
    asyncio.run(wired.deliver("s2", b"one"))
except OSError as error:
    print(type(error).__name__)
"""
    outcome = named(tool, free_port(), "deliver", RESET, source)
    assert outcome.out == "ConnectionResetError\n"
    assert outcome.receipts[0].detail.endswith("at net.send peer:s2")


def test_a_fault_without_a_transfer_is_pending(tool):
    outcome = named(tool, free_port(), "ask", RESET, "import socket\nprint(wired.ask('s2', b'x'))")
    assert outcome.out == "answer\n"
    (receipt,) = outcome.receipts
    assert (receipt.action, receipt.proves) == ("pending", False)
    assert receipt.detail.endswith("ECONNRESET once, not at the wire yet")


def test_a_peer_whose_transfers_are_not_seen_gets_the_error_at_the_call(tool):
    """As with a library written in C: the second call shows that the agent sees no transfers below the function."""
    source = """
import socket
print(wired.ask("s2", b"x"))
try:
    wired.ask("s2", b"x")
except OSError as error:
    print(type(error).__name__)
"""
    outcome = named(tool, free_port(), "ask", RESET, source, nth=2)
    assert outcome.out.splitlines() == ["answer", "ConnectionResetError"]
    assert outcome.receipts[0].detail.endswith("ECONNRESET once, at the call")


def test_an_error_that_lasts_may_take_effect_at_connecting(tool):
    port = free_port()
    use(tool, "http", s2=port)
    tool.step(LASTING, {"op": "msg.send", "target": "GET /a peer:s2"})
    outcome = run(tool, SERVER + CLIENTS["http.client"] + GETS, PORT=port).ok()
    assert outcome.out.split() == ["ConnectionResetError"] * 3
    (receipt,) = outcome.receipts
    assert receipt.detail == "before msg.send GET /a peer:s2: ECONNRESET peer, at net.connect peer:s2"
