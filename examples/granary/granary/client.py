"""The client library. Every operation has a deadline and retries until then.

An operation that raises NotSent certainly did nothing; after any other error it may have happened. One
client is for one thread; a log has one writer at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import (
    Conflict,
    GranaryError,
    NotFound,
    NotSent,
    Recovering,
    StaleGeneration,
    Unavailable,
    Unreachable,
)
from .rpc import Address, Pool

T = TypeVar("T")

CALL_TIMEOUT_S = 1.0
APPEND_TIMEOUT_S = 0.7
READER_PATIENCE_S = 0.8
RETRY_S = 0.03


class Client:
    def __init__(self, name: str, master: Address, stores: dict[str, Address],
                 deadline_s: float = 4.0) -> None:
        self.name = name
        self.deadline_s = deadline_s
        self._master = master
        self._stores = stores
        self._pool = Pool()
        self._number = 0
        self._leader: str | None = None
        self._leader_doubtful = False
        self._writers: dict[str, _Writer] = {}

    # -- key-value shard -----------------------------------------------------------------------------

    def put(self, key: str, value: Any) -> None:
        self._number += 1
        self._ask_leader("kv.put", client=self.name, number=self._number, key=key, value=value)

    def get(self, key: str) -> Any:
        return self._ask_leader("kv.get", key=key)

    def leader(self) -> str:
        """The store that leads the shard."""
        return str(self._retry(lambda: self.call_master("shard.locate"))["leader"])

    def _ask_leader(self, method: str, **arguments: Any) -> Any:
        sent = False

        def attempt() -> Any:
            nonlocal sent
            leader = self._find_leader()
            sent = True
            try:
                return self.call_store(leader, method, **arguments)
            except GranaryError:
                self._leader_doubtful = True
                raise

        try:
            return self._retry(attempt)
        except GranaryError as error:
            if not sent:
                raise NotSent(str(error)) from None
            raise

    def _find_leader(self) -> str:
        if self._leader is None or self._leader_doubtful:
            try:
                self._leader = str(self.call_master("shard.locate")["leader"])
            except Unreachable:
                if self._leader is None:
                    raise
        self._leader_doubtful = False
        return self._leader

    # -- logs ----------------------------------------------------------------------------------------

    def append(self, log: str, record_id: str, data: Any) -> int:
        """Append a record and return its offset. Succeeds as long as one replica can be reached."""
        writer = self._writers.get(log)
        if writer is None:
            writer = self._writers[log] = _Writer(self, log)
        return writer.append(record_id, data)

    def read_log(self, log: str) -> list[Any]:
        """The records of the log. Recovers the log if a writer seems to have left it half recovered."""
        suspects: set[str] = set()
        patience_until = time.monotonic() + READER_PATIENCE_S

        def attempt() -> list[Any]:
            entry = self.call_master("logs.look_up", log=log)
            unfinished = False
            for node in entry["replicas"]:
                try:
                    return list(self.call_store(node, "log.read", log=log, generation=entry["generation"]))
                except NotFound:
                    if entry["generation"] == 1:
                        return []
                except (Recovering, StaleGeneration):
                    unfinished = True
                except Unreachable:
                    continue
            if unfinished and time.monotonic() > patience_until:
                self.recover_log(log, suspects)
            raise Unavailable(f"no replica of {log} can be read now")

        return self._retry(attempt)

    def recover_log(self, log: str, suspects: set[str]) -> dict[str, Any]:
        """Do one round of recovery on the replicas that are not suspected. Return the log's new metadata.

        A replica that fails becomes a suspect and the round is over: the next one is tried without it."""
        entry = self.call_master("logs.look_up", log=log)
        if not set(entry["replicas"]) - suspects:
            suspects.clear()
        survivors = [node for node in entry["replicas"] if node not in suspects]
        generation = self.call_master("logs.issue", log=log)
        length = _common_length([self._step(node, suspects, "log.prepare", log=log, generation=generation)
                                 for node in survivors])
        for node in survivors:
            self._step(node, suspects, "log.finish", log=log, generation=generation, length=length)
        self.call_master("logs.update", log=log, base=entry["generation"], generation=generation,
                         replicas=survivors)
        return {"generation": generation, "replicas": survivors, "length": length}

    def _step(self, node: str, suspects: set[str], method: str, **arguments: Any) -> Any:
        try:
            return self.call_store(node, method, APPEND_TIMEOUT_S, **arguments)
        except (Unreachable, NotFound):
            suspects.add(node)
            raise

    # -- jobs ----------------------------------------------------------------------------------------

    def submit(self, job: str, inputs: dict[str, str]) -> None:
        self._retry(lambda: self.call_master("job.submit", job=job, inputs=inputs))

    def job_status(self, job: str) -> dict[str, Any]:
        return dict(self._retry(lambda: self.call_master("job.status", job=job)))

    def wait_for_job(self, job: str) -> dict[str, Any]:
        def attempt() -> dict[str, Any]:
            status = self.call_master("job.status", job=job)
            if not status["done"]:
                raise Unavailable(f"{job} is not done yet")
            return dict(status["committed"])

        return self._retry(attempt)

    def outputs(self, job: str, node: str) -> list[dict[str, Any]]:
        """The outputs of the job's tasks that are in place on a store."""
        return list(self._retry(lambda: self.call_store(node, "task.outputs", job=job)))

    # -- operation -----------------------------------------------------------------------------------

    def decommission(self, node: str) -> None:
        self._retry(lambda: self.call_store(node, "gossip.decommission"))

    def members(self, node: str) -> list[str]:
        """The members of the cluster, as `node` sees them."""
        return list(self._retry(lambda: self.call_store(node, "gossip.members")))

    def rebuild(self, node: str) -> None:
        """Make a follower fetch all data again from the leader."""
        self._retry(lambda: self.call_store(node, "shard.rebuild"))

    def shard_status(self, node: str) -> dict[str, Any]:
        return dict(self._retry(lambda: self.call_store(node, "shard.status")))

    # -- calls ---------------------------------------------------------------------------------------

    def call_master(self, method: str, timeout_s: float = CALL_TIMEOUT_S, /, **arguments: Any) -> Any:
        return self._pool.call(self._master, method, timeout_s, **arguments)

    def call_store(self, node: str, method: str, timeout_s: float = CALL_TIMEOUT_S, /,
                   **arguments: Any) -> Any:
        return self._pool.call(self._stores[node], method, timeout_s, **arguments)

    def _retry(self, attempt: Callable[[], T]) -> T:
        deadline = time.monotonic() + self.deadline_s
        while True:
            try:
                return attempt()
            except GranaryError:
                if time.monotonic() + RETRY_S > deadline:
                    raise
            time.sleep(RETRY_S)


def _common_length(logs: list[list[str]]) -> int:
    """The number of records at the beginning that all have in common."""
    return next((at for at, ids in enumerate(zip(*logs, strict=False)) if len(set(ids)) > 1),
                min(map(len, logs)))


class _Writer:
    """The writing end of one log: its replicas, its generation and its length."""

    def __init__(self, client: Client, log: str) -> None:
        self._client = client
        self._log = log
        self._entry: dict[str, Any] | None = None
        self._offset = 0
        self._unsure = False
        self._suspects: set[str] = set()

    def append(self, record_id: str, data: Any) -> int:
        sent = ever_sent = False

        def attempt() -> int:
            nonlocal sent, ever_sent
            offset = self._prepare(sent)
            sent = ever_sent = True
            try:
                self._send(offset, record_id, data)
            except Conflict:
                # The log is longer than we knew. Our record is not in it, and is appended at its end.
                sent, self._unsure = False, True
                raise
            return offset

        try:
            offset = self._client._retry(attempt)
        except GranaryError as error:
            self._unsure = True
            if not ever_sent:  # even after a conflict one replica may have the record
                raise NotSent(str(error)) from None
            raise
        self._offset = offset + 1
        return offset

    def _prepare(self, sent: bool) -> int:
        """Return the replicas to write to and the offset. Recovers the log first if an earlier write failed."""
        if self._entry is None:
            self._entry = self._client.call_master("logs.create", log=self._log)
            self._find_end(self._entry)
        if self._suspects or self._unsure:
            self._entry = self._client.recover_log(self._log, self._suspects)
            self._suspects.clear()
            self._unsure = False
            if not sent:
                self._offset = self._entry["length"]
        return self._offset

    def _find_end(self, entry: dict[str, Any]) -> None:
        """Ask any replica for the length of the log, because another client may have written before us.

        If the others differ from it, the first append reports a conflict and the log is recovered."""
        for node in entry["replicas"]:
            try:
                records = self._client.call_store(node, "log.read", APPEND_TIMEOUT_S, log=self._log,
                                                  generation=entry["generation"])
            except NotFound:
                return
            except Unreachable:
                continue
            except GranaryError:
                break
            self._offset = len(records)
            return
        self._unsure = True

    def _send(self, offset: int, record_id: str, data: Any) -> None:
        """Write to all replicas. The next recovery leaves out a replica that fails."""
        assert self._entry is not None
        for node in self._entry["replicas"]:
            try:
                self._client.call_store(node, "log.append", APPEND_TIMEOUT_S, log=self._log,
                                        generation=self._entry["generation"], offset=offset, id=record_id,
                                        data=data)
            except (Recovering, StaleGeneration):
                self._unsure = True
                raise
            except (Unreachable, NotFound):
                self._suspects.add(node)
                raise
