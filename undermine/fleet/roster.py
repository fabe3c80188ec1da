"""The workers of a campaign: who may take part, how many runs each has at a time, and who takes the next one.

A worker takes part once it has prepared the project. It must be of the same kind as the others, since what agents observe depends
on that. A worker that disappears, or that is silent for `SILENT_S`, loses its runs: whoever waits for them gets a `WorkerLost`,
and runs them elsewhere. If it comes back, it prepares the project again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from undermine.fleet.bundles import Bundle
from undermine.fleet.cluster import Call, Cluster, SchedulerGone, WorkerLost
from undermine.fleet.messages import Answer, Kind, Machine, Order, Ready, decode, encode
from undermine.fleet.station import SETUP_TIMEOUT_S
from undermine.fleet.tempo import Tempo
from undermine.model.errors import UserError

SILENT_S = 60.0
"""A worker from which the scheduler has heard nothing for this time hangs, or the network is cut."""
NOBODY_S = 120.0
"""How long a plan waits for a worker that can run it, while none is connected."""
_WATCH_S = 1.0
_LOOK_S = 60.0
_PREPARE_S = SETUP_TIMEOUT_S + 600.0
_LEAVE_S = 20.0
_ENROLLED_AT_ONCE = 64

Tell = Callable[[str, str], None]
"""Takes the kind and the text of a notice."""


class Need(msgspec.Struct, frozen=True):
    """The demands of a run on its worker."""

    can: Callable[[Ready], bool] = lambda ready: True
    """Can a worker with these abilities run it?"""
    alone: bool = False
    at: str = ""
    """The name of the worker that must run it, as long as that one is there."""
    not_at: str = ""
    """The name of a worker that must not run it, as long as there are others."""


@dataclass(eq=False)
class Member:
    """A worker that takes part."""

    address: str
    machine: Machine
    ready: Ready
    tempo: Tempo
    under_way: int = 0
    alone: bool = False
    runs: int = 0

    @property
    def name(self) -> str:
        return self.machine.name

    def has_place(self, alone: bool) -> bool:
        return not self.under_way if alone else not self.alone and self.under_way < self.tempo.places


class Roster:
    """All workers of one session of a campaign. `most` limits the runs of each worker; 0: one for each of its cores."""

    def __init__(
        self,
        cluster: Cluster,
        bundle: Bundle,
        tell: Tell,
        *,
        late_s_max: float,
        most: int = 0,
        kind: Kind | None = None,
        silent_s: float = SILENT_S,
        nobody_s: float = NOBODY_S,
    ) -> None:
        self._cluster = cluster
        self._bundle = bundle
        self._tell = tell
        self._late_s_max = late_s_max
        self._most = most
        self.kind = kind
        self.isolation = ""
        self._silent_s = silent_s
        self._nobody_s = nobody_s
        self._changed = threading.Condition()  # guards everything below
        self._members: dict[str, Member] = {}
        self._known: set[str] = set()
        """The addresses of all workers that take part, prepare the project, or were refused."""
        self._calls: dict[str, set[Call]] = {}
        """By address: the calls that wait for an answer."""
        self._heard: dict[str, tuple[float, float]] = {}
        """By address: the last sign of life, and when it came."""
        self._over: BaseException | None = None
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(_ENROLLED_AT_ONCE, "undermine-enrol")
        self._watcher = threading.Thread(target=self._watch, name="undermine-workers", daemon=True)

    # --- who takes part

    def open(self) -> None:
        """Let all present workers prepare the project; raise a `UserError` if none can."""
        present = list(self._cluster.workers())
        if not present:
            raise UserError("the Dask cluster has no workers; start some, such as with `dask worker ADDRESS`")
        with self._changed:
            self._known.update(present)
        machines = dict(zip(present, self._pool.map(self._look, present), strict=True))
        if not self.kind:
            kinds = Counter(each.kind for each in machines.values() if isinstance(each, Machine))
            self.kind = min(kinds, key=lambda kind: (-kinds[kind], kind), default=None)
        self._watcher.start()
        self._tell("building", f"{len(present)} worker(s) prepare the project")
        prepared = dict(zip(present, self._pool.map(self._prepare, present, machines.values()), strict=True))
        isolations = Counter(each.isolation for each in prepared.values() if isinstance(each, Ready) and not each.cannot)
        self.isolation = min(isolations, key=lambda name: (-isolations[name], name), default="")
        refused = [self._admit(address, machines[address], prepared[address]) for address in present]
        if not self._members:
            raise UserError(f"no worker can run this project: {'; '.join(dict.fromkeys(refused))}")

    def _look(self, address: str) -> Machine | str:
        """A worker's description of itself, or the reason why it cannot take part."""
        try:
            return decode(self._ask(address, "look", b"", _LOOK_S), Machine)
        except (WorkerLost, msgspec.DecodeError) as error:
            return f"worker {address} does not answer as Undermine does; install the same version there ({error})"

    def _prepare(self, address: str, machine: Machine | str) -> Ready | str:
        """Let a worker prepare the project; return what it can do, or why it cannot take part."""
        if isinstance(machine, str):
            return machine
        if self.kind and (differs := machine.kind.differences(self.kind)):
            return f"worker {machine.name} takes no part: it has {differs}"
        try:
            return decode(self._ask(address, "prepare", encode(self._bundle.project), _PREPARE_S, self._bundle.files), Ready)
        except SchedulerGone as error:
            self._end(error)
            return str(error)
        except (WorkerLost, msgspec.DecodeError) as error:
            with self._changed:
                self._known.discard(address)  # it is asked again if it is still there
            return f"worker {machine.name} was lost while it prepared the project ({error})"

    def _admit(self, address: str, machine: Machine | str, ready: Ready | str) -> str:
        """Let a worker take part; return why it cannot, or ""."""
        why = ready if isinstance(ready, str) else ready.cannot and f"worker {_name(machine)} takes no part: {ready.cannot}"
        if isinstance(ready, Ready) and not why and ready.isolation != self.isolation:
            apart = f"it isolates nodes by {ready.isolation}, others by {self.isolation}"
            why = f"worker {_name(machine)} takes no part: {apart}"
        if why or isinstance(machine, str) or isinstance(ready, str):
            self._tell("warning", why)
            return why
        with self._changed:
            if address in self._known:
                tempo = Tempo(self._most or machine.cores, 1000 * self._late_s_max)
                self._members[address] = Member(address, machine, ready, tempo)
                self._changed.notify_all()
        self._tell_workers()
        return ""

    def _ask(self, address: str, task: str, message: bytes, limit_s: float, files: bytes | None = None) -> bytes:
        """Call a task and wait for its answer. Raise `WorkerLost` if the worker disappears, or has none within the limit."""
        call = self._cluster.call(address, task, message, files)
        with self._changed:
            self._calls.setdefault(address, set()).add(call)
            if address not in self._known or self._over:
                call.lose()
        try:
            return call.result(limit_s)
        finally:
            with self._changed:
                self._calls[address].discard(call)

    def _tell_workers(self) -> None:
        with self._changed:
            text = f"{len(self._members)} worker(s), {sum(each.tempo.places for each in self._members.values())} run(s) at a time"
        self._tell("workers", text)

    # --- who is still there

    def _watch(self) -> None:
        while not self._ended.wait(_WATCH_S):
            try:
                self.follow(self._cluster.workers())
            except SchedulerGone as error:
                self._end(error)
                return

    def follow(self, workers: Mapping[str, float]) -> None:
        """Compare the workers that are there with those that take part."""
        now = time.monotonic()
        with self._changed:
            for address, sign in workers.items():
                if self._heard.get(address, (None, 0.0))[0] != sign:
                    self._heard[address] = sign, now
            silent = {address for address in workers if now - self._heard[address][1] > self._silent_s}
            gone = self._known - workers.keys()
            new = workers.keys() - self._known - silent
            self._known = (self._known - gone - silent) | new
            self._heard = {address: self._heard[address] for address in workers}
            lost = [member for address, member in self._members.items() if address in gone | silent]
            calls = [call for address in gone | silent for call in self._calls.get(address, ())]
        for member in lost:
            self.lose(member, "does not answer" if member.address in silent else "has ended")
        for call in calls:
            call.lose()
        for address in new:
            self._pool.submit(self._greet, address)

    def _greet(self, address: str) -> None:
        machine = self._look(address)
        self._admit(address, machine, self._prepare(address, machine))

    def lose(self, member: Member, why: str) -> None:
        """A worker takes part no more. Its runs are made elsewhere, or by itself when it has prepared the project again."""
        with self._changed:
            if self._members.get(member.address) is not member:
                return
            del self._members[member.address]
            self._known.discard(member.address)
            calls = list(self._calls.get(member.address, ()))
            self._changed.notify_all()
        for call in calls:
            call.lose()
        again = f"; its {len(calls)} run(s) are made again" if calls else ""
        self._tell("warning", f"worker {member.name} {why}{again}")
        self._tell_workers()

    def _end(self, error: BaseException) -> None:
        """Nothing can run any more. Whoever waits gets this error."""
        with self._changed:
            self._over = self._over or error
            calls = [call for waiting in self._calls.values() for call in waiting]
            self._changed.notify_all()
        for call in calls:
            call.lose()

    # --- runs

    @property
    def ready(self) -> list[Ready]:
        """The abilities of all workers that take part."""
        with self._changed:
            return [member.ready for member in self._members.values()]

    @property
    def names(self) -> list[str]:
        with self._changed:
            return sorted(member.name for member in self._members.values())

    @property
    def places(self) -> int:
        """The number of runs that may be under way now."""
        with self._changed:
            return max(1, sum(member.tempo.places for member in self._members.values()))

    @contextlib.contextmanager
    def seat(self, need: Need) -> Iterator[Member]:
        """A place on a worker for one run. Waits for one."""
        member = self._take(need)
        try:
            yield member
        finally:
            with self._changed:
                member.under_way -= 1
                member.alone = False
                self._changed.notify_all()

    def _take(self, need: Need) -> Member:
        with self._changed:
            since = time.monotonic()
            while True:
                if self._over:
                    raise self._over
                fit = _fitting(need, self._members.values())
                free = [member for member in fit if member.has_place(need.alone)]
                if free:
                    member = min(free, key=lambda each: (each.under_way / each.tempo.places, each.runs, each.name))
                    member.under_way, member.alone, member.runs = member.under_way + 1, need.alone, member.runs + 1
                    return member
                if fit:
                    since = time.monotonic()
                elif time.monotonic() - since > self._nobody_s:
                    raise UserError(
                        "no worker of the cluster can run this plan any more; start one, and continue with "
                        "`undermine hunt --resume`: no stored run is lost"
                    )
                self._changed.wait(_WATCH_S)

    def run(self, member: Member, order: Order, limit_s: float) -> Answer:
        """Run a plan on this worker. Raise `WorkerLost` if the worker has no answer."""
        try:
            return decode(self._ask(member.address, "run", encode(order), limit_s), Answer)
        except (WorkerLost, msgspec.DecodeError) as error:
            if self._over:
                raise self._over from None
            self.lose(member, f"is given up ({error})")
            raise WorkerLost(str(error)) from None

    def note(self, member: Member, late_ms: float) -> None:
        """Learn from a run that has just ended how many the worker carries."""
        with self._changed:
            before = member.tempo.places
            member.tempo.note(late_ms, member.under_way)
            changed = member.tempo.places != before
            self._changed.notify_all()
        if changed:
            self._tell_workers()

    # --- the end

    def abort(self) -> None:
        """End all current runs at once."""
        self._end(RuntimeError("the hunt was stopped"))

    def close(self) -> None:
        """Let all workers end what is left of this campaign."""
        self._ended.set()
        gone = isinstance(self._over, SchedulerGone)
        self._end(RuntimeError("the hunt is over"))
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            members = [] if gone else list(self._members)
        with contextlib.suppress(UserError, WorkerLost):
            left = [self._cluster.call(address, "leave", self._bundle.project.campaign.encode()) for address in members]
            end = time.monotonic() + _LEAVE_S
            for call in left:
                with contextlib.suppress(WorkerLost):
                    call.result(max(0.1, end - time.monotonic()))


def _name(machine: Machine | str) -> str:
    return machine.name if isinstance(machine, Machine) else machine


def _fitting(need: Need, members: Collection[Member]) -> list[Member]:
    """The workers that may run it. A worker that is wished for, or not wished for, matters only while there is a choice."""
    able = [member for member in members if need.can(member.ready)]
    if need.at and (there := [member for member in able if member.name == need.at]):
        return there
    others = [member for member in able if member.name != need.not_at]
    return others or able
