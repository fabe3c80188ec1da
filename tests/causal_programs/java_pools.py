"""Hand-overs of generated Java programs: threads, pools, timers and futures.

In a `ForkJoinPool`, a waiting thread may run the task that it waits for. A way that waits in such a thread expects no
particular end of the wait.
"""

from __future__ import annotations

from generator import Body, Program, Way
from java_text import made_pool, start, started


def _thread(make: str) -> Way:
    def way(program: Program, body: Body) -> None:
        giver = body.mark()
        name, last = program.child(body, "start", giver)
        body.add(f"{start(program, body, f'{name}()', make)}.join();")
        program.wait("join", last, "thread.end", giver, "join")

    return way


def _parallel(make: str) -> Way:
    """Several threads at the same time, with one name."""

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


def join_limit(program: Program, body: Body) -> None:
    _joined(program, body, "later();", "99_000")


def join_duration(program: Program, body: Body) -> None:
    _joined(program, body, "Thread.sleep(java.time.Duration.ofMillis(20));", "java.time.Duration.ofSeconds(99)")


def _joined(program: Program, body: Body, before: str, limit: str) -> None:
    """Start a thread and wait for it, at most 99 seconds."""
    giver = body.mark()
    name, last = program.child(body, "start", giver, before=(before,))
    body.add(f"{start(program, body, f'{name}()')}.join({limit});")
    program.wait("join", last, "thread.end", giver, "join")
    program.limit(giver, "join", 99)


# --- pools, timers, futures


def _submitted(make: str, submit: str, kind: str = "ExecutorService") -> Way:
    """Submit a task to a pool and wait for it."""

    def way(program: Program, body: Body) -> None:
        pool = made_pool(program, body, make, kind)
        giver = body.mark()
        name, last = program.child(body, "handover", giver, before=("later();",))
        body.add(submit.format(pool=pool, f=f"Program::{name}"), f"{pool}.shutdown();")
        program.wait("result", last, "future.set", giver, "future.wait")

    return way


def own_task(program: Program, body: Body) -> None:
    """A future that the program creates itself."""
    pool, n = made_pool(program, body), program.number()
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    body.add(f"FutureTask<Integer> u{n} = new FutureTask<>(call(Program::{name}));", f"{pool}.execute(u{n});")
    body.add(f"u{n}.get();", f"{pool}.shutdown();")
    program.wait("result", last, "future.set", giver, "future.wait")


def executed(program: Program, body: Body) -> None:
    """Wait for the end of the pool."""
    made = program.random.choice(("Executors.newFixedThreadPool(2)", "Executors.newSingleThreadExecutor()"))
    pool = made_pool(program, body, made)
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    body.add(f"{pool}.execute(part(Program::{name}));", f"{pool}.shutdown();", f"{pool}.awaitTermination(99, TimeUnit.SECONDS);")
    program.wait("set", last, "event.set", giver, "event.wait")
    program.limit(giver, "event.wait", 99)


def _closed(make: str) -> Way:
    """Closing a pool waits for its tasks."""

    def way(program: Program, body: Body) -> None:
        pool = made_pool(program, body, make)
        giver = body.mark()
        name, last = program.child(body, "handover", giver, before=("later();",))
        body.add(f"try (ExecutorService open = {pool}) {{", f"    open.execute(part(Program::{name}));", "}")
        program.wait("set", last, "event.set", giver, "event.wait")

    return way


_UNASKED_POOL = """new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<>()) {
    @Override public boolean isTerminated() { throw new IllegalStateException("asked"); }
    @Override public void close() { for (shutdown(); !super.isTerminated(); Thread.onSpinWait()); }
}"""


def queued(program: Program, body: Body) -> None:
    """Several calls, one after the other in one thread."""
    pool = made_pool(program, body)
    for _ in range(3):
        name, _ = program.child(body, "handover", body.mark())
        body.add(f"{pool}.{program.random.choice(('submit', 'execute'))}(part(Program::{name}));")
    body.add(f"{pool}.shutdown();", f"{pool}.awaitTermination(99, TimeUnit.SECONDS);")


def caller_runs(program: Program, body: Body) -> None:
    """A full pool lets its caller run the task, so nothing is handed over."""
    n = program.number()
    policy = "new SynchronousQueue<>(), new ThreadPoolExecutor.CallerRunsPolicy()"
    pool = made_pool(program, body, f"new ThreadPoolExecutor(1, 1, 1, TimeUnit.SECONDS, {policy})")
    body.add(f"CountDownLatch e{n} = new CountDownLatch(1);")
    waits, _ = program.leaf(program.cause("handover", body.mark()), f"e{n}.await();", parameters=f"CountDownLatch e{n}")
    body.add(f"{pool}.execute(part(() -> {waits}(e{n})));")
    body.mark()
    name, _ = program.leaf(body.cause)
    body.add(f"{pool}.execute(part(Program::{name}));", f"e{n}.countDown();", f"{pool}.shutdown();")


def invoke_all(program: Program, body: Body) -> None:
    pool = made_pool(program, body)
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    other, _ = program.child(body, "handover", giver)
    body.add(f"{pool}.invokeAll(Arrays.asList(call(Program::{name}), call(Program::{other})));", f"{pool}.shutdown();")
    program.wait("result", last, "future.set", giver, "future.wait")


def invoke_any(program: Program, body: Body) -> None:
    """The first finished call ends the wait."""
    pool = made_pool(program, body)
    giver = body.mark()
    name, last = program.child(body, "handover", giver, before=("later();",))
    body.add(f"{pool}.invokeAny(Arrays.asList(call(Program::{name})));", f"{pool}.shutdown();")
    body.cause = program.cause("handover", last)
    body.mark()
    program.wait("item", last, "queue.put", giver, "queue.get")


def completion(program: Program, body: Body) -> None:
    pool, n = made_pool(program, body), program.number()
    body.add(f"CompletionService<Integer> c{n} = new ExecutorCompletionService<>({pool});")
    name, last = program.child(body, "handover", body.mark(), before=("later();",))
    body.add(f"c{n}.submit(call(Program::{name}));")
    waiter = body.mark()
    body.add(f"c{n}.{program.random.choice(('take()', 'poll(99, TimeUnit.SECONDS)'))}.get();", f"{pool}.shutdown();")
    body.cause = program.cause("handover", last)
    body.mark()
    program.wait("item", last, "queue.put", waiter, "queue.get")


def _timed(lines: str, times: int = 1) -> Way:
    """A timed task that runs `times` times; only the last execution calls the function."""

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
    """A task forks another one and runs a third itself."""
    pool = made_pool(program, body, "new ForkJoinPool(2)", "ForkJoinPool")
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
    """Uses the common pool, where no task may wait for another task of the pool."""
    giver = body.mark()
    name, _ = program.leaf(program.cause("handover", giver))
    other, _ = program.leaf(program.cause("handover", giver))
    body.add(f"CompletableFuture.runAsync(part(Program::{name})).join();")
    body.add(f"ForkJoinPool.commonPool().submit(part(Program::{other})).join();")


def _completed(make: str) -> Way:
    """Another thread completes a future."""

    def way(program: Program, body: Body) -> None:
        n = program.number()
        body.add(f"CompletableFuture<Integer> c{n} = {make};")
        thread, last = started(program, body, f"c{n}.complete(1);", parameters=f"CompletableFuture<Integer> c{n}", call=f"c{n}")
        waiter = body.mark()
        body.add(f"c{n}.get(99, TimeUnit.SECONDS);", f"{thread}.join();")
        program.wait("result", last, "future.set", waiter, "future.wait")
        program.limit(waiter, "future.wait", 99)

    return way


_UNASKED_FUTURE = """new CompletableFuture<>() {
    @Override public boolean isDone() { throw new IllegalStateException("asked"); }
}"""


def _stage(register: str, complete: str = "complete(1)") -> Way:
    """A callback that runs when a future is complete; its cause is the function that registered it."""

    def way(program: Program, body: Body) -> None:
        n = program.number()
        pool = made_pool(program, body) if "{pool}" in register else ""
        body.add(f"CompletableFuture<Integer> c{n} = new CompletableFuture<>(), o{n} = new CompletableFuture<>();")
        giver = body.mark()
        name, _ = program.child(body, "handover", giver)
        stage = register.format(c=f"c{n}", o=f"o{n}", f=f"part(Program::{name}).run()", pool=pool)
        body.add(f"CompletableFuture<?> d{n} = {stage};")
        parameters, both = f"CompletableFuture<Integer> c{n}, CompletableFuture<Integer> o{n}", f"c{n}, o{n}"
        ends = f"c{n}.{complete};", f"o{n}.{complete};"
        thread, _ = started(program, body, *ends, parameters=parameters, call=both)
        body.add(f"d{n}.join();", f"{thread}.join();", *([f"{pool}.shutdown();"] if pool else []))

    return way


def stage_at_once(program: Program, body: Body) -> None:
    """The future is already complete, so the registering thread runs the callback."""
    body.mark()
    name, _ = program.leaf(body.cause)
    body.add(f"CompletableFuture.completedFuture(1).thenAccept(it -> part(Program::{name}).run());")


THREADS: dict[str, Way] = {
    "thread": _thread("new Thread(part(() -> {}))"),
    "own_thread": _thread("new Thread() {{ @Override public void run() {{ part(() -> {}).run(); }} }}"),
    "parallel": _parallel('new Thread(each, "same")'),
    "join_limit": join_limit,
}
POOLS: dict[str, Way] = {
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
STAGES: dict[str, Way] = {
    "completed": _completed("new CompletableFuture<>()"),
    "completed_own": _completed(_UNASKED_FUTURE),
    "stage_at_once": stage_at_once,
    "then_accept": _stage("{c}.thenAccept(it -> {f})"),
    "then_apply": _stage("{c}.thenApply(it -> {{ {f}; return 1; }})"),
    "then_run": _stage("{c}.thenRun(() -> {f})"),
    "then_compose": _stage("{c}.thenCompose(it -> {{ {f}; return CompletableFuture.completedFuture(1); }})"),
    "when_complete": _stage("{c}.whenComplete((it, error) -> {f})"),
    "handle": _stage("{c}.handle((it, error) -> {{ {f}; return 1; }})"),
    "exceptionally": _stage("{c}.exceptionally(it -> {{ {f}; return 1; }})", "completeExceptionally(new Exception())"),
    "exceptionally_compose": _stage(
        "{c}.exceptionallyCompose(it -> {{ {f}; return CompletableFuture.completedFuture(1); }})",
        "completeExceptionally(new Exception())",
    ),
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
VIRTUAL: dict[str, Way] = {
    "virtual": _thread("Thread.ofVirtual().unstarted(part(() -> {}))"),
    "virtual_parallel": _parallel("Thread.ofVirtual().unstarted(each)"),
    "virtual_pool": virtual_pool,
    "join_duration": join_duration,
    "closed": _closed("Executors.newFixedThreadPool(1)"),
    "closed_own": _closed(_UNASKED_POOL),
}
_SCHEDULING = "new ForkJoinPool(2)"
_SCHEDULE_FORKED = _SCHEDULE.replace("Executors.newScheduledThreadPool(1)", _SCHEDULING)
FORKED: dict[str, Way] = {
    "fork_join_rate": _timed(_SCHEDULE_FORKED.format("scheduleAtFixedRate"), times=2),
    "fork_join_schedule": _submitted(
        _SCHEDULING, "{pool}.schedule(part({f}), 3, TimeUnit.MILLISECONDS).get();", "ScheduledExecutorService"
    ),
}
