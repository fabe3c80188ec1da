"""The controller's socket and shared memory: passes agents' requests to the controller and its answers back.

Each connection has one blocking thread, so that a round trip costs tens of microseconds. The socket is a
file in a folder of mode 0700, so that no other user can reach it. A connection begins with the token of a node, and
speaks for that node alone. Others are closed, and never break a run. It makes no decisions: the controller does.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import resource
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
    EndAfter,
    EndFault,
    EndInTime,
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
_READ_BYTES = 1 << 16
_FINISH_S = 1.0
_LOOK_S = 0.001
_STRANGERS_MAX = 64
"""Connections that have not shown a token yet. The oldest of more is closed."""
_CONNECTIONS_MAX = 256
"""Connections of one node."""
_FILES_SPARE = 256
"""Files that the tool keeps for other purposes than connections, if it can have twice as many."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_S = 0.05
_STATE = WIRE.state
_PORT_SLOT_BYTES = 3
"""The number of a node, and the port from which it has connected."""
_FIRSTS = 2
"""First halves of a step: of its trigger, and of its `until`."""

_NO_TOKEN = "somebody without a node's token connected to the agents' socket; it was not answered"


class SharedState:
    """The file that all agents of a run map: states of steps, ports of a shared loopback, variables of the nodes.

    With `nodes`, each of them has its own flags for the first halves of triggers.
    """

    def __init__(self, path: Path, steps: int, *, ports: bool = False, variables: int = 0, nodes: int = 0) -> None:
        self._lock, self._file = threading.Lock(), threading.Lock()
        ports_at = _STATE.steps_at + _STATE.step_bytes * max(steps, 1)
        variables_at = ports_at + (_PORT_SLOT_BYTES * _STATE.ports.count if ports else 0)
        firsts_at = variables_at + _STATE.variables.slot_bytes * variables
        size = firsts_at + _FIRSTS * steps * nodes
        self._size = size
        self._generation = self._stacks = 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._fd, size)
        self._number(_STATE.ports_at, ports_at if ports else 0)
        self._number(_STATE.variables_at, variables_at if variables else 0)
        self._number(_STATE.firsts_at, firsts_at if nodes else 0)
        self._variables_at = variables_at
        for slot in range(variables):
            self._write(self._slot_at(slot), _SLOT.pack(0, _STATE.variables.absent))
        self._write(0, _STATE.magic.encode())

    def _write(self, at: int, data: bytes) -> None:
        """Write to the file, not to a map of it: a map would kill the tool if a node cut the file."""
        with self._file:
            if self._fd >= 0:
                os.pwrite(self._fd, data, at)

    def _number(self, at: int, number: int) -> None:
        self._write(at, _NUMBER.pack(number))

    def _read_number(self, at: int) -> int:
        """A number in the file; 0 if that part of it was cut, or the file is closed."""
        with self._file:
            data = os.pread(self._fd, _NUMBER.size, at) if self._fd >= 0 else b""
        return int.from_bytes(data, "little")

    def set_step(self, step: int, state: int) -> None:
        self._write(_STATE.steps_at + _STATE.step_bytes * step, bytes([state]))

    def bind_step(self, step: int, place: int) -> None:
        self._number(_STATE.steps_at + _STATE.step_bytes * step + _STATE.bound_at, place)

    def _slot_at(self, slot: int) -> int:
        return self._variables_at + _STATE.variables.slot_bytes * slot

    def forget(self, slots: Iterable[int]) -> None:
        """Make the variables in these slots absent. Their node has died, so nobody else writes them."""
        for at in map(self._slot_at, slots):
            begun = self._read_number(at) | 1  # a writer may have died in the middle
            self._number(at, begun)
            self._write(at, _SLOT.pack(begun, _STATE.variables.absent))
            self._number(at, (begun + 1) % 2**32 or 2)

    def bump(self) -> None:
        with self._lock:
            self._generation += 1
            self._number(_STATE.generation_at, self._generation)

    def ask_for_stacks(self) -> None:
        """Change the number that agents watch if they cannot be asked for their stacks by a signal."""
        with self._lock:
            self._stacks = (self._stacks + 1) % 256
            self._write(_STATE.stacks_at, bytes([self._stacks]))

    def heal(self) -> None:
        """Change the generation first: an agent that sees that everything is healed must ask which connections to reset."""
        self.bump()
        self._write(_STATE.healed_at, b"\x01")

    @property
    def is_whole(self) -> bool:
        """Does the file still have its magic number and its size? A node that cut it, or its agent, died of that."""
        return os.fstat(self._fd).st_size == self._size and os.pread(self._fd, 4, 0) == _STATE.magic.encode()

    def close(self) -> None:
        with self._file:  # a late request must not write to a descriptor that something else has now
            os.close(self._fd)
            self._fd = -1


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
    def end_in_time(self, instruction: EndInTime) -> None: ...


class _Stranger(Exception):
    """A peer that has no token, or speaks for another node than its own. The text is a remark for the user."""


class Server:
    """Answers the agents of one run. The tool carries out its instructions before the agent gets its answer.

    `tokens` are the nodes' tokens. Without them, every peer is believed.
    """

    def __init__(
        self,
        controller: Controller,
        socket_path: Path,
        state: SharedState,
        actions: Actions,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        self._controller = controller
        self._state = state
        self._actions = actions
        self._tokens = tokens
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, str] = {}
        """The node of each connection; "" until it has shown a token. In the order of arrival."""
        self._busy: set[socket.socket] = set()
        """The connections with a request that has no answer yet."""
        self._timers: list[threading.Timer] = []
        self._closed = False
        self.problems: list[str] = []
        self.remarks: dict[str, None] = {}
        """Sentences about peers that were not served, each once."""
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

    def finish_requests(self) -> None:
        """Answer the requests that agents have sent so far. On a busy machine, clients may finish before this process reads the
        claim of a fault; healing would refuse it."""
        end = time.monotonic() + _FINISH_S
        while self._is_asked() and time.monotonic() < end:
            time.sleep(_LOOK_S)

    def heal(self) -> None:
        """End every hold and every lasting fault; nothing fires from now on."""
        with self._lock:
            self._controller.heal()
        self._state.heal()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connections = list(self._connections)
            for timer in self._timers:
                timer.cancel()
        for sock in [self._listener, *connections]:
            _hang_up(sock)
            sock.close()

    # --- connections

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _FULL:
                    return
                self._hang_up_on_strangers(0)
                time.sleep(_PAUSE_S)  # until threads have closed what they were served
                continue
            with self._lock:
                self._connections[connection] = ""
            self._hang_up_on_strangers(_STRANGERS_MAX)
            if _is_crowded(connection.fileno()):
                self._make_room()
                time.sleep(_PAUSE_S)
            try:
                threading.Thread(target=self._serve, args=(connection,), name="agent", daemon=True).start()
            except RuntimeError:  # no more threads
                self._forget(connection)
                connection.close()

    def _hang_up_on_strangers(self, kept: int) -> None:
        """Close the oldest connections that have shown no token, but `kept`."""
        with self._lock:
            strangers = [connection for connection, node in self._connections.items() if not node]
            for connection in strangers[: max(0, len(strangers) - kept)]:
                self.remarks["too many connections to the agents' socket were open; some were closed"] = None
                _hang_up(connection)

    def _make_room(self) -> None:
        """Close the oldest connection of the node that has most: the tool needs files for other things too."""
        with self._lock:
            greediest = Counter(self._connections.values()).most_common(1)[0][0]
            oldest = next(connection for connection, node in self._connections.items() if node == greediest)
            self.remarks[f"{greediest or 'somebody'} had so many connections as an agent that some were closed"] = None
            del self._connections[oldest]  # its thread closes it
            _hang_up(oldest)

    def _serve(self, connection: socket.socket) -> None:
        """Serve one agent's connection until it closes or breaks the protocol."""
        node = ""
        try:
            with connection:
                for line in self._requests(connection):
                    request = json.loads(line)
                    node = self._speaker(connection, request, node)
                    connection.sendall(json.dumps(self._answer(request, node)).encode() + b"\n")
        except _Stranger as error:
            self.remarks[str(error)] = None
        except (ValueError, KeyError, AttributeError, RecursionError, msgspec.ValidationError) as error:
            if node or self._tokens is None:
                self.problems.append(f"the agent of {node or 'an unknown node'} broke the protocol: {error}")
            else:
                self.remarks[_NO_TOKEN] = None
        except OSError:
            pass  # the node died; its receipt is in its event file
        except Exception as error:  # this thread must not die silently
            self.problems.append(f"a request of {node or 'an unknown node'} failed: {type(error).__name__}: {error}")
        finally:
            self._forget(connection)

    def _requests(self, connection: socket.socket) -> Iterator[bytes]:
        """The lines that arrive on a connection. It is busy until its last line is answered."""
        data = b""
        while True:
            while b"\n" not in data and len(data) < _LINE_BYTES_MAX:
                connection.recv(1, socket.MSG_PEEK)  # `_is_asked` sees the bytes until the connection is marked as busy
                with self._lock:
                    self._busy.add(connection)
                more = connection.recv(_READ_BYTES)
                if not more:
                    if data:
                        yield data
                    return
                data += more
            line, _, data = data.partition(b"\n")
            yield line
            if not data:
                with self._lock:
                    self._busy.discard(connection)

    def _is_asked(self) -> bool:
        """Has an agent sent a request that has no answer yet?"""
        with self._lock:
            open_ones = [number for connection in self._connections if (number := connection.fileno()) >= 0]
            if self._busy:
                return True
        waiting = select.poll()
        for number in open_ones:
            waiting.register(number, select.POLLIN)
        return bool(waiting.poll(0))

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.pop(connection, None)
            self._busy.discard(connection)

    def _speaker(self, connection: socket.socket, request: dict[str, Any], node: str) -> str:
        """The node that the connection speaks for: the one whose token its first request has."""
        if self._tokens is None:
            return str(request.get("node", node))
        if not node:
            shown = str(request.get("token", "")).encode()
            node = next((n for n, token in self._tokens.items() if hmac.compare_digest(token.encode(), shown)), "")
            if not node:
                raise _Stranger(_NO_TOKEN)
            with self._lock:
                self._connections[connection] = node
                if Counter(self._connections.values())[node] > _CONNECTIONS_MAX:
                    raise _Stranger(f"{node} opened more than {_CONNECTIONS_MAX} connections as an agent; the others were closed")
        if request.get("node", node) != node:
            raise _Stranger(f"a peer with the token of {node} spoke for another node; it was not believed")
        return node

    # --- requests

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
                case EndInTime():
                    self._actions.end_in_time(instruction)
                case EndAfter(step=step, seconds=seconds):
                    self._end_after(step, seconds)
                case unknown:
                    assert_never(unknown)

    def _end_after(self, step: int, seconds: float) -> None:
        timer = threading.Timer(seconds, self._end_in_time, (step,))
        timer.daemon = True
        with self._lock:
            self._timers.append(timer)
            if not self._closed:
                timer.start()

    def _end_in_time(self, step: int) -> None:
        with self._lock:
            instructions = self._controller.end_in_time(step)
        try:
            self._carry_out(instructions)
        except Exception as error:  # this thread must not die silently
            self.problems.append(f"step {step + 1} could not be ended: {type(error).__name__}: {error}")


def _is_crowded(fd: int) -> bool:
    """Does this new file show that the tool may soon have as many files as it can? New files get the lowest free number."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most != resource.RLIM_INFINITY and fd > max(most // 2, most - _FILES_SPARE)


def _hang_up(connection: socket.socket) -> None:
    """End a connection, also for the thread that reads from it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
