"""The ways in which a generated Java program hands something on, and what each one lets us know.

All that is handed on is made by `part`, so that one place says what becomes of an exception, and can make all of it late. A
function's parameters have the names that they have where it is handed on. Nobody waits in a thread that may run what it
waits for itself, as a `ForkJoinPool` lets its threads do, unless it says nothing of who ended that wait.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from causal_programs.generator import Body, Language, Program, Way

HEAD = """
import com.sun.net.httpserver.*;
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.*;

public class Program {
    static final int LATE_MS = 0;
    static final Path HERE = Paths.get("").toAbsolutePath();

    interface Part {
        void run() throws Exception;
    }

    static void mark(String name) {
        Files.exists(HERE.resolve("mark-" + name));
    }

    /** Time for somebody else to begin waiting. */
    static void later() throws Exception {
        Thread.sleep(LATE_MS > 0 ? 0 : 20);
    }

    static Runnable part(Part part) {
        return () -> {
            try {
                Thread.sleep(LATE_MS);
                part.run();
            } catch (Throwable error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        };
    }

    static Callable<Integer> call(Part part) {
        return () -> {
            part(part).run();
            return 1;
        };
    }

    static TimerTask timed(Part part) {
        return new TimerTask() {
            @Override
            public void run() {
                part(part).run();
            }
        };
    }

    static class Taker implements Flow.Subscriber<Runnable> {
        public void onSubscribe(Flow.Subscription to) {
            to.request(9);
        }

        public void onNext(Runnable item) {
            item.run();
        }

        public void onError(Throwable error) {
            error.printStackTrace();
        }

        public void onComplete() {
        }
    }

    static class Gate {
        final ReentrantLock lock = new ReentrantLock();
        final Condition open = lock.newCondition();
    }

    static SocketChannel connected(ServerSocketChannel server) throws Exception {
        return SocketChannel.open(server.getLocalAddress());
    }

    static final InetAddress LOCAL = InetAddress.getLoopbackAddress();
    static final InetSocketAddress ANY = new InetSocketAddress(LOCAL, 0);

"""


# --- threads


def _start(program: Program, body: Body, call: str, make: str = "new Thread(part(() -> {}))") -> str:
    """The body starts a thread that makes this call: its name."""
    name = f"t{program.number()}"
    body.add(f"Thread {name} = {make.format(call)};", f"{name}.start();")
    return name


def _thread(make: str) -> Way:
    def way(program: Program, body: Body) -> None:
        giver = body.mark()
        name, last = program.child(body, "start", giver)
        body.add(f"{_start(program, body, f'{name}()', make)}.join();")
        program.wait("join", last, "thread.end", giver, "join")

    return way


def _parallel(make: str) -> Way:
    """Several threads at a time, with one name."""

    def way(program: Program, body: Body) -> None:
        giver, n = body.mark(), program.number()
        names = [program.child(body, "start", giver)[0] for _ in range(3)]
        parts = ", ".join(f"part(Program::{name})" for name in names)
        body.add(f"List<Thread> t{n} = new ArrayList<>();", f"for (Runnable each : Arrays.asList({parts})) t{n}.add({make});")
        body.add(f"for (Thread each : t{n}) each.start();", f"for (Thread each : t{n}) each.join();")

    return way


def virtual_pool(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    name, last = program.child(body, "start", giver, before=("later();",))
    body.add(f"ExecutorService p{n} = Executors.newVirtualThreadPerTaskExecutor();")
    body.add(f"p{n}.submit(part(Program::{name})).get();", f"p{n}.shutdown();")
    program.wait("result", last, "future.set", giver, "future.wait")


# --- pools, timers, futures


def _pool(program: Program, body: Body, make: str = "Executors.newFixedThreadPool(1)", kind: str = "ExecutorService") -> str:
    name = f"p{program.number()}"
    body.add(f"{kind} {name} = {make};")
    return name


def _submitted(make: str, submit: str, kind: str = "ExecutorService") -> Way:
    """Something is given to a pool and waited for."""

    def way(program: Program, body: Body) -> None:
        pool = _pool(program, body, make, kind)
        giver = body.mark()
        name, last = program.child(body, "handover", giver, before=("later();",))
        body.add(submit.format(pool=pool, f=f"Program::{name}"), f"{pool}.shutdown();")
        program.wait("result", last, "future.set", giver, "future.wait")

    return way


def own_task(program: Program, body: Body) -> None:
    """A future that the program makes itself."""
    pool, n = _pool(program, body), program.number()
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    body.add(f"FutureTask<Integer> u{n} = new FutureTask<>(call(Program::{name}));", f"{pool}.execute(u{n});")
    body.add(f"u{n}.get();", f"{pool}.shutdown();")
    program.wait("result", last, "future.set", giver, "future.wait")


def executed(program: Program, body: Body) -> None:
    """The end of the pool is waited for."""
    pool = _pool(program, body, program.random.choice(("Executors.newFixedThreadPool(2)", "Executors.newSingleThreadExecutor()")))
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    body.add(f"{pool}.execute(part(Program::{name}));", f"{pool}.shutdown();", f"{pool}.awaitTermination(99, TimeUnit.SECONDS);")
    program.wait("set", last, "event.set", giver, "event.wait")
    program.limit(giver, "event.wait", 99)


def closed(program: Program, body: Body) -> None:
    """A pool that is closed waits for what it runs."""
    pool = _pool(program, body)
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    body.add(f"try (ExecutorService open = {pool}) {{", f"    open.execute(part(Program::{name}));", "}")
    program.wait("set", last, "event.set", giver, "event.wait")


def queued(program: Program, body: Body) -> None:
    """Several calls, one after the other in one thread."""
    pool = _pool(program, body)
    for _ in range(3):
        name, _ = program.child(body, "handover", body.mark())
        body.add(f"{pool}.{program.random.choice(('submit', 'execute'))}(part(Program::{name}));")
    body.add(f"{pool}.shutdown();", f"{pool}.awaitTermination(99, TimeUnit.SECONDS);")


def caller_runs(program: Program, body: Body) -> None:
    """A pool with no room left lets its caller run what it is given: it was handed to nobody."""
    n = program.number()
    policy = "new SynchronousQueue<>(), new ThreadPoolExecutor.CallerRunsPolicy()"
    pool = _pool(program, body, f"new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS, {policy})")
    body.add(f"CountDownLatch e{n} = new CountDownLatch(1);")
    waits, _ = program.leaf(program.cause("handover", body.mark()), f"e{n}.await();", parameters=f"CountDownLatch e{n}")
    body.add(f"{pool}.execute(part(() -> {waits}(e{n})));")
    body.mark()
    name, _ = program.leaf(body.cause)
    body.add(f"{pool}.execute(part(Program::{name}));", f"e{n}.countDown();", f"{pool}.shutdown();")


def invoke_all(program: Program, body: Body) -> None:
    pool = _pool(program, body)
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    other, _ = program.child(body, "handover", giver)
    body.add(f"{pool}.invokeAll(Arrays.asList(call(Program::{name}), call(Program::{other})));", f"{pool}.shutdown();")
    program.wait("result", last, "future.set", giver, "future.wait")


def invoke_any(program: Program, body: Body) -> None:
    """Who gets what was done first goes on because of it."""
    pool = _pool(program, body)
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    body.add(f"{pool}.invokeAny(Arrays.asList(call(Program::{name})));", f"{pool}.shutdown();")
    body.cause = program.cause("handover", last)
    body.mark()
    program.wait("item", last, "queue.put", giver, "queue.get")


def completion(program: Program, body: Body) -> None:
    pool, n = _pool(program, body), program.number()
    body.add(f"CompletionService<Integer> c{n} = new ExecutorCompletionService<>({pool});")
    name, last = program.child(body, "handover", body.mark(), before=("later();",))
    body.add(f"c{n}.submit(call(Program::{name}));")
    waiter = body.mark()
    body.add(f"c{n}.{program.random.choice(('take()', 'poll(99, TimeUnit.SECONDS)'))}.get();", f"{pool}.shutdown();")
    body.cause = program.cause("handover", last)
    body.mark()
    program.wait("item", last, "queue.put", waiter, "queue.get")


def _timed(lines: str, times: int = 1) -> Way:
    """What is run at some time, in the end `times` times: only then it does something."""

    def way(program: Program, body: Body) -> None:
        giver, n = body.mark(), program.number()
        latch = f"CountDownLatch e{n}"
        name, last = program.child(body, "handover", giver, f"e{n}.countDown();", before=("later();",), parameters=latch)
        body.add(f"{latch} = new CountDownLatch(1);", f"AtomicInteger i{n} = new AtomicInteger();")
        call = f"() -> {{ if (i{n}.incrementAndGet() == {times}) {name}(e{n}); }}"
        body.add(*(line.format(n=n, call=call) for line in lines.splitlines()))
        program.wait("set", last, "event.set", giver, "event.wait")

    return way


_TIMER = """Timer p{n} = new Timer(true);
p{n}.schedule(timed({call}), 3);
e{n}.await();
p{n}.cancel();"""
_SCHEDULE = """ScheduledExecutorService p{{n}} = Executors.newScheduledThreadPool(1);
ScheduledFuture<?> u{{n}} = p{{n}}.{}(part({{call}}), 2, 3, TimeUnit.MILLISECONDS);
e{{n}}.await();
u{{n}}.cancel(false);
p{{n}}.shutdown();"""


def fork(program: Program, body: Body) -> None:
    """A task forks another one and does a third itself."""
    pool = _pool(program, body, "new ForkJoinPool(2)", "ForkJoinPool")
    outer = program.begin(program.cause("handover", body.mark()), 0)
    giver = outer.mark()
    name, _ = program.child(body, "handover", giver)
    outer.add(f"ForkJoinTask<?> forked = ForkJoinTask.adapt(part(Program::{name})).fork();")
    outer.mark()
    outer.add("forked.join();")
    outer.mark()
    own, _ = program.leaf(outer.cause)
    other, _ = program.child(body, "handover", outer.mark())
    outer.add(f"ForkJoinTask.invokeAll(ForkJoinTask.adapt(part(Program::{own})), ForkJoinTask.adapt(part(Program::{other})));")
    outer.mark()
    body.add(f"{pool}.invoke(ForkJoinTask.adapt(part(Program::{program.end(outer)})));", f"{pool}.shutdown();")


def common(program: Program, body: Body) -> None:
    """In the pool that all share: nothing in there may wait for something else that runs in there."""
    giver = body.mark()
    name, _ = program.leaf(program.cause("handover", giver))
    other, _ = program.leaf(program.cause("handover", giver))
    body.add(f"CompletableFuture.runAsync(part(Program::{name})).join();")
    body.add(f"ForkJoinPool.commonPool().submit(part(Program::{other})).join();")


def completed(program: Program, body: Body) -> None:
    """A future is completed by another thread."""
    n = program.number()
    body.add(f"CompletableFuture<Integer> c{n} = new CompletableFuture<>();")
    thread, last = _started(program, body, f"c{n}.complete(1);", parameters=f"CompletableFuture<Integer> c{n}", call=f"c{n}")
    waiter = body.mark()
    body.add(f"c{n}.get(99, TimeUnit.SECONDS);", f"{thread}.join();")
    program.wait("result", last, "future.set", waiter, "future.wait")
    program.limit(waiter, "future.wait", 99)


def _stage(register: str, complete: str = "complete(1)") -> Way:
    """A future does something when another one is complete: because of who has registered it."""

    def way(program: Program, body: Body) -> None:
        n = program.number()
        pool = _pool(program, body) if "{pool}" in register else ""
        body.add(f"CompletableFuture<Integer> c{n} = new CompletableFuture<>(), o{n} = new CompletableFuture<>();")
        giver = body.mark()
        name, _ = program.child(body, "handover", giver)
        stage = register.format(c=f"c{n}", o=f"o{n}", f=f"part(Program::{name}).run()", pool=pool)
        body.add(f"CompletableFuture<?> d{n} = {stage};")
        parameters, both = f"CompletableFuture<Integer> c{n}, CompletableFuture<Integer> o{n}", f"c{n}, o{n}"
        ends = f"c{n}.{complete};", f"o{n}.{complete};"
        thread, _ = _started(program, body, *ends, parameters=parameters, call=both)
        body.add(f"d{n}.join();", f"{thread}.join();", *([f"{pool}.shutdown();"] if pool else []))

    return way


def stage_at_once(program: Program, body: Body) -> None:
    """It is complete already: who registers something does it."""
    body.mark()
    name, _ = program.leaf(body.cause)
    body.add(f"CompletableFuture.completedFuture(1).thenAccept(it -> part(Program::{name}).run());")


# --- queues


def _item(made: str, kind: str = "BlockingQueue<Runnable>", get: str = "", items: int = 2) -> Way:
    """Items are handed to a thread that waits for them; one only where the second could come first."""

    def way(program: Program, body: Body) -> None:
        n = program.number()
        queue, starter = f"{kind} q{n}", body.mark()
        worker = program.begin(program.cause("start", starter), 0, queue)
        first = worker.mark()
        limited = f"q{n}.poll(99, TimeUnit.SECONDS)"
        way_to_get = get.format(q=f"q{n}") or program.random.choice((f"q{n}.take()", limited))
        worker.add(f"for (int i = 0; i < {items}; i++) {{", f"    {way_to_get}.run();", "}")
        body.add(f"{queue} = {made};")
        thread = _start(program, body, f"{program.end(worker)}(q{n})")
        body.add("later();")
        givers = []
        for _ in range(items):
            givers.append(body.mark())
            name, _ = program.child(body, "handover", givers[-1])
            how = program.random.choice(("put({})", "offer({}, 99, TimeUnit.SECONDS)"))
            body.add(f"q{n}.{how.format(f'part(Program::{name})')};")
        body.add(f"{thread}.join();")
        program.wait("item", givers[0], "queue.put", first, "queue.get")
        if limited == way_to_get:
            program.limit(first, "queue.get", 99)

    return way


def item_polled(program: Program, body: Body) -> None:
    """A queue that nobody can wait at is asked again and again."""
    n = program.number()
    queue = f"Queue<Runnable> q{n}"
    worker = program.begin(program.cause("start", body.mark()), 0, queue)
    worker.mark()
    worker.add("Runnable item;", f"while ((item = q{n}.poll()) == null) Thread.sleep(2);", "item.run();")
    made = program.random.choice(("ConcurrentLinkedQueue", "ConcurrentLinkedDeque", "LinkedBlockingQueue"))
    body.add(f"{queue} = new {made}<>();")
    thread = _start(program, body, f"{program.end(worker)}(q{n})")
    name, _ = program.child(body, "handover", body.mark())
    body.add(f"q{n}.add(part(Program::{name}));", f"{thread}.join();")


def item_limit(program: Program, body: Body) -> None:
    """What is done when no item has come in time has nothing to do with the one before."""
    n, starter = program.number(), body.mark()
    queue = f"BlockingQueue<Runnable> q{n}"
    worker = program.begin(program.cause("start", starter), 0, queue)
    first = worker.mark()
    worker.add(f"q{n}.poll(99, TimeUnit.SECONDS).run();", f"q{n}.poll(3, TimeUnit.MILLISECONDS);")
    worker.mark()
    body.add(f"{queue} = new LinkedBlockingQueue<>();")
    thread = _start(program, body, f"{program.end(worker)}(q{n})")
    giver = body.mark()
    name, _ = program.child(body, "handover", giver)
    body.add(f"q{n}.add(part(Program::{name}));", f"{thread}.join();")
    program.wait("item", giver, "queue.put", first, "queue.get")
    program.limit(first, "queue.get", 99)


def publisher(program: Program, body: Body) -> None:
    """What is published while a subscriber is still busy with what came before."""
    n = program.number()
    pool = _pool(program, body, "new ForkJoinPool(2)")
    body.add(f"SubmissionPublisher<Runnable> s{n} = new SubmissionPublisher<>({pool}, 8);", f"s{n}.subscribe(new Taker());")
    body.add(f"CountDownLatch e{n} = new CountDownLatch(1), d{n} = new CountDownLatch(1);")
    name, _ = program.child(body, "handover", body.mark(), f"e{n}.await();", parameters=f"CountDownLatch e{n}")
    body.add(f"s{n}.submit(part(() -> {name}(e{n})));", "later();")
    giver = body.mark()
    ends, parameters = f"d{n}.countDown();", f"CountDownLatch d{n}"
    other, last = program.child(body, "handover", giver, ends, before=("later();",), parameters=parameters)
    body.add(f"s{n}.submit(part(() -> {other}(d{n})));", f"e{n}.countDown();", f"d{n}.await();", f"{pool}.shutdown();")
    program.wait("set", last, "event.set", giver, "event.wait")


def drained(program: Program, body: Body) -> None:
    """All that is in a queue is taken at once: one item here, for nobody can tell what is done because of which."""
    n = program.number()
    queue = f"BlockingQueue<Runnable> q{n}"
    worker = program.begin(program.cause("start", body.mark()), 0, queue)
    worker.mark()
    worker.add("List<Runnable> all = new ArrayList<>();", f"while (q{n}.drainTo(all) == 0) Thread.sleep(2);", "all.get(0).run();")
    body.add(f"{queue} = new LinkedBlockingQueue<>();")
    thread = _start(program, body, f"{program.end(worker)}(q{n})")
    name, _ = program.child(body, "handover", body.mark())
    body.add(f"q{n}.put(part(Program::{name}));", f"{thread}.join();")


def workers(program: Program, body: Body) -> None:
    """Several threads put into one queue, several take out of it."""
    giver, n = body.mark(), program.number()
    queue = f"BlockingQueue<Runnable> q{n}"
    worker = program.begin(program.cause("start", giver), 0, queue)
    worker.add("Runnable item;", f"while ((item = q{n}.take()) != Program.STOP) item.run();")
    body.add(f"{queue} = new ArrayBlockingQueue<>(1);")
    named = program.end(worker)
    takers = [_start(program, body, f"{named}(q{n})") for _ in range(2)]
    putters = []
    for _ in range(2):
        producer = program.begin(program.cause("start", giver), 0, queue)
        for _ in range(2):
            name, _ = program.child(body, "handover", producer.mark())
            producer.add(f"q{n}.put(part(Program::{name}));")
        putters.append(_start(program, body, f"{program.end(producer)}(q{n})"))
    body.add(*(f"{thread}.join();" for thread in putters), *(f"q{n}.put(STOP);" for _ in takers))
    body.add(*(f"{thread}.join();" for thread in takers))


def room(program: Program, body: Body) -> None:
    """A queue is full until somebody takes something out of it."""
    n = program.number()
    queue = f"ArrayBlockingQueue<Object> q{n}"
    body.add(f"{queue} = new ArrayBlockingQueue<>(1);")
    first = body.mark()
    body.add(f"q{n}.put(new Object());")
    taker = program.begin(program.cause("start", body.mark()), 0, queue)
    taker.add("later();")
    taken = taker.mark()
    taker.add(f"q{n}.take();")
    taker.cause = program.cause("handover", first)
    taker.mark()
    thread = _start(program, body, f"{program.end(taker)}(q{n})")
    waiter = body.mark()
    body.add(f"q{n}.put(new Object());", f"{thread}.join();")
    program.wait("room", taken, "queue.get", waiter, "queue.put")


def exchange(program: Program, body: Body) -> None:
    """Two give each other something."""
    n = program.number()
    meeting = f"Exchanger<Object> x{n}"
    other = program.begin(program.cause("start", body.mark()), 0, meeting)
    other.add("later();")
    theirs = other.mark()
    other.add(f"x{n}.exchange(new Object());")
    body.add(f"{meeting} = new Exchanger<>();")
    thread = _start(program, body, f"{other.name.partition('(')[0]}(x{n})")
    mine = body.mark()
    other.cause = program.cause("handover", mine)
    other.mark()
    program.end(other)
    body.add(f"x{n}.exchange(new Object());")
    body.cause = program.cause("handover", theirs)
    body.mark()
    body.add(f"{thread}.join();")
    program.wait("barrier", theirs, "barrier.wait", mine, "barrier.wait")


# --- waits


def _named(text: str, number: int) -> str:
    """What is called `x` in there has a name of its own."""
    return re.sub(r"(\b|_)x\b", rf"\1x{number}", text)


def _started(program: Program, body: Body, *ends: str, parameters: str = "", call: str = "") -> tuple[str, str]:
    """A thread that does something later and then ends a wait: its name, and its last mark."""
    name, last = program.child(body, "start", body.mark(), *ends, before=("later();",), parameters=parameters)
    return _start(program, body, f"{name}({call})"), last


def _wait(made: str, wait: str, release: str, names: str, seconds: float = 0) -> Way:
    """We wait for what another thread does; `names` are those of the edge, of what ends the wait, and of the wait."""

    def way(program: Program, body: Body) -> None:
        n, (kind, release_op, wait_op) = program.number(), names.split()
        body.add(f"{made.split()[0]} x{n} = new {made.split(' ', 1)[1]};")
        thread, last = _started(program, body, _named(release, n), parameters=f"{made.split()[0]} x{n}", call=f"x{n}")
        waiter = body.mark()
        body.add(_named(wait, n), f"{thread}.join();")
        program.wait(kind, last, release_op, waiter, wait_op)
        program.limit(waiter, wait_op, seconds)

    return way


def _notified(kind: str, held: tuple[str, str], wait: str, notify: str, seconds: float = 0) -> Way:
    """Nobody can notify before we wait: until then we hold the lock."""

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
    """We hold what another thread wants, which takes and gives it back as we do, or in an `other` way."""

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
    """What is taken twice is held until it was given back twice."""
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
    """A thread that has just begun has no permit that was left over."""
    n = program.number()
    child = program.begin(program.cause("start", body.mark()), 0, f"AtomicBoolean k{n}")
    waiter = child.mark()
    child.add("do {", "    LockSupport.park();", f"}} while (!k{n}.get());")
    child.mark()
    body.add(f"AtomicBoolean k{n} = new AtomicBoolean();")
    thread = _start(program, body, f"{program.end(child)}(k{n})")
    body.add("later();")
    last = body.mark()
    body.add(f"k{n}.set(true);", f"LockSupport.unpark({thread});", f"{thread}.join();")
    program.wait("set", last, "event.set", waiter, "event.wait")


# --- sockets and files


def _served(accept: str, listen: str, connect: str, read: str, write: str) -> Way:
    """A question and its answer. `{}` is the connection."""

    def way(program: Program, body: Body) -> None:
        n, giver = program.number(), body.mark()
        kind, one = ("ServerSocketChannel", "SocketChannel") if "Channel" in listen else ("ServerSocket", "Socket")
        server = program.begin(program.cause("start", giver), body.depth - 1, f"{kind} s{n}")
        server.mark()
        server.add(f"{one} o{n} = {accept.format(f's{n}')};", read.format(f"o{n}"))
        body.add(f"{kind} s{n} = {listen};")
        thread = _start(program, body, f"{server.name.partition('(')[0]}(s{n})")
        body.add(f"{one} c{n} = {connect.format(f's{n}')};")
        sender = body.mark()
        server.cause = program.cause("message", sender)
        server.mark()
        program.fill(server)
        last = server.mark()
        server.add(write.format(f"o{n}"), f"o{n}.close();")
        program.end(server)
        body.add(write.format(f"c{n}"), read.format(f"c{n}"))
        body.cause = program.cause("message", last)
        body.mark()
        body.add(f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")

    return way


_CHANNELS = "{}.accept()", "ServerSocketChannel.open().bind(ANY)", "connected({})"
_SOCKETS = "{}.accept()", "new ServerSocket(0, 5, LOCAL)", "new Socket(LOCAL, {}.getLocalPort())"


def batch(program: Program, body: Body) -> None:
    """Two messages come with one receive: it goes on because of the last one."""
    n = program.number()
    child = program.begin(program.cause("start", body.mark()), 0, f"ServerSocket s{n}")
    child.mark()
    child.add(f"Socket one = s{n}.accept();", "InputStream in = one.getInputStream();")
    child.add("while (in.available() < 2) Thread.sleep(2);", "in.read(new byte[10]);")
    body.add(f"ServerSocket s{n} = {_SOCKETS[1]};")
    thread = _start(program, body, f"{child.name.partition('(')[0]}(s{n})")
    body.add(f"Socket c{n} = {_SOCKETS[2].format(f's{n}')};")
    body.mark()
    body.add(f"c{n}.getOutputStream().write(1);")
    child.cause = program.cause("message", body.mark())
    child.mark()
    child.add("one.close();")
    program.end(child)
    body.add(f"c{n}.getOutputStream().write(2);", f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")


def polled(program: Program, body: Body) -> None:
    """A thread that handles what a selector says: between two messages it does nothing that one of them caused."""
    giver, n = body.mark(), program.number()
    server = program.begin(program.cause("start", giver), body.depth - 1, f"ServerSocketChannel s{n}")
    server.mark()
    server.add(f"Selector r{n} = Selector.open();", f"s{n}.configureBlocking(false);")
    server.add(f"s{n}.register(r{n}, SelectionKey.OP_ACCEPT);", f"r{n}.select();", f"r{n}.selectedKeys().clear();")
    server.add(f"SocketChannel o{n} = s{n}.accept();")
    server.add(f"o{n}.configureBlocking(false);", f"o{n}.register(r{n}, SelectionKey.OP_READ);")
    server.mark()
    body.add(f"ServerSocketChannel s{n} = {_CHANNELS[1]};")
    thread = _start(program, body, f"{server.name.partition('(')[0]}(s{n})")
    body.add(f"SocketChannel c{n} = {_CHANNELS[2].format(f's{n}')};")
    for _ in range(2):
        server.add(f"r{n}.{program.random.choice(('select()', 'select(99_000)'))};", f"r{n}.selectedKeys().clear();")
        server.cause = program.cause("start", giver)
        server.mark()
        server.add(f"o{n}.read(ByteBuffer.allocate(1));")
        server.cause = program.cause("message", body.mark())
        server.mark()
        program.fill(server)
        body.add(f"c{n}.write(ByteBuffer.allocate(1));", "later();")
    server.add(f"r{n}.close();", f"o{n}.close();")
    program.end(server)
    body.add(f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")


def http(program: Program, body: Body) -> None:
    """The JDK's own server calls a handler."""
    n = program.number()
    handler = program.begin(None, 0, "HttpExchange exchange")
    body.add(f"HttpServer s{n} = HttpServer.create(ANY, 0);")
    body.add(f's{n}.createContext("/", it -> part(() -> {handler.name.partition("(")[0]}(it)).run());', f"s{n}.start();")
    handler.cause = program.cause("message", body.mark())
    last = handler.mark()
    handler.add("exchange.sendResponseHeaders(200, -1);", "exchange.close();")
    program.end(handler)
    body.add(f'new URL("http://127.0.0.1:" + s{n}.getAddress().getPort() + "/").openStream().close();')
    body.cause = program.cause("message", last)
    body.mark()
    body.add(f"s{n}.stop(0);")


def _datagram(kind: str, made: str, receive: str, address: str, send: str) -> Way:
    def way(program: Program, body: Body) -> None:
        n = program.number()
        reader = program.begin(program.cause("start", body.mark()), body.depth - 1, f"{kind} s{n}")
        reader.mark()
        reader.add(receive.format(f"s{n}"))
        body.add(f"{kind} s{n} = {made};", f"{kind} c{n} = {made};", f"SocketAddress a{n} = s{n}.{address};")
        thread = _start(program, body, f"{reader.name.partition('(')[0]}(s{n})")
        reader.cause = program.cause("message", body.mark())
        reader.mark()
        program.fill(reader)
        program.end(reader)
        body.add(send.format(f"c{n}", f"a{n}"), f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")

    return way


def _mailbox(rename: str, read: str) -> Way:
    def way(program: Program, body: Body) -> None:
        n = program.number()
        reader = program.begin(program.cause("start", body.mark()), 0)
        reader.mark()
        reader.add(f'Path mail = HERE.resolve("mail{n}");', "while (!Files.exists(mail)) Thread.sleep(2);", read)
        thread = _start(program, body, f"{reader.name.partition('(')[0]}()")
        body.add(f'Path y{n} = HERE.resolve("mail{n}.tmp"), z{n} = HERE.resolve("mail{n}");', f"Files.write(y{n}, new byte[1]);")
        reader.cause = program.cause("mailbox", body.mark())
        reader.mark()
        reader.mark()
        program.end(reader)
        body.add(rename.format(old=f"y{n}", new=f"z{n}"), f"{thread}.join();")

    return way


# --- time limits


def socket_limit(program: Program, body: Body) -> None:
    """A socket's time limit holds for what it receives, until it is taken away."""
    n = program.number()
    server = program.begin(program.cause("start", body.mark()), 0, f"ServerSocket s{n}")
    server.add(f"s{n}.setSoTimeout(97_000);")
    accepting = server.mark()
    server.add(f"Socket one = s{n}.accept();", "one.setSoTimeout(98_000);")
    reading = server.mark()
    server.add("one.getInputStream().read();")
    body.add(f"ServerSocket s{n} = {_SOCKETS[1]};")
    thread = _start(program, body, f"{server.name.partition('(')[0]}(s{n})")
    connecting = body.mark()
    body.add(f"Socket c{n} = new Socket();", f"c{n}.connect(s{n}.getLocalSocketAddress(), 99_000);")
    for seconds in (98, 0):
        server.cause = program.cause("message", body.mark())
        again = server.mark()
        body.add(f"c{n}.getOutputStream().write(1);")
        server.add(*([] if seconds else ["one.setSoTimeout(0);"]), "one.getInputStream().read();")
        program.limit(again, "net.recv", seconds)
    server.cause = program.cause("message", body.mark())
    server.mark()
    server.add("one.close();")
    program.end(server)
    body.add(f"c{n}.getOutputStream().write(1);", f"{thread}.join();", f"c{n}.close();", f"s{n}.close();")
    for mark, op, limit in ((accepting, "net.accept", 97), (reading, "net.recv", 98), (connecting, "net.connect", 99)):
        program.limit(mark, op, limit)


def join_limit(program: Program, body: Body) -> None:
    giver = body.mark()
    name, last = program.child(body, "start", giver, before=("later();",))
    body.add(f"{_start(program, body, f'{name}()')}.join(99_000);")
    program.wait("join", last, "thread.end", giver, "join")
    program.limit(giver, "join", 99)


def join_duration(program: Program, body: Body) -> None:
    giver = body.mark()
    name, last = program.child(body, "start", giver, before=("Thread.sleep(java.time.Duration.ofMillis(20));",))
    body.add(f"{_start(program, body, f'{name}()')}.join(java.time.Duration.ofSeconds(99));")
    program.wait("join", last, "thread.end", giver, "join")
    program.limit(giver, "join", 99)


_EVENT, _SIGNAL, _BARRIER = "set event.set event.wait", "semaphore sem.release sem.acquire", "barrier barrier.wait barrier.wait"
_LOCKED = "x.lock();", "x.unlock();"
_RW = "ReentrantReadWriteLock ReentrantReadWriteLock()"
_READ, _WRITE = (tuple(f"x.{side}Lock().{call};" for call in ("lock()", "unlock()")) for side in ("read", "write"))
_STAMPED_READ = "long stamp_x = x.readLock();", "x.unlockRead(stamp_x);"
_STAMPED_WRITE = "long stamp_x = x.writeLock();", "x.unlock(stamp_x);"
_STAMPED_TRY = "long stamp_x = x.tryWriteLock(99, TimeUnit.SECONDS);", "x.unlockWrite(stamp_x);"
_GATE = "x.lock.lock();", "x.lock.unlock();"

_THREADS: dict[str, Way] = {
    "thread": _thread("new Thread(part(() -> {}))"),
    "own_thread": _thread("new Thread() {{ @Override public void run() {{ part(() -> {}).run(); }} }}"),
    "parallel": _parallel('new Thread(each, "same")'),
    "join_limit": join_limit,
}
_POOLS: dict[str, Way] = {
    "submit": _submitted("Executors.newFixedThreadPool(1)", "{pool}.submit(part({f})).get();"),
    "submit_call": _submitted("Executors.newCachedThreadPool()", "{pool}.submit(call({f})).get(99, TimeUnit.SECONDS);"),
    "submit_single": _submitted("Executors.newSingleThreadExecutor()", "{pool}.submit(call({f})).get();"),
    "schedule": _submitted(
        "Executors.newScheduledThreadPool(1)",
        "{pool}.schedule(part({f}), 3, TimeUnit.MILLISECONDS).get();",
        "ScheduledExecutorService",
    ),
    "supply_async": _submitted(
        "Executors.newFixedThreadPool(1)", "CompletableFuture.supplyAsync(() -> {{ part({f}).run(); return 1; }}, {pool}).get();"
    ),
    "run_async": _submitted("new ForkJoinPool(2)", "CompletableFuture.runAsync(part({f}), {pool}).join();"),
    "fork_join": _submitted("new ForkJoinPool(2)", "{pool}.submit(part({f})).join();", "ForkJoinPool"),
    "fork_join_call": _submitted("new ForkJoinPool(2)", "{pool}.submit(call({f})).get();"),
    "executed": executed,
    "queued": queued,
    "caller_runs": caller_runs,
    "invoke_all": invoke_all,
    "invoke_any": invoke_any,
    "completion": completion,
    "timer": _timed(_TIMER),
    "timer_again": _timed(_TIMER.replace(", 3)", ", 2, 3)"), times=2),
    "fixed_rate": _timed(_SCHEDULE.format("scheduleAtFixedRate"), times=2),
    "fixed_delay": _timed(_SCHEDULE.format("scheduleWithFixedDelay"), times=3),
    "fork": fork,
    "delayed": _submitted(
        "Executors.newFixedThreadPool(1)",
        "CompletableFuture.runAsync(part({f}), CompletableFuture.delayedExecutor(3, TimeUnit.MILLISECONDS, {pool})).get();",
    ),
    "own_task": own_task,
    "common": common,
}
_STAGES: dict[str, Way] = {
    "completed": completed,
    "stage_at_once": stage_at_once,
    "then_accept": _stage("{c}.thenAccept(it -> {f})"),
    "then_apply": _stage("{c}.thenApply(it -> {{ {f}; return 1; }})"),
    "then_run": _stage("{c}.thenRun(() -> {f})"),
    "then_compose": _stage("{c}.thenCompose(it -> {{ {f}; return CompletableFuture.completedFuture(1); }})"),
    "when_complete": _stage("{c}.whenComplete((it, error) -> {f})"),
    "handle": _stage("{c}.handle((it, error) -> {{ {f}; return 1; }})"),
    "exceptionally": _stage("{c}.exceptionally(it -> {{ {f}; return 1; }})", "completeExceptionally(new Exception())"),
    "then_async": _stage("{c}.thenAcceptAsync(it -> {f}, {pool})"),
    "then_combine": _stage("{c}.thenCombine({o}, (it, other) -> {{ {f}; return 1; }})"),
    "then_accept_both": _stage("{c}.thenAcceptBoth({o}, (it, other) -> {f})"),
    "run_after_both": _stage("{o}.runAfterBothAsync({c}, () -> {f}, {pool})"),
    "apply_to_either": _stage("{c}.applyToEither({o}, it -> {{ {f}; return 1; }})"),
    "accept_either": _stage("{o}.acceptEither({c}, it -> {f})"),
    "run_after_either": _stage("{c}.runAfterEither({o}, () -> {f})"),
    "all_of": _stage("CompletableFuture.allOf({c}, {o}).thenRun(() -> {f})"),
    "any_of": _stage("CompletableFuture.anyOf({c}, {o}).thenAccept(it -> {f})"),
    "then_later": _stage("{c}.thenApply(it -> it).thenAccept(it -> {f})"),
}
_QUEUES: dict[str, Way] = {
    "linked": _item("new LinkedBlockingQueue<>()"),
    "array": _item("new ArrayBlockingQueue<>(1)"),
    "deque": _item("new LinkedBlockingDeque<>()", "BlockingDeque<Runnable>"),
    "stack": _item("new LinkedBlockingDeque<>()", "LinkedBlockingDeque<Runnable>", "{q}.takeLast()", items=1),
    "transfer": _item("new LinkedTransferQueue<>()"),
    "synchronous": _item("new SynchronousQueue<>()"),
    "priority": _item("new PriorityBlockingQueue<>(2, (one, other) -> 0)", items=1),
    "item_polled": item_polled,
    "item_limit": item_limit,
    "drained": drained,
    "publisher": publisher,
    "workers": workers,
    "room": room,
    "exchange": exchange,
}
_WAITS: dict[str, Way] = {
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
_LOCKS: dict[str, Way] = {
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
_WRITTEN = "{}.write(ByteBuffer.allocate(1));"
_STREAMS: dict[str, Way] = {
    "tcp": _served(*_SOCKETS, "{}.getInputStream().read();", "{}.getOutputStream().write(1);"),
    "tcp_buffered": _served(
        *_SOCKETS,
        "new DataInputStream(new BufferedInputStream({}.getInputStream())).readInt();",
        "new DataOutputStream({}.getOutputStream()).writeInt(1);",
    ),
    "tcp_text": _served(
        *_SOCKETS,
        "new BufferedReader(new InputStreamReader({}.getInputStream())).readLine();",
        'new PrintWriter({}.getOutputStream(), true).println("it");',
    ),
    "channel": _served(*_CHANNELS, "{}.read(ByteBuffer.allocate(9));", _WRITTEN),
    "channel_direct": _served(*_CHANNELS, "{}.read(new ByteBuffer[] {{ByteBuffer.allocateDirect(1)}});", _WRITTEN),
    "channel_socket": _served(*_CHANNELS, "{}.socket().getInputStream().read();", "{}.socket().getOutputStream().write(1);"),
    "batch": batch,
    "polled": polled,
    "http": http,
    "socket_limit": socket_limit,
    "datagram": _datagram(
        "DatagramSocket", "new DatagramSocket(0, LOCAL)", "{}.receive(new DatagramPacket(new byte[9], 9));",
        "getLocalSocketAddress()", "{}.send(new DatagramPacket(new byte[1], 1, {}));",
    ),
    "datagram_channel": _datagram(
        "DatagramChannel", "DatagramChannel.open().bind(ANY)", "{}.receive(ByteBuffer.allocate(9));",
        "getLocalAddress()", "{}.send(ByteBuffer.allocate(1), {});",
    ),
}  # fmt: skip
_FILES: dict[str, Way] = {
    "mailbox": _mailbox("Files.move({old}, {new});", "Files.readAllBytes(mail);"),
    "mailbox_atomic": _mailbox(
        "Files.move({old}, {new}, StandardCopyOption.ATOMIC_MOVE);", "new RandomAccessFile(mail.toFile(), \"r\").close();"
    ),
    "mailbox_file": _mailbox("{old}.toFile().renameTo({new}.toFile());", "new FileInputStream(mail.toFile()).close();"),
}
WAYS: dict[str, Way] = {**_THREADS, **_POOLS, **_STAGES, **_QUEUES, **_WAITS, **_LOCKS, **_STREAMS, **_FILES}
_VIRTUAL: dict[str, Way] = {
    "virtual": _thread("Thread.ofVirtual().unstarted(part(() -> {}))"),
    "virtual_parallel": _parallel("Thread.ofVirtual().unstarted(each)"),
    "virtual_pool": virtual_pool,
    "join_duration": join_duration,
    "closed": closed,
}
_SCHEDULING = "new ForkJoinPool(2)"
_SCHEDULE_FORKED = _SCHEDULE.replace("Executors.newScheduledThreadPool(1)", _SCHEDULING)
_FORKED: dict[str, Way] = {
    "fork_join_rate": _timed(_SCHEDULE_FORKED.format("scheduleAtFixedRate"), times=2),
    "fork_join_schedule": _submitted(
        _SCHEDULING, "{pool}.schedule(part({f}), 3, TimeUnit.MILLISECONDS).get();", "ScheduledExecutorService"
    ),
}
NEWER: dict[int, dict[str, Way]] = {21: _VIRTUAL, 25: _FORKED}
"""Ways that only JVMs from this version on have."""


# --- the language


def _function(word: str, name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"    {word} {name} throws Exception {{", *(f"        {line}" for line in lines), "    }", ""])


def _main(name: str) -> str:
    return (
        "    static final Runnable STOP = () -> { };\n\n"
        f"    public static void main(String[] arguments) throws Exception {{\n        {name}();\n    }}\n}}\n"
    )


_OLD = Language(head=HEAD, mark='mark("{}");', word="static void", function=_function, main=_main, ways=WAYS)


def java(major: int) -> Language:
    """As JVMs of this version know it."""
    ways = dict(WAYS)
    for since, newer in NEWER.items():
        ways |= newer if major >= since else {}
    return replace(_OLD, ways=ways)


def late(language: Language) -> Language:
    """The same where all that is handed on begins late, and nobody gives it time."""
    return replace(language, head=language.head.replace("LATE_MS = 0", "LATE_MS = 40"))


def late_starters(language: Language) -> Language:
    """The same where whoever starts a thread goes on late."""

    def function(word: str, name: str, lines: Sequence[str]) -> str:
        return _function(word, name, lines).replace(".start();", ".start(); Thread.sleep(40);")

    return replace(language, function=function)
