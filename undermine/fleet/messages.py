"""The messages between the client and the workers, and their encoding. Nothing else crosses the network."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from undermine.analysis.contents import Contents
from undermine.model.baseline import Agreements
from undermine.model.plan import Plan
from undermine.model.run import Conditions

_Message = TypeVar("_Message")


class Kind(msgspec.Struct, frozen=True, order=True):
    """The traits that all workers of a campaign must share, since what agents observe depends on them."""

    undermine: str
    python: str
    platform: str
    kernel: str = ""

    def differences(self, other: Kind) -> str:
        """The traits of this worker that differ; "" if none does."""
        names = {"undermine": "Undermine", "python": "Python", "platform": "", "kernel": "the kernel"}
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in names)
        return ", ".join(f"{names[name]} {own} (not {wanted})".strip() for name, own, wanted in pairs if own != wanted)


class Machine(msgspec.Struct, frozen=True):
    """A worker's description of itself."""

    name: str
    """Its host and its name, which stay the same if Dask starts it again."""
    kind: Kind
    cores: int = 1


class Project(msgspec.Struct, frozen=True):
    """A project that a worker shall prepare. Its files travel separately."""

    digest: str
    """The digest of its files."""
    campaign: str
    """A key of the campaign that differs between clients."""
    config_name: str
    config: bytes
    """The configuration as the client has it, with its parameters and variables."""
    params: dict[str, str]


class Ready(msgspec.Struct, frozen=True):
    """The abilities of a worker that has prepared a project, or the reason why it cannot run it."""

    cannot: str = ""
    features: frozenset[str] = frozenset()
    lacking_devices: dict[str, str] = {}
    isolation: str = ""
    """`namespaces` or `ports`."""
    user: str = ""


class Order(msgspec.Struct, frozen=True):
    """One plan that a worker shall run."""

    campaign: str
    run_id: int
    plan: Plan
    capabilities: dict[str, tuple[str, ...]] | None
    conditions: Conditions
    contents: Contents | None
    agreements: Agreements
    alone: bool
    """No other run may be under way on the worker."""


class Answer(msgspec.Struct, frozen=True):
    """A finished run as a zip file, or why the worker has none."""

    files: bytes = b""
    error: str = ""


def encode(message: msgspec.Struct) -> bytes:
    return msgspec.msgpack.encode(message)


def decode(data: bytes, kind: type[_Message]) -> _Message:
    return msgspec.msgpack.decode(data, type=kind)
