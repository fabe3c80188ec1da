"""Hand-overs of generated Java programs: items of queues, publishers and exchangers."""

from __future__ import annotations

from generator import Body, Program, Way
from java_text import made_pool, start


def _item(made: str, kind: str = "BlockingQueue<Runnable>", get: str = "", items: int = 2) -> Way:
    """Hand items to a thread that waits for them. `items` is 1 for queues that may reorder them."""

    def way(program: Program, body: Body) -> None:
        n = program.number()
        queue, starter = f"{kind} q{n}", body.mark()
        worker = program.begin(program.cause("start", starter), 0, queue)
        first = worker.mark()
        limited = f"q{n}.poll(99, TimeUnit.SECONDS)"
        way_to_get = get.format(q=f"q{n}") or program.random.choice((f"q{n}.take()", limited))
        worker.add(f"for (int i = 0; i < {items}; i++) {{", f"    {way_to_get}.run();", "}")
        body.add(f"{queue} = {made};")
        thread = start(program, body, f"{program.end(worker)}(q{n})")
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
    """Poll a queue that has no blocking operation."""
    n = program.number()
    queue = f"Queue<Runnable> q{n}"
    worker = program.begin(program.cause("start", body.mark()), 0, queue)
    worker.mark()
    worker.add("Runnable item;", f"while ((item = q{n}.poll()) == null) Thread.sleep(2);", "item.run();")
    made = program.random.choice(("ConcurrentLinkedQueue", "ConcurrentLinkedDeque", "LinkedBlockingQueue"))
    body.add(f"{queue} = new {made}<>();")
    thread = start(program, body, f"{program.end(worker)}(q{n})")
    name, _ = program.child(body, "handover", body.mark())
    body.add(f"q{n}.add(part(Program::{name}));", f"{thread}.join();")


def item_limit(program: Program, body: Body) -> None:
    """A poll that times out ends the extent of the item before."""
    n, starter = program.number(), body.mark()
    queue = f"BlockingQueue<Runnable> q{n}"
    worker = program.begin(program.cause("start", starter), 0, queue)
    first = worker.mark()
    worker.add(f"q{n}.poll(99, TimeUnit.SECONDS).run();", f"q{n}.poll(3, TimeUnit.MILLISECONDS);")
    worker.mark()
    body.add(f"{queue} = new LinkedBlockingQueue<>();")
    thread = start(program, body, f"{program.end(worker)}(q{n})")
    giver = body.mark()
    name, _ = program.child(body, "handover", giver)
    body.add(f"q{n}.add(part(Program::{name}));", f"{thread}.join();")
    program.wait("item", giver, "queue.put", first, "queue.get")
    program.limit(first, "queue.get", 99)


def publisher(program: Program, body: Body) -> None:
    """Publish an item while a subscriber still handles the previous one."""
    n = program.number()
    pool = made_pool(program, body, "new ForkJoinPool(2)")
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
    """Drain a queue. It holds only one item, since with several the cause of the later operations would be ambiguous."""
    n = program.number()
    queue = f"BlockingQueue<Runnable> q{n}"
    worker = program.begin(program.cause("start", body.mark()), 0, queue)
    worker.mark()
    worker.add("List<Runnable> all = new ArrayList<>();", f"while (q{n}.drainTo(all) == 0) Thread.sleep(2);", "all.get(0).run();")
    body.add(f"{queue} = new LinkedBlockingQueue<>();")
    thread = start(program, body, f"{program.end(worker)}(q{n})")
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
    takers = [start(program, body, f"{named}(q{n})") for _ in range(2)]
    putters = []
    for _ in range(2):
        producer = program.begin(program.cause("start", giver), 0, queue)
        for _ in range(2):
            name, _ = program.child(body, "handover", producer.mark())
            producer.add(f"q{n}.put(part(Program::{name}));")
        putters.append(start(program, body, f"{program.end(producer)}(q{n})"))
    body.add(*(f"{thread}.join();" for thread in putters), *(f"q{n}.put(STOP);" for _ in takers))
    body.add(*(f"{thread}.join();" for thread in takers))


def room(program: Program, body: Body) -> None:
    """A put waits for room until another thread takes an item."""
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
    thread = start(program, body, f"{program.end(taker)}(q{n})")
    waiter = body.mark()
    body.add(f"q{n}.put(new Object());", f"{thread}.join();")
    program.wait("room", taken, "queue.get", waiter, "queue.put")


def exchange(program: Program, body: Body) -> None:
    """Two threads exchange items."""
    n = program.number()
    meeting = f"Exchanger<Object> x{n}"
    other = program.begin(program.cause("start", body.mark()), 0, meeting)
    other.add("later();")
    theirs = other.mark()
    other.add(f"x{n}.exchange(new Object());")
    body.add(f"{meeting} = new Exchanger<>();")
    thread = start(program, body, f"{other.name.partition('(')[0]}(x{n})")
    mine = body.mark()
    other.cause = program.cause("handover", mine)
    other.mark()
    program.end(other)
    body.add(f"x{n}.exchange(new Object());")
    body.cause = program.cause("handover", theirs)
    body.mark()
    body.add(f"{thread}.join();")
    program.wait("barrier", theirs, "barrier.wait", mine, "barrier.wait")


QUEUES: dict[str, Way] = {
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
