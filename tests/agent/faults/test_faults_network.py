"""Delays, losses and partitions at sockets: the view of both sides of a connection, in order."""

from __future__ import annotations

from fake_tool import partition, say
from own_peer import prepared, started
from waiting import wait_until

from undermine.model.codec import read_trace

SLOW = {"fault": "delay", "delay_s": 0.4, "mode": "operation"}
DROP = {"fault": "drop"}
TO_S2 = {"op": "net.send", "target": "peer:s2"}


def test_a_delayed_send_blocks_no_loop_and_keeps_the_order(tool, any_python):
    """All sends have returned before the first byte has left."""
    tool.python = any_python
    tool.step({**SLOW, "delay_s": 3600}, TO_S2)
    source = """
        client, server = pair()
        client.setblocking(False)
        server.setblocking(False)
        sizes = [client.send(b"%03d" % number) for number in range(100)]
        print(set(sizes), attempt(lambda: server.recv(100)))
        heal()
        client.close()
        server.settimeout(200)
        print(read_all(server) == b"".join(b"%03d" % n for n in range(100)))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "{3} BlockingIOError\nTrue\n"
    (receipt,) = outcome.receipts
    assert receipt.held_ns < 3600 * 10**9


def test_a_delayed_send_leaves_when_its_time_is_over(tool, any_python):
    tool.python = any_python
    tool.step(SLOW, TO_S2)
    source = """
        client, server = pair()
        client.setblocking(False)
        start = time.monotonic()
        client.send(b"one")
        client.close()
        server.settimeout(200)
        print(read_all(server), time.monotonic() - start >= 0.4, threading.active_count())
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "b'one' True 1\n"
    (receipt,) = outcome.receipts
    assert receipt.action == "delay"
    assert receipt.held_ns >= 400_000_000
    assert receipt.detail == "before net.send peer:s2: this operation only"


def test_a_delayed_receive_ends_with_the_error_of_its_own_time_limit(tool, any_python):
    """The bytes stay on their way: the next receive times out as well, and gets them once the delay is over."""
    tool.python = any_python
    tool.step({**SLOW, "delay_s": 3600}, {"op": "net.recv", "target": "peer:s2"})
    source = """
        client, server = pair()
        client.settimeout(0.2)
        server.sendall(b"one")
        for _ in range(2):
            print(attempt(lambda: client.recv(100)) in ("timeout", "TimeoutError"))
        heal()
        client.settimeout(200)
        print(client.recv(100))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "True\nTrue\nb'one'\n"
    (receipt,) = outcome.receipts
    assert 200_000_000 <= receipt.held_ns < 3600 * 10**9


def test_a_delayed_send_ends_with_the_error_of_its_own_time_limit(tool):
    tool.step({**SLOW, "delay_s": 3600}, TO_S2)
    source = """
        client, server = pair()
        client.settimeout(0.2)
        print(attempt(lambda: client.sendall(b"one")) in ("timeout", "TimeoutError"))
        client.sendall(b"two")
        server.settimeout(200)
        print(server.recv(100))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "True\nb'two'\n"
    (receipt,) = outcome.receipts
    assert 200_000_000 <= receipt.held_ns < 3600 * 10**9


def test_a_delayed_connect_ends_with_the_error_of_its_own_time_limit(tool, any_python):
    tool.python = any_python
    tool.step({**SLOW, "delay_s": 3600}, {"op": "net.connect", "target": "peer:s2"})
    tool.step({**SLOW, "delay_s": 3600}, {"op": "net.connect", "target": "peer:s2", "nth": 2})
    source = """
        import errno
        def connect(how):
            sock = socket.socket()
            sock.settimeout(0.2)
            return attempt(lambda: getattr(sock, how)(listener.getsockname()))
        print(connect("connect") in ("timeout", "TimeoutError"), connect("connect_ex") == errno.EWOULDBLOCK)
        print(connect("connect"))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "True True\nNone\n"
    assert all(200_000_000 <= receipt.held_ns < 3600 * 10**9 for receipt in outcome.receipts)
    assert len(outcome.receipts) == 2


def test_a_delayed_send_blocks_the_thread_of_a_blocking_socket(tool):
    tool.step(SLOW, TO_S2)
    source = """
        client, server = pair()
        start = time.monotonic()
        client.sendall(b"one")
        print(time.monotonic() - start >= 0.4, server.recv(3))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "True b'one'\n"


def test_a_delayed_receive_hides_bytes_that_have_arrived(tool, any_python):
    tool.python = any_python
    tool.step(SLOW, {"op": "net.recv", "target": "peer:s2"})
    source = """
        client, server = pair()
        client.setblocking(False)
        server.sendall(b"hello")
        poll = select.poll()
        poll.register(client, select.POLLIN)
        start, looks = time.monotonic(), 0
        poll.poll(200_000)
        while True:
            looks += 1
            try:
                data = client.recv(100)
                break
            except BlockingIOError:
                poll.poll(200_000)
        print(data, time.monotonic() - start >= 0.4, looks < 20, client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "b'hello' True True 1\n"
    assert outcome.receipts[0].held_ns >= 400_000_000


def test_a_delayed_send_goes_out_on_healing_and_before_the_close(tool):
    tool.step({**SLOW, "delay_s": 3600}, TO_S2)
    source = """
        client, server = pair()
        client.setblocking(False)
        client.send(b"one")
        client.shutdown(socket.SHUT_WR)
        server.settimeout(0.3)
        print(attempt(lambda: server.recv(10)))
        heal()
        server.settimeout(200)
        print(read_all(server))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out.splitlines()[0] in ("timeout", "TimeoutError")
    assert outcome.out.splitlines()[1] == "b'one'"
    assert 300_000_000 <= outcome.receipts[0].held_ns < 60 * 10**9


def test_delayed_bytes_go_out_when_the_program_ends(tool):
    tool.step({**SLOW, "delay_s": 3600}, TO_S2)
    source = """
        import subprocess
        reader = "import socket; s = socket.socket(fileno=%d); print(s.recv(10), s.recv(10))"
        client, server = pair()
        subprocess.Popen([sys.executable, "-c", reader % server.fileno()], pass_fds=[server.fileno()], env={})
        client.setblocking(False)
        client.send(b"last")
    """
    outcome = tool.run(prepared(tool, source))
    assert outcome.code == 0, outcome.err
    assert outcome.out == "b'last' b''\n"


def test_a_forked_child_leaves_queued_bytes_to_its_parent(tool, any_python):
    tool.python = any_python
    tool.step(SLOW, TO_S2)
    source = """
        import os
        client, server = pair()
        client.setblocking(False)
        client.send(b"one")
        if os.fork() == 0:
            client.close()
            time.sleep(0.6)
            os._exit(0)
        client.close()
        server.settimeout(200)
        print(server.recv(10))
        os.wait()
        print(server.recv(10))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "b'one'\nb''\n"


def test_many_bytes_pass_whole_through_a_delayed_connection(tool):
    tool.step(SLOW, TO_S2)
    source = """
        import hashlib
        client, server = pair()
        data = bytes(range(256)) * 40_000
        found = []
        reader = threading.Thread(target=lambda: found.append(read_all(server)))
        reader.start()
        client.setblocking(False)
        view = memoryview(data)
        while view:
            try:
                view = view[client.send(view[:300_000]):]
            except BlockingIOError:
                select.select([], [client], [], 5)
        client.close()
        reader.join()
        print(found[0] == data)
    """
    assert tool.run(prepared(tool, source)).ok().out == "True\n"


def test_an_asyncio_program_continues_while_one_connection_is_delayed(tool, any_python):
    tool.python = any_python
    tool.step({**SLOW, "delay_s": 3600}, TO_S2)
    source = """
        import asyncio
        async def handle(reader, writer):
            print(await reader.read())
            done.set()
        async def main():
            global done
            done = asyncio.Event()
            server = await asyncio.start_server(handle, sock=listener)
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            for number in range(5):
                writer.write(b"line %d," % number)
                await writer.drain()
            writer.close()
            for tick in range(10):
                await asyncio.sleep(0.01)
            print(not done.is_set())
            heal()
            await done.wait()
        asyncio.run(main())
    """
    outcome = tool.run(prepared(tool, source))
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["True", "b'line 0,line 1,line 2,line 3,line 4,'"]


def test_a_dropped_send_makes_a_blackhole_that_ends_in_a_reset(tool, any_python):
    tool.python = any_python
    tool.step(DROP, {**TO_S2, "nth": 2})
    source = """
        client, server = pair()
        print(client.send(b"one"), client.send(b"two"), client.sendall(b"three"))
        server.settimeout(0.3)
        print(server.recv(100), attempt(lambda: server.recv(100)) in ("timeout", "TimeoutError"))
        server.sendall(b"answer")
        print(client.recv(100))
        heal()
        server.settimeout(200)
        print(attempt(lambda: server.recv(100)), attempt(lambda: client.send(b"four")))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out.splitlines() == [
        "3 3 None",
        "b'one' True",
        "b'answer'",
        "ConnectionResetError ConnectionResetError",
    ]
    assert [(e.result, e.error) for e in outcome.of("net.send") if e.target == "peer:s2"] == [
        (3, ""),
        (0, "LOST"),
        (0, "LOST"),
        (0, "ECONNRESET"),
    ]
    assert [r.action for r in outcome.receipts] == ["drop"]


def test_bytes_in_a_blackhole_are_never_received(tool, any_python):
    tool.python = any_python
    tool.step(DROP, {"op": "net.recv", "target": "peer:s2"})
    source = """
        client, server = pair()
        client.setblocking(False)
        server.sendall(b"one")
        poll = select.poll()
        poll.register(client, select.POLLIN)
        poll.poll(200_000)
        print(attempt(lambda: client.recv(100)))
        server.sendall(b"two")
        print(poll.poll(200), attempt(lambda: client.recv(100)), client.send(b"out"), server.recv(10))
        heal()
        print(bool(poll.poll(200_000)), attempt(lambda: client.recv(100)))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out.splitlines() == [
        "BlockingIOError",
        "[] BlockingIOError 3 b'out'",
        "True ConnectionResetError",
    ]
    assert next(e.error for e in outcome.of("net.recv") if e.target == "peer:s2") == "LOST"
    assert "EAGAIN" not in {e.error for e in outcome.trace}


def test_a_blocking_receive_at_a_blackhole_waits_for_its_timeout_or_the_reset(tool):
    tool.step(DROP, {"op": "net.recv", "target": "peer:s2"})
    source = """
        client, server = pair()
        client.settimeout(0.2)
        server.sendall(b"one")
        print(attempt(lambda: client.recv(100)) in ("timeout", "TimeoutError"))
        client.settimeout(None)
        threading.Timer(0.2, heal).start()
        print(attempt(lambda: client.recv(100)))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "True\nConnectionResetError\n"


def test_the_other_side_sees_a_close_only_when_the_blackhole_ends(tool):
    tool.step(DROP, TO_S2)
    source = """
        client, server = pair()
        client.send(b"one")
        client.close()
        server.settimeout(0.3)
        print(attempt(lambda: server.recv(100)) in ("timeout", "TimeoutError"))
        heal()
        server.settimeout(200)
        print(attempt(lambda: server.recv(100)))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "True\nConnectionResetError\n"


def test_a_dropped_datagram_is_lost_alone(tool):
    tool.step(DROP, {"op": "net.send", "nth": 2})
    outcome = tool.run(
        """
        import socket
        receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(200)
        print([sender.sendto(b"d%d" % n, receiver.getsockname()) for n in range(3)])
        print(receiver.recv(10), receiver.recv(10))
        """
    ).ok()
    assert outcome.out == "[2, 2, 2]\nb'd0' b'd2'\n"
    assert [e.error for e in outcome.of("net.send")] == ["", "LOST", ""]


def test_datagrams_do_not_cross_a_partition(tool):
    source = """
        here, there = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        here.bind(("127.0.0.1", 0))
        there.bind(listener.getsockname())
        stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        print("up", flush=True)
        sys.stdin.readline()
        print(here.sendto(b"lost", there.getsockname()), there.sendto(b"lost", here.getsockname()))
        stranger.sendto(b"seen", here.getsockname())
        there.settimeout(0.1)
        print(here.recvfrom(10)[0], attempt(lambda: there.recv(10)) in ("timeout", "TimeoutError"), flush=True)
        sys.stdin.readline()
        print(here.sendto(b"seen", there.getsockname()), there.recv(10), flush=True)
    """
    with started(tool, source) as target:
        assert target.stdout.readline() == "up\n"
        tool.change_lasting([partition()])
        say(target)
        assert [target.stdout.readline() for _ in range(2)] == ["4 4\n", "b'seen' True\n"]
        tool.change_lasting([])
        say(target)
        assert target.stdout.readline() == "4 b'seen'\n"


def test_an_error_of_a_datagram_leaves_an_asyncio_endpoint_open(tool, any_python):
    tool.python = any_python
    tool.step({"fault": "error", "error": "ECONNRESET", "scope": "once"}, TO_S2)
    source = """
        import asyncio

        class Here(asyncio.DatagramProtocol):
            def error_received(self, error):
                print("error", type(error).__name__)

            def connection_lost(self, error):
                print("lost", error)

        async def main():
            there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            there.bind(listener.getsockname())
            here, _ = await asyncio.get_running_loop().create_datagram_endpoint(Here, ("127.0.0.1", 0))
            here.sendto(b"one", there.getsockname())
            here.sendto(b"two", there.getsockname())
            print(there.recv(10), here.is_closing())

        asyncio.run(main())
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out.splitlines() == ["error ConnectionResetError", "b'two' False"]


def test_an_asyncio_program_at_a_blackhole_waits_for_the_reset(tool, any_python):
    tool.python = any_python
    tool.step(DROP, {**TO_S2, "nth": 2})
    source = """
        import asyncio
        async def handle(reader, writer):
            try:
                async for line in reader:
                    print(line)
                print("end")
            except ConnectionResetError:
                print("reset")
            writer.close()
            done.set()
        async def main():
            global done
            done = asyncio.Event()
            server = await asyncio.start_server(handle, sock=listener)
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            for number in range(3):
                writer.write(b"line %d\\n" % number)
                await asyncio.sleep(0.05)
            heal()
            try:
                print(await reader.read())
            except ConnectionResetError:
                print("reset")
            await done.wait()
        asyncio.run(main())
    """
    outcome = tool.run(prepared(tool, source))
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["b'line 0\\n'", "reset", "reset"]


def test_a_partition_with_errors_fails_sends_and_connects(tool, any_python):
    tool.python = any_python
    source = """
        client, server = pair()
        print(client.send(b"1"), server.recv(1), flush=True)
        sys.stdin.readline()
        print(attempt(lambda: client.send(b"1")), attempt(lambda: client.recv(1)), attempt(pair), flush=True)
    """
    with started(tool, source) as target:
        assert target.stdout.readline() == "1 b'1'\n"
        tool.change_lasting([partition(loss="error")])
        say(target)
        assert target.stdout.readline() == "ConnectionResetError ConnectionResetError OSError\n"


def test_a_silent_partition_withholds_everything_until_it_heals(tool, any_python):
    tool.python = any_python
    source = """
        client, server = pair()
        print("up", flush=True)
        sys.stdin.readline()
        print([client.send(b"%d" % n) for n in range(3)], client.sendall(b"end"))
        server.sendall(b"answer")
        for sock in (client, server):
            sock.settimeout(0.2)
        print([attempt(lambda: sock.recv(10)) in ("timeout", "TimeoutError") for sock in (server, client)])
        client.setblocking(False)
        print(attempt(lambda: client.recv(10)), attempt(pair), flush=True)
        for sock in (client, server):
            sock.settimeout(200)
        print(b"".join(server.recv(1) for _ in range(6)), client.recv(10), client.send(b"1"), server.recv(10))
    """
    with started(tool, source) as target:
        assert target.stdout.readline() == "up\n"
        tool.change_lasting([partition()])
        say(target)
        assert [target.stdout.readline() for _ in range(3)] == [
            "[1, 1, 1] None\n",
            "[True, True]\n",
            "BlockingIOError OSError\n",
        ]
        wait_until(lambda: any(not e.end_ns for e in read_trace(tool.trace_dir)[0] if e.op == "net.recv"), what="a receive waits")
        tool.change_lasting([])
        assert target.stdout.readline() == "b'012end' b'answer' 1 b'1'\n"


def test_nobody_hears_of_a_close_across_a_silent_partition(tool):
    source = """
        client, server = pair()
        other, other_server = pair()
        print("up", flush=True)
        sys.stdin.readline()
        client.send(b"last")
        client.close()
        other.close()
        for sock in (server, other_server):
            sock.settimeout(0.2)
            print(attempt(lambda: sock.recv(10)) in ("timeout", "TimeoutError"), flush=True)
            sock.settimeout(200)
        print(read_all(server), read_all(other_server))
    """
    with started(tool, source) as target:
        assert target.stdout.readline() == "up\n"
        tool.change_lasting([partition()])
        say(target)
        assert [target.stdout.readline() for _ in range(2)] == ["True\n", "True\n"]
        tool.change_lasting([])
        assert target.stdout.readline() == "b'last' b''\n"


def test_a_partition_can_cut_one_direction(tool):
    source = """
        client, server = pair()
        print("up", flush=True)
        sys.stdin.readline()
        server.settimeout(0.2)
        print(client.send(b"out"), attempt(lambda: server.recv(10)) in ("timeout", "TimeoutError"))
        server.send(b"in")
        print(client.recv(10), attempt(pair), flush=True)
    """
    with started(tool, source) as target:
        assert target.stdout.readline() == "up\n"
        tool.change_lasting([partition(into=False)])
        say(target)
        assert target.stdout.readline() == "3 True\n"
        assert target.stdout.readline() == "b'in' OSError\n"


def test_a_partition_that_starts_at_an_operation_applies_to_it(tool):
    tool.step({"fault": "partition", "nodes": [], "loss": "error"}, {**TO_S2, "nth": 2}, until={"op": "net.close"})
    tool.on_claim = lambda request: tool.change_lasting([partition(loss="error")]) if request["half"] == "second" else 0
    source = """
        client, server = pair()
        other, _ = pair()
        print(attempt(lambda: client.send(b"1")), attempt(lambda: client.send(b"2")), attempt(lambda: client.send(b"3")))
        other.close()
        print(attempt(lambda: client.send(b"4")), server.recv(10), attempt(lambda: server.recv(10)))
    """
    outcome = tool.run(prepared(tool, source)).ok()
    assert outcome.out == "1 ConnectionResetError ConnectionResetError\nConnectionResetError b'1' ConnectionResetError\n"
    assert [request["half"] for request in tool.requests if request["type"] == "claim"] == ["second", "until"]
    assert tool.byte(64) == 3


def test_asyncio_datagrams_do_not_cross_a_partition_and_do_not_arrive_late(tool, any_python):
    tool.python = any_python
    source = """
        import asyncio

        class Prints(asyncio.DatagramProtocol):
            def datagram_received(self, data, address):
                print(data.decode(), flush=True)

        async def say(loop):
            await loop.run_in_executor(None, sys.stdin.readline)

        async def main():
            loop = asyncio.get_running_loop()
            there, _ = await loop.create_datagram_endpoint(Prints, listener.getsockname())
            here, _ = await loop.create_datagram_endpoint(Prints, ("127.0.0.1", 0))
            bound, _ = await loop.create_datagram_endpoint(Prints, remote_addr=listener.getsockname())
            addresses = [each.get_extra_info("sockname") for each in (there, here)]
            print("up", flush=True)
            await say(loop)
            for _ in range(2):
                here.sendto(b"lost", addresses[0])
                there.sendto(b"lost", addresses[1])
                bound.sendto(b"lost")
                await asyncio.sleep(0.01)
            print("sent", flush=True)
            await say(loop)
            here.sendto(b"one", addresses[0])
            await asyncio.sleep(0.01)
            bound.sendto(b"two")
            await asyncio.sleep(0.2)

        asyncio.run(main())
    """
    with started(tool, source) as target:
        assert target.stdout.readline() == "up\n"
        tool.change_lasting([partition()])
        say(target)
        assert target.stdout.readline() == "sent\n"
        tool.change_lasting([])
        say(target)
        outcome = tool.outcome(target).ok()
    assert outcome.out == "one\ntwo\n"
    sent = [e.error for e in outcome.of("net.send") if e.target == "peer:s2"]
    assert sent == ["LOST"] * 4 + ["", ""], "the record says what was lost"
    assert sum(not e.error for e in outcome.of("net.recv")) == 2
