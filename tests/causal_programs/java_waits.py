"""Waits and locks of generated Java programs."""

from __future__ import annotations

import re

from generator import Body, Program, Way
from java_text import start, started


def _named(text: str, number: int) -> str:
    """Replace the variable `x` in this text by one with a unique name."""
    return re.sub(r"(\b|_)x\b", rf"\1x{number}", text)


def _wait(made: str, wait: str, release: str, names: str, seconds: float = 0) -> Way:
    """The function waits for another thread. `names` are the kind of the edge, the releasing operation and the wait."""

    def way(program: Program, body: Body) -> None:
        n, (kind, release_op, wait_op) = program.number(), names.split()
        body.add(f"{made.split()[0]} x{n} = new {made.split(' ', 1)[1]};")
        thread, last = started(program, body, _named(release, n), parameters=f"{made.split()[0]} x{n}", call=f"x{n}")
        waiter = body.mark()
        body.add(_named(wait, n), f"{thread}.join();")
        program.wait(kind, last, release_op, waiter, wait_op)
        program.limit(waiter, wait_op, seconds)

    return way


def _notified(kind: str, held: tuple[str, str], wait: str, notify: str, seconds: float = 0) -> Way:
    """The function holds the lock until it waits, so that no thread can notify before."""

    def way(program: Program, body: Body) -> None:
        n = program.number()
        take, give = (_named(part, n) for part in held)
        body.add(f"{kind} x{n} = new {kind}();", f"AtomicBoolean k{n} = new AtomicBoolean();")
        ends, parameters = (take, f"k{n}.set(true);", _named(notify, n), give), f"{kind} x{n}, AtomicBoolean k{n}"
        name, last = program.child(body, "start", body.mark(), *ends, before=("later();",), parameters=parameters)
        body.add(f"Thread t{n} = new Thread(part(() -> {name}(x{n}, k{n})));", take, f"t{n}.start();")
        body.locks += 1
        waiter = body.mark()
        body.add(f"while (!k{n}.get()) {_named(wait, n)}")
        body.mark()
        body.locks -= 1
        body.add(give, f"t{n}.join();")
        program.wait("notify", last, "cond.notify", waiter, "cond.wait")
        program.limit(waiter, "cond.wait", seconds)

    return way


_MONITOR = "synchronized (x) {", "}"


_Pair = tuple[str, str]
_LOCK = "lock lock.release lock.acquire"


def _contended(made: str, held: _Pair, other: _Pair = ("", ""), seconds: float = 0, names: str = _LOCK) -> Way:
    """The function holds a lock that another thread acquires in the same way, or in an `other` way."""

    def way(program: Program, body: Body) -> None:
        n, (kind, release, acquire) = program.number(), names.split()
        child = program.begin(program.cause("start", body.mark()), 0, f"{made.split()[0]} x{n}")
        waiter = child.mark()
        take, give = (_named(part, n) for part in (other if other[0] else held))
        child.add(take)
        child.locks += 1
        child.mark()
        child.add(give)
        child.locks -= 1
        child.mark()
        body.add(f"{made.split()[0]} x{n} = new {made.split(' ', 1)[1]};")
        body.add(f"Thread t{n} = new Thread(part(() -> {program.end(child)}(x{n})));")
        body.add(_named(held[0], n), f"t{n}.start();", "later();")
        body.locks += 1
        holder = body.mark()
        body.locks -= 1
        body.add(_named(held[1], n), f"t{n}.join();")
        program.wait(kind, holder, release, waiter, acquire)
        program.limit(waiter, acquire, seconds)

    return way


def guarded(program: Program, body: Body) -> None:
    """Methods that are `synchronized`."""
    n = program.number()
    program.parts.append(f"static class K{n} {{ synchronized void run(Part part) throws Exception {{ part.run(); }} }}\n")
    body.add(f"K{n} x{n} = new K{n}();")
    child, inside = program.begin(program.cause("start", body.mark()), 0, f"K{n} x{n}"), program.begin(None, 0)
    inside.cause, inside.locks = child.cause, 1
    inside.mark()
    waiter = child.mark()
    child.add(f"x{n}.run(Program::{program.end(inside)});")
    child.mark()
    holding = program.begin(body.cause, 0, "Thread thread")
    holding.locks = body.locks + 1
    holding.add("thread.start();", "later();")
    holder = holding.mark()
    body.add(f"Thread t{n} = new Thread(part(() -> {program.end(child)}(x{n})));")
    body.add(f"x{n}.run(() -> {program.end(holding)}(t{n}));", f"t{n}.join();")
    program.wait("lock", holder, "lock.release", waiter, "lock.acquire")


def reentered(program: Program, body: Body) -> None:
    """A lock that was acquired twice is held until it is released twice."""
    n = program.number()
    body.add(f"ReentrantLock x{n} = new ReentrantLock();", f"x{n}.lock();", f"synchronized (x{n}) {{")
    body.locks += 2
    body.mark()
    body.add(f"x{n}.lock();", f"synchronized (x{n}) {{")
    body.mark()
    body.add("}", f"x{n}.unlock();")
    body.mark()
    body.add("}")
    body.locks -= 1
    body.mark()
    body.add(f"x{n}.unlock();")
    body.locks -= 1
    body.mark()


def parked(program: Program, body: Body) -> None:
    """Park a new thread, which has no permit left over from before."""
    n = program.number()
    child = program.begin(program.cause("start", body.mark()), 0, f"AtomicBoolean k{n}")
    waiter = child.mark()
    child.add("do {", "    LockSupport.park();", f"}} while (!k{n}.get());")
    child.mark()
    body.add(f"AtomicBoolean k{n} = new AtomicBoolean();")
    thread = start(program, body, f"{program.end(child)}(k{n})")
    body.add("later();")
    last = body.mark()
    body.add(f"k{n}.set(true);", f"LockSupport.unpark({thread});", f"{thread}.join();")
    program.wait("set", last, "event.set", waiter, "event.wait")


_EVENT, _SIGNAL, _BARRIER = "set event.set event.wait", "semaphore sem.release sem.acquire", "barrier barrier.wait barrier.wait"
_LOCKED = "x.lock();", "x.unlock();"
_RW = "ReentrantReadWriteLock ReentrantReadWriteLock()"
_READ, _WRITE = (tuple(f"x.{side}Lock().{call};" for call in ("lock()", "unlock()")) for side in ("read", "write"))
_STAMPED_READ = "long stamp_x = x.readLock();", "x.unlockRead(stamp_x);"
_STAMPED_WRITE = "long stamp_x = x.writeLock();", "x.unlock(stamp_x);"
_STAMPED_TRY = "long stamp_x = x.tryWriteLock(99, TimeUnit.SECONDS);", "x.unlockWrite(stamp_x);"
_GATE = "x.lock.lock();", "x.lock.unlock();"
WAITS: dict[str, Way] = {
    "latch": _wait("CountDownLatch CountDownLatch(1)", "x.await();", "x.countDown();", _EVENT),
    "latch_limit": _wait("CountDownLatch CountDownLatch(1)", "x.await(99, TimeUnit.SECONDS);", "x.countDown();", _EVENT, 99),
    "signal": _wait("Semaphore Semaphore(0)", "x.acquire();", "x.release();", _SIGNAL),
    "signal_limit": _wait("Semaphore Semaphore(0)", "x.tryAcquire(99, TimeUnit.SECONDS);", "x.release();", _SIGNAL, 99),
    "barrier": _wait("CyclicBarrier CyclicBarrier(2)", "x.await();", "x.await();", _BARRIER),
    "barrier_limit": _wait("CyclicBarrier CyclicBarrier(2)", "x.await(99, TimeUnit.SECONDS);", "x.await();", _BARRIER, 99),
    "phaser": _wait("Phaser Phaser(2)", "x.arriveAndAwaitAdvance();", "x.arriveAndAwaitAdvance();", _BARRIER),
    "parked": parked,
    "condition": _notified("Gate", _GATE, "x.open.await();", "x.open.signal();"),
    "condition_all": _notified("Gate", _GATE, "x.open.awaitUninterruptibly();", "x.open.signalAll();"),
    "condition_limit": _notified("Gate", _GATE, "x.open.await(99, TimeUnit.SECONDS);", "x.open.signal();", 99),
    "notify": _notified("Object", _MONITOR, "x.wait();", "x.notify();"),
    "notify_all": _notified("Object", _MONITOR, "x.wait(99_000);", "x.notifyAll();", 99),
}
LOCKS: dict[str, Way] = {
    "monitor": _contended("Object Object()", _MONITOR),
    "guarded": guarded,
    "lock": _contended("ReentrantLock ReentrantLock()", _LOCKED),
    "lock_limit": _contended("Lock ReentrantLock(true)", _LOCKED, ("x.tryLock(99, TimeUnit.SECONDS);", "x.unlock();"), 99),
    "lock_tried": _contended("ReentrantLock ReentrantLock()", ("x.tryLock();", "x.unlock();"), _LOCKED),
    "lock_interruptibly": _contended("ReentrantLock ReentrantLock()", ("x.lockInterruptibly();", "x.unlock();")),
    "write_lock": _contended(_RW, _WRITE),
    "read_lock": _contended(_RW, _WRITE, _READ),
    "read_lock_kept": _contended(_RW, _READ, _WRITE),
    "stamped": _contended("StampedLock StampedLock()", _STAMPED_WRITE, _STAMPED_READ),
    "stamped_limit": _contended("StampedLock StampedLock()", _STAMPED_WRITE, _STAMPED_TRY, 99),
    "stamped_kept": _contended("StampedLock StampedLock()", _STAMPED_READ, _STAMPED_WRITE),
    "permit": _contended("Semaphore Semaphore(1)", ("x.acquire();", "x.release();"), names=_SIGNAL),
    "reentered": reentered,
}
