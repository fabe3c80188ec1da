"""The facts that the core and all agents agree on, read from `protocol/operations.toml` and `protocol/wire.toml`.

Both files say what each fact means. This module adds nothing to them, and never talks to an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

import msgspec

from undermine.resources import protocol_dir

T = TypeVar("T")
IoType = Literal["read", "write", "close", "flush"]
Device = Literal["disk", "network"]
DelayMode = Literal["thread", "operation"]


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts about one operation."""

    io: IoType = "write"
    traces: bool = False
    receives: bool = False
    moves: Literal["", "out", "in"] = ""
    variables: tuple[Literal["before", "after"], ...] = ()
    drop: bool = False
    corrupt: bool = False
    mapped: bool = False
    errors: tuple[str, ...] = ()
    spared: bool = False
    parts: tuple[str, ...] = ()
    limited: bool = False


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts about operations that are observed together."""

    observes: str
    operations: dict[str, Operation]
    faults: bool = False
    always: bool = False
    asked: bool = False
    values: bool = False
    logical: bool = False
    directed: bool = False
    devices: tuple[Device, ...] = ()
    delay: DelayMode = "thread"


class AgentLacks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The operations and capabilities that one agent lacks."""

    capabilities_missing: tuple[str, ...] = ()
    operations_missing: tuple[str, ...] = ()


class _Operations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    families: dict[str, Family]
    capabilities: dict[str, str]
    agents: dict[str, AgentLacks]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A type of record in event files. Each field is its type and its name."""

    type: int
    fields: tuple[str, ...]
    followed_by: str = ""


class EventLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The event file."""

    magic: str
    chunk_bytes: int
    head: tuple[str, ...]
    records: dict[str, Record]


class StepStates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    waiting: int
    armed: int
    fired: int
    over: int


class PortSlots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    count: int
    factor: int


class VariableSlots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    slot_bytes: int
    text_at: int
    absent: int


class StateLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shared state file."""

    magic: str
    generation_at: int
    healed_at: int
    stacks_at: int
    ports_at: int
    variables_at: int
    firsts_at: int
    steps_at: int
    step_bytes: int
    bound_at: int
    step_states: StepStates
    ports: PortSlots
    variables: VariableSlots


class StacksLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file with the stacks of a process."""

    bytes_max: int
    threads_max: int
    tasks_max: int
    frames_max: int


class TokenLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tokens of contents."""

    edge_bytes: int
    text_bytes_min: int
    text_bytes_max: int
    number_min: int
    number_bits_max: int
    decimal_digits_max: int
    hex_digits_min: int
    hex_digits_max: int
    binary_bytes_max: int
    digests_max: int


class VariableLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The variables of the target."""

    text_bytes_max: int
    listed_max: int
    elements_max: int
    keys_max: int
    discarded_max: int


class Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of the wire."""

    version: int
    answer_s: int
    frames_max: int
    stack_digest_bytes: int
    content_mark: str
    content_chars_max: int
    heap_records_max: int
    variables: VariableLimits
    tokens: TokenLimits
    events: EventLayout
    state: StateLayout
    stacks: StacksLimits


def _read(name: str, kind: type[T]) -> T:
    return msgspec.toml.decode((protocol_dir() / name).read_bytes(), type=kind)


_facts = _read("operations.toml", _Operations)

FAMILIES: Mapping[str, Family] = _facts.families
OPERATIONS: Mapping[str, Operation] = {
    op: facts for family in FAMILIES.values() for op, facts in family.operations.items()
}
WITH_FAULTS: Mapping[str, Operation] = {
    op: facts for family in FAMILIES.values() if family.faults for op, facts in family.operations.items()
}
"""The operations at which plans may ask for faults."""
CAPABILITIES: Mapping[str, str] = _facts.capabilities
"""The words by which agents say what they can do, and what each means."""
AGENTS: Mapping[str, AgentLacks] = _facts.agents
WIRE = _read("wire.toml", Wire)
