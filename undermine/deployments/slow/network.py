"""A slow network card for a node: every packet from or to the node is held for some seconds, then released.

    program ── kernel of the node's namespace ──[ queue: held here ]── cable ── switch

Packets keep their order, so that no connection sees them reordered. The kernel holds them, and a thread of the tool releases
them. The queue holds at most `packets_max` packets; further ones are lost, as in a card whose memory is full. The node's
loopback and ARP are not slowed. Nothing is diverted before `start`. After `stop`, packets still pass through the thread
without delay until `close`: if the diversion ended in between, a packet could overtake others.

If the tool dies, so does its queue: waiting packets are lost, and later ones pass freely. If the node dies, its waiting
packets are still delivered, as by a real card.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Collection
from functools import cache

from undermine.deployments import netns
from undermine.deployments.slow import netfilter
from undermine.deployments.slow.device import DELAY_S, RECEIPTS_MAX, Ended, Slowed, Slowness
from undermine.deployments.slow.netfilter import Direction, Packet, PacketQueue
from undermine.model.errors import UserError

PACKETS_MAX = 8192

_QUEUE = 1  # each namespace numbers its own queues
_BYTES_READ = 64  # an IPv4 header with options, and ports
_PROTOCOLS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_ICMP: "icmp"}

Waiting = tuple[int, int, Packet]
"""When the packet arrived, when it is released, and the packet."""


def missing(namespace: str) -> str:
    """Why the network of a node in this namespace ("": the tool's own) cannot be slow; "" if it can."""
    if os.geteuid() != 0:
        return "a slow network needs root"
    if not namespace:
        return (
            "nodes that share the loopback have no network cards that could be slow: "
            'run as root, with run.isolation = "namespaces" or "auto"'
        )
    return _queue_missing()


@cache
def _queue_missing() -> str:
    """Why the kernel cannot queue packets; "" if it can. Creates a queue in a new namespace to find out."""

    def attempt() -> None:
        os.close(netns.make())
        PacketQueue(_QUEUE, PACKETS_MAX, _BYTES_READ).close()
        netfilter.divert(_QUEUE, ("in", "out"))

    try:
        netns.in_thread(attempt)
    except OSError as error:
        return f"this kernel does not hand packets to programs (nf_tables with a queue, or with NFQUEUE): {error}"
    return ""


class SlowNetwork:
    """The network card of the node in the namespace with this path. Safe to use from several threads."""

    def __init__(
        self, namespace: str, directions: Collection[Direction] = ("in", "out"), packets_max: int = PACKETS_MAX
    ) -> None:
        if lacking := missing(namespace):
            raise UserError(lacking)
        self._directions = tuple(directions)
        self._packets_max = packets_max
        self._namespace = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._queue: PacketQueue | None = None
        self._thread: threading.Thread | None = None
        self._delay_ns: int | None = None  # None: fast
        self._closed = False
        self._waiting: deque[Waiting] = deque()
        self._slowed: list[Slowed] = []
        self._unlisted = 0
        self._lost = 0
        self._problem = ""

    def start(self, delay_s: float = DELAY_S) -> None:
        """Make every packet take `delay_s` longer from now on. Packets that wait already keep their time."""
        with self._lock:
            if self._closed:
                raise ValueError("this network is closed")
            self._delay_ns = round(delay_s * 1e9)
            if self._queue is None:
                self._queue = netns.in_thread(self._divert)
                self._thread = threading.Thread(target=self._run_queue, args=(self._queue,), name="undermine-slow-network")
                self._thread.daemon = True
                self._thread.start()

    def stop(self) -> None:
        """Make the network fast again, and release all waiting packets in their order."""
        with self._lock:
            if not self._closed:
                self._delay_ns = None
                os.eventfd_write(self._wakeup, 1)

    def receipts(self) -> Slowness:
        with self._lock:
            if self._queue is not None and not self._closed:
                self._lost = netns.in_thread(self._count_lost)
            waiting = [_receipt(one, time.monotonic_ns(), "held") for one in self._waiting]
            listed = [*self._slowed, *waiting][:RECEIPTS_MAX]
            unlisted = self._unlisted + len(self._slowed) + len(waiting) - len(listed)
            return Slowness(tuple(listed), unlisted, self._lost, problem=self._problem)

    def close(self) -> None:
        """Release all packets and the namespace, even if one of the steps fails. May be called twice."""
        try:
            self.receipts()  # counts the lost packets for the last time
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._delay_ns = None
            os.eventfd_write(self._wakeup, 1)
        with contextlib.ExitStack() as ends:  # runs in reverse order; all run even if one fails
            ends.callback(os.close, self._namespace)
            ends.callback(os.close, self._wakeup)
            if self._queue is not None:
                ends.callback(self._end_queue, self._queue)
            if self._thread is not None:
                ends.callback(self._thread.join)

    def _end_queue(self, queue: PacketQueue) -> None:
        try:
            netns.in_thread(self._undivert)
        finally:
            if not self._problem:
                self._release_rest(queue)

    def _release_rest(self, queue: PacketQueue) -> None:
        with contextlib.closing(queue):  # without a reader, later packets pass
            self._take_arrived(queue)  # packets that arrived before the diversion ended
            self._release_due(queue)

    # --- in the namespace

    def _divert(self) -> PacketQueue:
        netns.enter_fd(self._namespace)
        queue = PacketQueue(_QUEUE, self._packets_max, _BYTES_READ)
        try:
            netfilter.divert(_QUEUE, self._directions)
        except BaseException:
            queue.close()
            raise
        return queue

    def _undivert(self) -> None:
        netns.enter_fd(self._namespace)
        netfilter.undivert()

    def _count_lost(self) -> int:
        netns.enter_fd(self._namespace)
        return netfilter.lost_in_queue(_QUEUE)

    # --- the thread that releases packets

    def _run_queue(self, queue: PacketQueue) -> None:
        try:
            poll = select.poll()
            poll.register(queue.fileno(), select.POLLIN)
            poll.register(self._wakeup, select.POLLIN)
            while not self._closed:
                ready = dict(poll.poll(self._poll_timeout_ms()))
                if self._wakeup in ready:
                    os.eventfd_read(self._wakeup)
                with self._lock:
                    self._take_arrived(queue)
                    self._release_due(queue)
        except BaseException as error:  # the node must not hang because of a bug in Undermine: without a reader, packets pass
            with self._lock:
                self._problem = f"the network was not slowed any more: {type(error).__name__}: {error}"
                self._waiting.clear()
                queue.close()

    def _poll_timeout_ms(self) -> float | None:
        with self._lock:
            if not self._waiting:
                return None
            due_ns = self._waiting[0][1]
        return max(0, due_ns - time.monotonic_ns()) / 1e6

    def _take_arrived(self, queue: PacketQueue) -> None:
        now_ns = time.monotonic_ns()
        for packet in queue.packets():
            due_ns = now_ns + (self._delay_ns or 0)
            if self._waiting:  # keep the order
                due_ns = max(due_ns, self._waiting[-1][1])
            self._waiting.append((now_ns, due_ns, packet))

    def _release_due(self, queue: PacketQueue) -> None:
        now_ns = time.monotonic_ns()
        last = None
        while self._waiting and (self._delay_ns is None or self._waiting[0][1] <= now_ns):
            last = self._waiting.popleft()
            if last[1] > last[0]:
                self._note(_receipt(last, now_ns, "delayed" if last[1] <= now_ns else "released"))
        if last is not None:
            queue.accept_up_to(last[2].number)

    def _note(self, receipt: Slowed) -> None:
        if len(self._slowed) < RECEIPTS_MAX:
            self._slowed.append(receipt)
        else:
            self._unlisted += 1


def _receipt(one: Waiting, now_ns: int, ended: Ended) -> Slowed:
    came_ns, _, packet = one
    protocol, target = describe(packet.start)
    return Slowed(f"{protocol} {packet.direction}", target, came_ns, now_ns - came_ns, ended, size=packet.size)


def describe(start: bytes) -> tuple[str, str]:
    """The protocol of an IPv4 packet and its source and destination, from its first bytes."""
    if len(start) < 20 or start[0] >> 4 != 4:
        return "other", ""
    number = start[9]
    protocol = _PROTOCOLS.get(number, f"protocol {number}")
    ends = [socket.inet_ntoa(start[12:16]), socket.inet_ntoa(start[16:20])]
    ports = start[(start[0] & 15) * 4 :][:4]
    if number in (socket.IPPROTO_TCP, socket.IPPROTO_UDP) and len(ports) == 4:
        ends = [f"{ends[0]}:{int.from_bytes(ports[:2], 'big')}", f"{ends[1]}:{int.from_bytes(ports[2:], 'big')}"]
    return protocol, " → ".join(ends)
