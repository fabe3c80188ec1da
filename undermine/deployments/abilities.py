"""The abilities that a deployment may have, each as a small protocol.

Every deployment can kill and pause its nodes. An optional ability is an attribute that is None if the deployment lacks it,
so that callers must check before they use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from undermine.model.faults import Kept
from undermine.model.run import NodeInfo

Pair = tuple[str, str]
"""Two members of a network, from and to: a node or `client`."""


class Kill(Protocol):
    """Kills nodes, and starts them again on their data."""

    def expect_crash(self, node: str, reboot_after_s: float | None) -> None:
        """Note that the node's own agent is about to kill it."""

    def crash(self, node: str, reboot_after_s: float | None) -> bool:
        """Kill the node from outside; false if it was dead already."""

    def lose_power(self, node: str, kept: Kept, at: float, reboot_after_s: float) -> tuple[str, ...] | None:
        """Kill the node and let its disk lose data that was not synced; return what was lost, or None if it was dead already."""

    def start_again(self, nodes: Iterable[str]) -> list[str]:
        """Start the dead ones among these nodes; return the nodes that were started."""


class Pause(Protocol):
    """Freezes nodes, and lets them continue."""

    def freeze(self, nodes: Iterable[str]) -> list[str]:
        """Stop all processes of these nodes at the same time; return the nodes that were alive."""

    def thaw(self, nodes: Iterable[str]) -> None:
        """Let frozen nodes continue."""


class Partition(Protocol):
    """Drops packets between members of a network. Optional."""

    def cut(self, step: int, pairs: Iterable[Pair]) -> None:
        """Drop the packets of these pairs from now on."""

    def join(self, step: int) -> None:
        """Undo the cut of this step; pairs that another step has cut too stay cut."""


class Cluster(Kill, Pause, Protocol):
    """The nodes of a run, as far as faults need them."""

    @property
    def partition(self) -> Partition | None:
        """None if this deployment cannot drop packets between nodes."""


class Breakable(Pause, Protocol):
    """The nodes of a run, as far as a saboteur needs them: it breaks a run without leaving a receipt."""

    @property
    def nodes(self) -> Sequence[NodeInfo]: ...

    def kill_unseen(self, nodes: Iterable[str]) -> None:
        """Kill nodes so that their deaths count as unexpected."""

    def empty(self, nodes: Iterable[str]) -> None:
        """Delete all data of these nodes."""

    def start_all(self, enough: Callable[[], bool]) -> dict[str, str]:
        """Start all nodes; return the nodes that did not become ready, and why."""
