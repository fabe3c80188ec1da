"""Exchanges membership with the other stores, on an asyncio loop in its own thread.

The called store sends its digest, receives the caller's, and confirms it. So it learns nothing
from a caller that has given up meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from .membership import LEFT_KEPT_S, Membership
from .process import spawn
from .rpc import Address
from .sealed import seal, unseal

EXCHANGE_EVERY_S = 0.05
EXCHANGE_TIMEOUT_S = 0.25

log = logging.getLogger("granary.gossip")


class Gossip:
    def __init__(self, membership: Membership, address: Address, peers: dict[str, Address]) -> None:
        self._membership = membership
        self._address = address
        self._peers = {name: peer for name, peer in peers.items() if name != membership.node}
        self._heard_since_left = False
        self._serving: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        spawn("gossip", self._run_forever)

    def _run_forever(self) -> None:
        while True:
            try:
                asyncio.run(self._talk())
                return
            except OSError as error:
                log.warning("gossip starts again: %s", error)
                time.sleep(0.1)

    async def _talk(self) -> None:
        """Accept and start exchanges, until we have left and another node knows it."""
        asyncio.get_running_loop().set_exception_handler(_log_loop_error)
        server = await asyncio.start_server(self._serve, *self._address)
        self._serving.clear()
        async with server:
            turn = 0
            peers = sorted(self._peers.items())
            while not self._done():
                name, address = peers[turn % len(peers)]
                turn += 1
                await self._exchange(name, address)
                self._membership.expire()
                await asyncio.sleep(EXCHANGE_EVERY_S)
            if self._serving:
                await asyncio.wait(self._serving, timeout=4 * EXCHANGE_TIMEOUT_S)
        log.info("gossip has ended: this node has left")

    def _done(self) -> bool:
        left_at = self._membership.left_at
        return left_at is not None and self._heard_since_left and time.monotonic() - left_at > LEFT_KEPT_S

    async def _exchange(self, name: str, address: Address) -> None:
        left = self._membership.left
        try:
            await asyncio.wait_for(self._ask(address), EXCHANGE_TIMEOUT_S)
        except (OSError, EOFError, ValueError, TypeError, TimeoutError) as error:
            log.debug("no gossip with %s: %r", name, error)
        else:
            self._heard_since_left = self._heard_since_left or left

    async def _ask(self, address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        try:
            self._membership.merge(await _receive(reader))
            await _send(writer, self._membership.digest())
            await _receive(reader)
        finally:
            await _close(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            await asyncio.wait_for(_send(writer, self._membership.digest()), EXCHANGE_TIMEOUT_S)
            self._membership.merge(await asyncio.wait_for(_receive(reader), EXCHANGE_TIMEOUT_S))
            await asyncio.wait_for(_send(writer, {}), EXCHANGE_TIMEOUT_S)
        except (OSError, EOFError, ValueError, TypeError, TimeoutError) as error:
            log.debug("gossip exchange broke off: %r", error)
        finally:
            await _close(writer)


async def _send(writer: asyncio.StreamWriter, digest: dict[str, list[Any]]) -> None:
    writer.write(seal(digest) + b"\n")
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> dict[str, list[Any]]:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError("closed by peer")
    return dict(unseal(line[:-1]))


async def _close(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        writer.close()
        await asyncio.wait_for(writer.wait_closed(), EXCHANGE_TIMEOUT_S)


def _log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if error is not None and not isinstance(error, (OSError, asyncio.CancelledError)):
        log.error("in the gossip loop: %s: %r", context.get("message"), error)
        return
    log.debug("in the gossip loop: %s: %r", context.get("message"), error)
