"""The workload for a Dask cluster: clients compute, and use the scheduler's queues, locks and variables.

Tasks are pure, so they may run several times, but their results must be right. A queue returns each item once, a lock has one
holder, and a variable has the value that was set last.
"""

from __future__ import annotations

import contextlib
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import work

import undermine
from undermine import ledgers

HERE = Path(__file__).resolve().parent
PARTS = ("map", "chain", "queue", "lock", "variable", "guard")
"""The parts that `--set work=…` can name; `all` is everything."""
ROUNDS = 4
MAP_SIZE = 12
CHAIN_LENGTH = 5
OPERATION_S = 10.0
WITHOUT_WORKER_S = 9.0
"""How long a computation may take after a worker is cut off: the scheduler removes it after 5 s and looks every second."""
LEASE = "distributed.scheduler.locks.lease-timeout"
LEASE_S = 3.0
"""The lease in undermine.toml. Whoever uses a lock first chooses it."""
HOLD_S = 0.02
ITEMS, DOOR, BOARD, GATE = "items", "door", "board", "gate"


class NotSettled(Exception):
    """The cluster has not reached its required final state yet."""


# -- the library -----------------------------------------------------------------------------------------


def use_release(version: str) -> None:
    """Import this release. That takes a second, so the release in undermine.toml is imported when this file is loaded. Each call
    of Undermine runs in its own process, in which another release may replace it."""
    versions = str(HERE / "versions")
    folder = f"{versions}/{version}"
    if folder not in sys.path:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("dask", "distributed")]:
            del sys.modules[name]
        sys.path[:] = [folder, *(place for place in sys.path if not place.startswith(versions))]
    import distributed

    if distributed.__version__ != version:
        raise ImportError(f"found version {distributed.__version__}")


def default_version() -> str:
    return str(tomllib.loads((HERE / "undermine.toml").read_text())["params"]["version"])


with contextlib.suppress(ImportError):
    use_release(default_version())


def connect(s: undermine.Session) -> Any:
    """A client of the release under test."""
    try:
        use_release(s.params["version"])
    except ImportError as error:
        sys.exit(f"Dask is missing ({error}): run `python setup.py {s.params['version']}` in the folder of undermine.toml")
    import distributed
    from dask import config

    limits = {f"distributed.comm.timeouts.{name}": s.params[name] for name in ("connect", "tcp")}
    config.set({**limits, LEASE: f"{LEASE_S}s"})
    node = s.node("sched")
    return distributed.Client(f"tcp://{node.host}:{node.port}", timeout=OPERATION_S)


# -- workload --------------------------------------------------------------------------------------------


def parts(text: str) -> set[str]:
    """The parts of the workload that a text like `all` or `map,lock` names."""
    words = {word.strip() for word in text.split(",")}
    chosen = set(PARTS) if "all" in words else words
    if unknown := sorted(chosen - set(PARTS)):
        raise ValueError(f"there is no part {unknown[0]!r} of the workload; there are all, {', '.join(PARTS)}")
    return chosen


@undermine.workload
def workload(s: undermine.Session) -> None:
    client = connect(s)
    uses: dict[str, list[Callable[..., None]]] = {
        "map": [use_map],
        "chain": [use_chain],
        "queue": [put_items, get_items],
        "lock": [use_lock, use_lock],
        "variable": [use_variable],
    }
    chosen = parts(s.params["work"])
    wanted = [(f"{part}{number}", use) for part in sorted(chosen & set(uses)) for number, use in enumerate(uses[part])]
    s.clients({name: lambda name=name, use=use: use(s, client, name) for name, use in wanted})
    if "guard" in chosen:
        s.clients({"guard0": lambda: use_guard(s, client, "guard0")})


def use_map(s: undermine.Session, client: Any, name: str) -> None:
    """Run many tasks at once and gather their results. One more task computes their sum from results on other workers."""
    from distributed import wait

    for number in range(ROUNDS):
        numbers = [100 * number + one for one in range(MAP_SIZE)]
        right = [one * one for one in numbers]

        def compute(number: int = number, numbers: list[int] = numbers) -> Any:
            futures = client.map(work.square, numbers, key=[f"square-{one}" for one in numbers])
            wait(futures, timeout=OPERATION_S)
            return [client.gather(futures), client.submit(work.total, futures, key=f"total-{number}").result(OPERATION_S)]

        s.attempt("compute", compute, client=name, args={"right": [right, sum(right)]})


def use_chain(s: undermine.Session, client: Any, name: str) -> None:
    """Send each task to another worker than the one before, if that worker is available."""
    workers = [node.id for node in s.role("worker")]
    for number in range(ROUNDS):
        items = [f"{number}-{link}" for link in range(CHAIN_LENGTH)]

        def compute(items: list[str] = items) -> Any:
            made: Any = []
            for link, item in enumerate(items):
                there = workers[link % len(workers)]
                made = client.submit(work.extend, made, item, workers=[there], allow_other_workers=True, key=f"link-{item}")
            return made.result(OPERATION_S)

        s.attempt("compute", compute, client=name, args={"right": items})


def put_items(s: undermine.Session, client: Any, name: str) -> None:
    from distributed import Queue

    queue = Queue(ITEMS)
    for number in range(2 * ROUNDS):
        item = f"item-{number}"
        s.attempt("put", lambda item=item: queue.put(item, timeout=OPERATION_S), client=name, args={"job": item})


def get_items(s: undermine.Session, client: Any, name: str) -> None:
    from distributed import Queue

    queue = Queue(ITEMS)
    for _ in range(2 * ROUNDS):
        s.attempt("get", lambda: queue.get(timeout=OPERATION_S), client=name)


def use_lock(s: undermine.Session, client: Any, name: str) -> None:
    from distributed import Lock

    for _ in range(ROUNDS):
        lock = Lock(DOOR)  # each object is a separate holder
        got = s.attempt(
            "acquire", lambda lock=lock: lock.acquire(timeout=OPERATION_S), client=name, args={"lock": DOOR}
        )
        if got.value:
            time.sleep(HOLD_S)
        if got.value or got.status == "unknown":
            s.attempt("release", lambda lock=lock: lock.release(), client=name, args={"lock": DOOR})


def use_variable(s: undermine.Session, client: Any, name: str) -> None:
    from distributed import Variable

    board = Variable(BOARD)
    for number in range(ROUNDS):
        args = {"key": BOARD, "value": f"v{number}"}
        s.attempt("set", lambda args=args: board.set(args["value"]), client=name, args=args)
        s.attempt("read", lambda: board.get(timeout=OPERATION_S), client=name, args={"key": BOARD})


def use_guard(s: undermine.Session, client: Any, name: str) -> None:
    """Run one task on each worker at the same time. All of them want the same lock and wait for it without a time limit."""
    workers = [node.id for node in s.role("worker")]
    for number in range(ROUNDS):
        items = [f"{number}-{there}" for there in workers]

        def compute(items: list[str] = items) -> Any:
            futures = [
                client.submit(work.guarded, GATE, item, workers=[there], allow_other_workers=True, pure=False)
                for there, item in zip(workers, items, strict=True)
            ]
            return [future.result(OPERATION_S) for future in futures]

        if not s.attempt("compute", compute, client=name, args={"right": items}).ok:
            return  # tasks that wait for ever keep the workers' threads


# -- after everything is healed --------------------------------------------------------------------------


@undermine.final
def final(s: undermine.Session) -> None:
    """Take the tasks' lock, run a task on every worker, and empty the queue. The first failure ends this attempt."""
    client = connect(s)
    if "guard" in parts(s.params["work"]) and not need(s.attempt("enter", enter, client="final")):
        raise NotSettled("the lock of the tasks is held")
    for node in s.role("worker"):
        there = client.submit(work.whoami, workers=[node.id], pure=False)
        need(s.attempt("compute", lambda there=there: there.result(5), client="final", args={"right": node.id}))
    if "queue" in parts(s.params["work"]):
        need(s.attempt("rest", drain, client="final"))
    if "variable" in parts(s.params["work"]):
        need(s.attempt("read", variable, client="final", args={"key": BOARD}))


def drain() -> list[str]:
    from distributed import Queue

    queue = Queue(ITEMS)
    return list(queue.get(timeout=2, batch=queue.qsize())) if queue.qsize() else []


def variable() -> Any:
    from distributed import Variable

    return Variable(BOARD).get(timeout=2)


def enter() -> bool:
    """Take the lock of the tasks, if it is free soon."""
    from distributed import Lock

    lock = Lock(GATE)
    free = bool(lock.acquire(timeout=2))
    if free:
        lock.release()
    return free


def need(out: Any) -> Any:
    if not out.ok:
        raise NotSettled(f"{out.status}: {out.error}")
    return out.value


# -- checks ----------------------------------------------------------------------------------------------

undermine.check(ledgers.no_acknowledged_write_lost(write="set", read="read", initial=None))
undermine.check(ledgers.no_stale_read(write="set", read="read", initial=None))
undermine.check(ledgers.mutual_exclusion(acquire="acquire", release="release", lock="lock", lease_s=LEASE_S))


@undermine.checker
def results_are_right(run: undermine.RunView) -> undermine.Verdict:
    computed = [op for op in run.history if op.f == "compute" and op.status == "ok"]
    for op in computed:
        if op.value != op.args["right"]:
            said = [f"{op.client} got {op.value!r:.200}", f"expected {op.args['right']!r:.200}"]
            return undermine.Verdict.fail("a computation returned a wrong result", "wrong result", said)
    return undermine.Verdict.ok() if computed else undermine.Verdict.unknown("nothing was computed")


@undermine.checker
def computations_end_without_one_worker(run: undermine.RunView) -> undermine.Verdict:
    """A client gets its result although one worker cannot be reached: the scheduler removes it, and others do its work."""
    hit = {node for fault in run.faults for node in fault.nodes}
    if len(hit) > 1 or "sched" in hit or any(fault.failure != "partition" for fault in run.faults):
        return undermine.Verdict.ok("nothing is promised after these faults")
    since_ns = min((fault.t_ns for fault in run.faults), default=0)
    for op in run.history:
        waited_s = (op.end_ns - max(op.start_ns, since_ns)) / 1e9
        if op.f == "compute" and op.phase == "workload" and waited_s > WITHOUT_WORKER_S:
            said = [*map(str, run.faults), f"{op.client} waited for {waited_s:.1f} s since then: {op.error or op.status}"]
            return undermine.Verdict.fail(
                "a computation waits for a worker that cannot be reached", "computation waits for an unreachable worker", said
            )
    return undermine.Verdict.ok()


@undermine.checker
def items_come_once(run: undermine.RunView) -> undermine.Verdict:
    """Every item put into the queue comes out once. An item may be lost only if a client did not get the answer."""
    gets = [op for op in run.history if op.f == "get"]
    rests = [op for op in run.history if op.f == "rest" and op.phase == "final"]
    left = [item for op in rests if op.status == "ok" for item in op.value]
    came = Counter([*(op.value for op in gets if op.status == "ok"), *left])
    if twice := sorted(item for item, times in came.items() if times > 1):
        return undermine.Verdict.fail(f"came out of the queue twice: {', '.join(twice)}", "queue item twice", twice)
    sure = all(op.status == "ok" for op in (*gets, *rests)) and bool(rests)
    put = {op.args["job"] for op in run.history if op.f == "put" and op.status == "ok"}
    if sure and (lost := sorted(put - set(came))):
        return undermine.Verdict.fail(f"never came out of the queue: {', '.join(lost)}", "queue item lost", lost)
    return undermine.Verdict.ok()


@undermine.checker
def lock_is_free_in_the_end(run: undermine.RunView) -> undermine.Verdict:
    """The lock of the tasks is free when no task runs: that of a dead worker, too, after its lease."""
    tries = [op for op in run.history if op.f == "enter"]
    if not tries:
        return undermine.Verdict.unknown("nobody tried to take the lock of the tasks in the end")
    if tries[-1].status == "ok" and tries[-1].value:
        return undermine.Verdict.ok()
    said = [f"{op.status} {op.value} {op.error}".strip() for op in tries]
    return undermine.Verdict.fail("the lock of the tasks is never free again", "lock never released", said)
