"""Nodes that tell each other that they live, in one event loop: what is heard when shows who stood still or was cut off.

Each node writes the moments of its own beats to `beats`, and those at which it heard a peer to `heard.PEER`.
"""

from __future__ import annotations

import asyncio
import sys
import time

INTERVAL_S = 0.02


class Node:
    """One member of the cluster."""

    def __init__(self, name: str, peers: dict[str, tuple[str, int]]) -> None:
        self.name = name
        self.peers = peers
        self.beats = 0
        self.leads = name == "n2"

    async def serve(self, host: str, port: int) -> None:
        server = await asyncio.start_server(self.hear, host, port)
        async with server:
            await asyncio.gather(self.beat(), *(self.tell(*address) for address in self.peers.values()))

    async def beat(self) -> None:
        while True:
            self.beats += 1
            note("beats")
            await asyncio.sleep(INTERVAL_S)

    async def tell(self, host: str, port: int) -> None:
        """Keep a connection to a peer and send on it; come again when it breaks."""
        while True:
            try:
                _, writer = await asyncio.open_connection(host, port)
                while True:
                    writer.write(f"{self.name}\n".encode())
                    await writer.drain()
                    await asyncio.sleep(INTERVAL_S)
            except OSError as error:
                note("errors", f"{type(error).__name__} ")
                await asyncio.sleep(INTERVAL_S)

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                name = line.decode(errors="replace").strip()
                if name == "ask":
                    writer.write(b"here\n")
                else:
                    note(f"heard.{name}")
        except OSError:
            pass
        finally:
            writer.close()


def note(name: str, text: str = "") -> None:
    with open(name, "a") as out:
        out.write(f"{text}{time.monotonic_ns()}\n")


def main() -> None:
    name, host, port, *peers = sys.argv[1:]
    named = {}
    for peer in peers[0].split(",") if peers else ():
        other, _, address = peer.partition("=")
        peer_host, _, peer_port = address.rpartition(":")
        named[other] = (peer_host, int(peer_port))
    asyncio.run(Node(name, named).serve(host, int(port)))


if __name__ == "__main__":
    main()
