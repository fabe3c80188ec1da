"""The abilities that a deployment may have, each as a small protocol.

Every deployment can kill and pause its nodes. An optional ability is an attribute that is None where it is lacking, so that
nobody can use it without having asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from undermine.model.run import NodeInfo

Pair = tuple[str, str]
"""Two members of a network, from and to: a node or `client`."""


class Kill(Protocol):
    """Kills nodes, and starts them again on their data."""

    def expect_crash(self, node: str, reboot_after_s: float | None) -> None:
        """Note that the node's own agent is about to kill it."""

    def crash(self, node: str, reboot_after_s: float | None) -> bool:
        """Kill the node from outside; false if it was dead already."""

    def start_again(self, nodes: Iterable[str]) -> list[str]:
        """Start those of these nodes that are dead; return them."""


class Pause(Protocol):
    """Lets nodes stand still."""

    def freeze(self, nodes: Iterable[str]) -> list[str]:
        """Stop all processes of these nodes at the same time; return the nodes that were alive."""

    def thaw(self, nodes: Iterable[str]) -> None:
        """Let frozen nodes continue."""


class Partition(Protocol):
    """Loses packets between members of a network. Optional."""

    def cut(self, step: int, pairs: Iterable[Pair]) -> None:
        """From now on lose the packets of these pairs."""

    def join(self, step: int) -> None:
        """Undo the cut of this step; pairs that another step has cut too stay cut."""


class Cluster(Kill, Pause, Protocol):
    """The nodes of a run, as far as faults need them."""

    @property
    def partition(self) -> Partition | None:
        """None where packets cannot be lost between nodes."""


class Breakable(Pause, Protocol):
    """The nodes of a run, as far as a saboteur needs them: it breaks a run without leaving a receipt."""

    @property
    def nodes(self) -> Sequence[NodeInfo]: ...

    def kill_unseen(self, nodes: Iterable[str]) -> None:
        """Kill nodes as if nobody had meant it."""

    def empty(self, nodes: Iterable[str]) -> None:
        """Remove everything that these nodes have stored."""

    def start_all(self, enough: Callable[[], bool]) -> dict[str, str]:
        """Start all nodes; return those that did not get ready, and why."""
