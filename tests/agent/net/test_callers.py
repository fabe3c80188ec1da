"""Accepted connections are named after the node at their other end."""

from __future__ import annotations

import socket

import pytest

SERVER = """
    import socket, sys
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    there, _ = listener.accept()
    while there.recv(10):
        there.send(b"got it")
    there.close()
"""
CLIENT = """
    import socket
    client = socket.create_connection(("127.0.0.1", %s))
    for text in (b"one", b"two"):
        client.send(text)
        client.recv(10)
"""


def test_a_calling_node_is_known_by_its_port(tool, any_python):
    tool.python = any_python
    server = tool.start(SERVER)
    port = server.stdout.readline().strip()
    tool.node = "s2"
    tool.run(CLIENT % port).ok()
    outcome = tool.outcome(server).ok()
    received = [event for event in outcome.of("net.recv") if event.node == "s1"]
    assert received[-1].target == "peer:s2"
    assert next(e.target for e in outcome.of("net.close") if e.node == "s1" and e.target != "listen") == "peer:s2"


def test_a_caller_that_announces_itself_while_it_is_looked_up_is_known_at_the_next_look(tool):
    """The caller's connect may return before its agent has announced it, and the other side may look just then."""
    outcome = tool.run("""
        import socket
        from undermine_agent.net.peers import Peers, text_of

        class State:
            looks = 0

            def caller_at(self, slot, port):
                self.looks += 1
                return 2 if self.looks > 1 else 0

        peers = Peers({"addresses": {}, "nodes": ["s1", "s2"], "node": "s1"}, State(), lambda: False)
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        there, address = server.accept()
        peers.learn(there, peers.caller(text_of(address), there))
        print(peers.of(there).target)
    """).ok()
    assert outcome.out.strip() == "peer:s2"


@pytest.mark.parametrize(("hosts", "target"), [({"127.0.0.1": "s3", "127.0.0.2": "s1"}, "peer:s3"), ({}, "accepted")])
def test_a_node_with_its_own_address_is_known_by_it(tool, hosts, target):
    tool.more_config = {"hosts": hosts}
    server = tool.start(SERVER)
    port = server.stdout.readline().strip()
    with socket.create_connection(("127.0.0.1", int(port))) as client:
        client.send(b"one")
        client.recv(10)
    outcome = tool.outcome(server).ok()
    assert {event.target for event in outcome.of("net.recv")} == {target}


def test_a_client_that_shares_a_nodes_port_is_not_taken_for_a_node(tool):
    """The kernel gives two connections the same local port if their remote addresses differ."""
    server, elsewhere = tool.start(SERVER), socket.create_server(("127.0.0.1", 0))
    port = int(server.stdout.readline())
    tool.node = "s2"
    source = f"""
        import socket
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("127.0.0.1", 0))
        client.connect(("127.0.0.1", {elsewhere.getsockname()[1]}))
        print(client.getsockname()[1], flush=True)
        client.recv(1)
    """
    node = tool.start(source)
    shared = int(node.stdout.readline())
    held, _ = elsewhere.accept()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("127.0.0.1", shared))
        client.connect(("127.0.0.1", port))
        client.send(b"one")
        client.recv(10)
    outcome = tool.outcome(server)
    held.close()
    assert tool.outcome(node).code == outcome.code == 0
    assert {event.target for event in outcome.of("net.recv") if event.node == "s1"} == {"accepted"}
    elsewhere.close()
