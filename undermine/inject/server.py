"""The controller's socket and shared memory: passes agents' requests to the controller and its answers back.

Each connection has one blocking thread, so that a round trip costs tens of microseconds. The socket is a
file in a folder of mode 0700, so that no other user can reach it. It makes no decisions: the controller does.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket
import struct
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, assert_never

import msgspec

from undermine.agent_protocol import WIRE
from undermine.inject.controller import (
    BindStep,
    Claim,
    Controller,
    CutNetwork,
    CutPower,
    EndFault,
    ExpectCrash,
    FreezeNodes,
    Instruction,
    KillNodes,
    LoseMessages,
    NewGeneration,
    Note,
    SetStep,
    StartNodes,
)
from undermine.model.event import AgentInfo
from undermine.model.run import Moment

_NUMBER = struct.Struct("<I")
_SLOT = struct.Struct("<IH")
_LINE_BYTES_MAX = 1 << 20
_STATE = WIRE.state
_PORT_SLOT_BYTES = 3
"""The number of a node, and the port from which it has connected."""
_FIRSTS = 2
"""First halves of a step: of its trigger, and of its `until`."""


class SharedState:
    """The file that all agents of a run map: states of steps, ports of a shared loopback, variables of the nodes.

    With `nodes`, each of them has its own flags for the first halves of triggers.
    """

    def __init__(self, path: Path, steps: int, *, ports: bool = False, variables: int = 0, nodes: int = 0) -> None:
        self._lock = threading.Lock()
        ports_at = _STATE.steps_at + _STATE.step_bytes * max(steps, 1)
        variables_at = ports_at + (_PORT_SLOT_BYTES * _STATE.ports.count if ports else 0)
        firsts_at = variables_at + _STATE.variables.slot_bytes * variables
        size = firsts_at + _FIRSTS * steps * nodes
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        _NUMBER.pack_into(self._map, _STATE.ports_at, ports_at if ports else 0)
        _NUMBER.pack_into(self._map, _STATE.variables_at, variables_at if variables else 0)
        _NUMBER.pack_into(self._map, _STATE.firsts_at, firsts_at if nodes else 0)
        self._variables_at = variables_at
        for slot in range(variables):
            _SLOT.pack_into(self._map, self._slot_at(slot), 0, _STATE.variables.absent)
        self._map[0:4] = _STATE.magic.encode()

    def set_step(self, step: int, state: int) -> None:
        self._map[_STATE.steps_at + _STATE.step_bytes * step] = state

    def bind_step(self, step: int, place: int) -> None:
        _NUMBER.pack_into(self._map, _STATE.steps_at + _STATE.step_bytes * step + _STATE.bound_at, place)

    def _slot_at(self, slot: int) -> int:
        return self._variables_at + _STATE.variables.slot_bytes * slot

    def forget(self, slots: Iterable[int]) -> None:
        """Make the variables in these slots absent. Their node has died, so nobody else writes them."""
        for at in map(self._slot_at, slots):
            (version,) = _NUMBER.unpack_from(self._map, at)
            begun = version | 1  # a writer may have died in the middle
            _NUMBER.pack_into(self._map, at, begun)
            _SLOT.pack_into(self._map, at, begun, _STATE.variables.absent)
            _NUMBER.pack_into(self._map, at, (begun + 1) % 2**32 or 2)

    def bump(self) -> None:
        with self._lock:
            (generation,) = _NUMBER.unpack_from(self._map, _STATE.generation_at)
            _NUMBER.pack_into(self._map, _STATE.generation_at, generation + 1)

    def ask_for_stacks(self) -> None:
        """Change the number that agents watch if they cannot be asked for their stacks by a signal."""
        with self._lock:
            self._map[_STATE.stacks_at] = (self._map[_STATE.stacks_at] + 1) % 256

    def heal(self) -> None:
        """Change the generation first: an agent that sees that everything is healed must ask which connections to reset."""
        self.bump()
        self._map[_STATE.healed_at] = 1

    def close(self) -> None:
        self._map.close()


class Actions(Protocol):
    """The actions of the tool for a fault. Each is done when its method returns."""

    def expect(self, instruction: ExpectCrash) -> None: ...
    def kill(self, instruction: KillNodes) -> None: ...
    def cut_power(self, instruction: CutPower) -> None: ...
    def start(self, instruction: StartNodes) -> None: ...
    def freeze(self, instruction: FreezeNodes) -> None: ...
    def cut(self, instruction: CutNetwork) -> None: ...
    def lose(self, instruction: LoseMessages) -> None: ...
    def note(self, instruction: Note) -> None: ...
    def end(self, instruction: EndFault) -> None: ...


class Server:
    """Answers the agents of one run. The tool carries out its instructions before the agent gets its answer."""

    def __init__(self, controller: Controller, socket_path: Path, state: SharedState, actions: Actions) -> None:
        self._controller = controller
        self._state = state
        self._actions = actions
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self.problems: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(socket_path))
        os.chmod(socket_path, 0o600)
        self._listener.listen(128)
        self._carry_out(controller.begin())
        threading.Thread(target=self._accept, name="agent-server", daemon=True).start()

    def moments(self) -> tuple[Moment, ...]:
        """Where each fired step fired, by step."""
        with self._lock:
            return tuple(self._controller.moments())

    def ended(self) -> tuple[Moment, ...]:
        """Where each `until` that was reached was reached, by step."""
        with self._lock:
            return tuple(self._controller.ended())

    def heal(self) -> None:
        """End every hold and every lasting fault; nothing fires from now on."""
        with self._lock:
            self._controller.heal()
        self._state.heal()

    def close(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for sock in [self._listener, *connections]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="agent", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Serve one agent's connection until it closes or breaks the protocol."""
        node = ""
        try:
            with connection, connection.makefile("rwb") as stream:
                while line := stream.readline(_LINE_BYTES_MAX):
                    request = json.loads(line)
                    node = request.get("node", node)
                    stream.write(json.dumps(self._answer(request, node)).encode() + b"\n")
                    stream.flush()
        except (ValueError, KeyError, AttributeError, msgspec.ValidationError) as error:
            self.problems.append(f"the agent of {node or 'an unknown node'} broke the protocol: {error}")
        except OSError:
            pass  # the node died; its receipt is in its event file
        except Exception as error:  # this thread must not die silently
            self.problems.append(f"a request of {node or 'an unknown node'} failed: {type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _answer(self, request: dict[str, Any], node: str) -> dict[str, Any]:
        match request["type"]:
            case "hello":
                with self._lock:
                    return self._controller.hello(msgspec.convert(request, AgentInfo))
            case "lasting":
                with self._lock:
                    return {"type": "lasting", "lasting": self._controller.lasting_of(node)}
            case "claim":
                with self._lock:
                    answer, instructions = self._controller.claim(msgspec.convert(request, Claim))
                self._carry_out(instructions)
                return answer
            case other:
                raise ValueError(f"unknown request {other!r}")

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case SetStep(step=step, state=state):
                    self._state.set_step(step, state)
                case BindStep(step=step, place=place):
                    self._state.bind_step(step, place)
                case NewGeneration():
                    self._state.bump()
                case ExpectCrash():
                    self._actions.expect(instruction)
                case KillNodes():
                    self._actions.kill(instruction)
                case CutPower():
                    self._actions.cut_power(instruction)
                case StartNodes():
                    self._actions.start(instruction)
                case FreezeNodes():
                    self._actions.freeze(instruction)
                case CutNetwork():
                    self._actions.cut(instruction)
                case LoseMessages():
                    self._actions.lose(instruction)
                case Note():
                    self._actions.note(instruction)
                case EndFault():
                    self._actions.end(instruction)
                case unknown:
                    assert_never(unknown)
