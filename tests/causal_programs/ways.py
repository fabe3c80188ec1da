"""All kinds of hand-over in generated Python programs, and the causes and waits that each one implies.

Programs import all modules before they start a thread: some programs fork in one thread while others run. A child that is
forked while another thread imports a module would hang when it imports that module itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from generator import Body, Language, Program, Way

HEAD = '''
import asyncio, concurrent.futures, contextlib, multiprocessing, os, queue, socket, subprocess, sys, threading, time
import concurrent.futures.process, concurrent.futures.thread, encodings.idna
import multiprocessing.pool, multiprocessing.popen_fork, multiprocessing.synchronize

fork = multiprocessing.get_context("fork")
HERE = os.getcwd()


def mark(name):
    try:
        os.stat(os.path.join(HERE, "mark-" + name))
    except FileNotFoundError:
        pass


def later():
    """Give another thread time to begin waiting."""
    time.sleep(0.02)

'''


def fill(program: Program, body: Body, is_async: bool) -> None:
    program.fill(body, ASYNC if is_async else SYNC)


def _child(program: Program, body: Body, kinds: str, giver: str, *ends: str, before: tuple[str, ...] = ()) -> tuple[str, str]:
    return program.child(body, kinds, giver, *ends, before=before)


def _coroutine(program: Program, body: Body, kinds: str, giver: str, *ends: str) -> tuple[str, str]:
    return program.child(body, kinds, giver, *ends, ways=ASYNC, word="async def")


# --- threads


def thread(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    name, last = _child(program, body, "start", giver)
    body.add(f"t{n} = threading.Thread(target={name})", f"t{n}.start()", f"t{n}.join()")
    program.wait("join", last, "thread.end", giver, "join")


def timer(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    name, last = _child(program, body, "start", giver)
    body.add(f"t{n} = threading.Timer(0.005, {name})", f"t{n}.start()", f"t{n}.join()")
    program.wait("join", last, "thread.end", giver, "join")


def parallel(program: Program, body: Body) -> None:
    """Several threads at the same time."""
    giver, n = body.mark(), program.number()
    children = [_child(program, body, "start", giver) for _ in range(3)]
    names = ", ".join(name for name, _ in children)
    body.add(f"t{n} = [threading.Thread(target=target) for target in ({names})]")
    body.add(f"[t.start() for t in t{n}]", f"[t.join() for t in t{n}]")


def workers(program: Program, body: Body) -> None:
    """Several threads put into one queue, several take out of it."""
    giver, n = body.mark(), program.number()
    worker = program.begin(program.cause("start", giver), 0)
    worker.add(f"while (do := q{n}.get()) is not None:", "    do()")
    names = []
    for _ in range(2):
        producer = program.begin(program.cause("start", giver), 0)
        for _ in range(2):
            name, _ = _child(program, body, "handover", producer.mark())
            producer.add(f"q{n}.put({name})")
        names.append(program.end(producer))
    body.add(f"globals()['q{n}'] = queue.Queue(1)")
    body.add(f"w{n} = [threading.Thread(target={program.end(worker)}) for _ in range(2)]", f"[w.start() for w in w{n}]")
    body.add(f"p{n} = [threading.Thread(target=target) for target in ({', '.join(names)})]", f"[p.start() for p in p{n}]")
    body.add(f"[p.join() for p in p{n}]", f"[q{n}.put(None) for _ in w{n}]", f"[w.join() for w in w{n}]")


def executor(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    name, last = _child(program, body, "handover", giver, before=("later()",))
    body.add(f"with concurrent.futures.ThreadPoolExecutor(1) as p{n}:", f"    p{n}.submit({name}).result()")
    program.wait("result", last, "future.set", giver, "future.wait")


def waited_calls(program: Program, body: Body) -> None:
    """Both calls end the wait for both."""
    _calls(program, body, "concurrent.futures.wait({})", 2)


def waited_call(program: Program, body: Body) -> None:
    """The first finished call ends the wait; the other one has not begun."""
    _calls(program, body, "concurrent.futures.wait({}, None, concurrent.futures.FIRST_COMPLETED)", 1)


def completed_calls(program: Program, body: Body) -> None:
    _calls(program, body, "for _ in concurrent.futures.as_completed({}):\n    pass", 2)


def _calls(program: Program, body: Body, wait: str, ended: int) -> None:
    giver, n = body.mark(), program.number()
    made = [_child(program, body, "handover", giver, before=("later()",)) for _ in range(2)]
    names = ", ".join(name for name, _ in made)
    body.add(f"p{n} = concurrent.futures.ThreadPoolExecutor(1)", f"c{n} = [p{n}.submit(call) for call in ({names})]")
    body.add(*wait.format(f"c{n}").splitlines(), f"p{n}.shutdown()")
    for _, last in made[:ended]:
        program.wait("result", last, "future.set", giver, "future.wait")


def done_callback(program: Program, body: Body) -> None:
    """The call does not end before its callback was added."""
    giver, n = body.mark(), program.number()
    name, _ = program.leaf(program.cause("handover", giver), f"globals()['g{n}'].wait()")
    callback = program.begin(None, 0, "future")
    body.add(
        f"g{n} = globals()['g{n}'] = threading.Event()",
        f"with concurrent.futures.ThreadPoolExecutor(1) as p{n}:",
        f"    d{n} = p{n}.submit({name})",
    )
    giver = body.mark()
    body.lines[-1] = "    " + body.lines[-1]
    callback.cause = program.cause("handover", giver)
    callback.mark()
    body.add(f"    d{n}.add_done_callback({program.end(callback)})", f"    g{n}.set()")


def item(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    worker = program.begin(program.cause("start", giver), 0, "items")
    first = worker.mark()
    worker.add("while True:", "    do = items.get()", "    if do is None:", "        return", "    do()")
    body.add(f"q{n} = queue.Queue()", f"t{n} = threading.Thread(target={program.end(worker)}, args=(q{n},))", f"t{n}.start()")
    body.add("later()")
    giver = body.mark()
    name, _ = _child(program, body, "handover", giver)
    body.add(f"q{n}.put({name})")
    giver2 = body.mark()
    name2, _ = _child(program, body, "handover", giver2)
    body.add(f"q{n}.put({name2})", f"q{n}.put(None)", f"t{n}.join()")
    program.wait("item", giver, "queue.put", first, "queue.get")


def joined_queue(program: Program, body: Body) -> None:
    """Joining a queue waits until all its items are done."""
    n = program.number()
    body.add(f"globals()['q{n}'] = queue.Queue()", f"q{n}.put(1)", f"q{n}.put(2)")
    giver = body.mark()
    name, last = _child(program, body, "start", giver, f"q{n}.task_done()", before=("later()", f"q{n}.task_done()"))
    body.add(f"t{n} = threading.Thread(target={name})", f"t{n}.start()", f"q{n}.join()", f"t{n}.join()")
    program.wait("join", last, "queue.done", giver, "join")


# --- waits of threads


def _started(program: Program, body: Body, *ends: str) -> tuple[str, str]:
    """Start a thread that does something later and then ends a wait; return its name and its last mark."""
    giver, n = body.mark(), program.number()
    name, last = _child(program, body, "start", giver, *ends, before=("later()",))
    body.add(f"t{n} = threading.Thread(target={name})", f"t{n}.start()")
    return f"t{n}", last


def event(program: Program, body: Body) -> None:
    n = program.number()
    body.add(f"globals()['e{n}'] = threading.Event()")
    thread, last = _started(program, body, f"e{n}.set()")
    waiter = body.mark()
    body.add(f"e{n}.wait()", f"{thread}.join()")
    program.wait("set", last, "event.set", waiter, "event.wait")


def condition(program: Program, body: Body) -> None:
    """The function holds the lock until it waits, so that no thread can notify before."""
    n = program.number()
    body.add(f"globals()['c{n}'], globals()['d{n}'] = threading.Condition(), []", f"c{n}.acquire()")
    body.locks += 1
    thread, last = _started(program, body, f"with c{n}:", f"    d{n}.append(1)", f"    c{n}.notify()")
    waiter = body.mark()
    body.add(f"while not d{n}:", f"    c{n}.wait()", f"c{n}.release()", f"{thread}.join()")
    body.locks -= 1
    program.wait("notify", last, "cond.notify", waiter, "cond.wait")


def lock(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    child = program.begin(program.cause("start", giver), 0)
    waiter = child.mark()
    child.add(f"l{n}.acquire()")
    child.locks += 1
    child.mark()
    child.add(f"l{n}.release()")
    child.locks -= 1
    child.mark()
    body.add(f"globals()['l{n}'] = threading.{program.random.choice(('Lock', 'RLock'))}()", f"l{n}.acquire()")
    body.locks += 1
    body.add(f"t{n} = threading.Thread(target={program.end(child)})", f"t{n}.start()", "later()")
    holder = body.mark()
    body.add(f"l{n}.release()", f"t{n}.join()")
    body.locks -= 1
    program.wait("lock", holder, "lock.release", waiter, "lock.acquire")


def stacked(program: Program, body: Body) -> None:
    """A lock that `contextlib` acquires and releases."""
    n = program.number()
    body.add(f"with contextlib.ExitStack() as x{n}:", f"    x{n}.enter_context(threading.Lock())")
    _held_within(body)


def _held_within(body: Body) -> None:
    body.locks += 1
    body.mark()
    body.lines[-1] = "    " + body.lines[-1]
    body.locks -= 1


def semaphore(program: Program, body: Body) -> None:
    n = program.number()
    body.add(f"globals()['s{n}'] = threading.Semaphore(0)")
    thread, last = _started(program, body, f"s{n}.release()")
    waiter = body.mark()
    body.add(f"s{n}.acquire()", f"{thread}.join()")
    program.wait("semaphore", last, "sem.release", waiter, "sem.acquire")


def barrier(program: Program, body: Body) -> None:
    n = program.number()
    body.add(f"globals()['b{n}'] = threading.Barrier(2)")
    thread, last = _started(program, body, f"b{n}.wait()")
    waiter = body.mark()
    body.add(f"b{n}.wait()", f"{thread}.join()")
    program.wait("barrier", last, "barrier.wait", waiter, "barrier.wait")


# --- processes, pipes, files, sockets


def forked(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    name, last = _child(program, body, "start", giver)
    body.add(f"p{n} = os.fork()", f"if p{n} == 0:", "    try:", f"        {name}()", "    finally:", "        os._exit(0)")
    body.add(f"os.waitpid(p{n}, 0)")
    program.wait("child", last, "", giver, "process.wait")


def process(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    name, last = _child(program, body, "start", giver)
    body.add(f"p{n} = fork.Process(target={name})", f"p{n}.start()", f"p{n}.join()")
    program.wait("child", last, "", giver, "process.wait")


def spawned(program: Program, body: Body) -> None:
    giver = body.mark()
    name, last = program.leaf(program.cause("start", giver))
    body.add(f"subprocess.run([sys.executable, __file__, '{name}'], check=True)")
    program.wait("child", last, "", giver, "process.wait")


def process_pool(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    name, _ = _child(program, body, "message handover", giver, before=("later()",))
    body.add(f"with concurrent.futures.ProcessPoolExecutor(1, fork) as p{n}:", f"    p{n}.submit({name}).result()")


def pool(program: Program, body: Body) -> None:
    """Its processes may not start others."""
    giver, n = body.mark(), program.number()
    name, _ = program.leaf(program.cause("message handover", giver))
    body.add(f"with fork.Pool(1) as p{n}:", f"    p{n}.apply({name})")


def process_queue(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    worker = program.begin(program.cause("start", giver), 0, "items")
    worker.mark()
    worker.add("items.get()")
    name = worker.name.partition("(")[0]
    body.add(f"q{n} = fork.Queue()", f"p{n} = fork.Process(target={name}, args=(q{n},))", f"p{n}.start()")
    giver = body.mark()
    worker.cause = program.cause("message handover", giver)
    worker.mark()
    program.end(worker)
    body.add(f"q{n}.put(1)", f"p{n}.join()")


def process_pipe(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    worker = program.begin(program.cause("start", giver), 0, "end")
    worker.mark()
    worker.add("end.recv()")
    name = worker.name.partition("(")[0]
    body.add(f"a{n}, b{n} = fork.Pipe()", f"p{n} = fork.Process(target={name}, args=(b{n},))", f"p{n}.start()")
    giver = body.mark()
    worker.cause = program.cause("message", giver)
    last = worker.mark()
    worker.add("end.send(1)")
    program.end(worker)
    body.add(f"a{n}.send(1)", f"a{n}.recv()")
    body.cause = program.cause("message", last)
    body.mark()
    body.add(f"p{n}.join()")


def pipe(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    reader = program.begin(program.cause("start", giver), body.depth - 1, "end")
    reader.mark()
    reader.add("os.read(end, 10)")
    name = reader.name.partition("(")[0]
    body.add(f"r{n}, w{n} = os.pipe()", f"t{n} = threading.Thread(target={name}, args=(r{n},))", f"t{n}.start()")
    giver = body.mark()
    reader.cause = program.cause("message", giver)
    reader.mark()
    fill(program, reader, is_async=False)
    program.end(reader)
    body.add(f"os.write(w{n}, b'x')", f"t{n}.join()")


def mailbox(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    reader = program.begin(program.cause("start", giver), 0)
    reader.mark()
    reader.add(f"while not os.path.exists('mail{n}'):", "    time.sleep(0.002)")
    reader.add(f"with open('mail{n}') as mail:", "    mail.read()")
    body.add(f"t{n} = threading.Thread(target={reader.name.partition('(')[0]})", f"t{n}.start()")
    body.add(f"with open('mail{n}.tmp', 'w') as mail:", "    mail.write('x')")
    giver = body.mark()
    reader.cause = program.cause("mailbox", giver)
    reader.mark()
    reader.mark()
    program.end(reader)
    body.add(f"os.rename('mail{n}.tmp', 'mail{n}')", f"t{n}.join()")


def tcp(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    server = program.begin(program.cause("start", giver), body.depth - 1, "listening")
    server.mark()
    server.add("one, _ = listening.accept()", "one.recv(10)")
    name = server.name.partition("(")[0]
    body.add(f"s{n} = socket.create_server(('127.0.0.1', 0))")
    body.add(f"t{n} = threading.Thread(target={name}, args=(s{n},))", f"t{n}.start()")
    body.add(f"c{n} = socket.create_connection(s{n}.getsockname())")
    giver = body.mark()
    server.cause = program.cause("message", giver)
    server.mark()
    fill(program, server, is_async=False)
    last = server.mark()
    server.add("one.sendall(b'yes')", "one.close()")
    program.end(server)
    body.add(f"c{n}.sendall(b'x')", f"c{n}.recv(10)")
    body.cause = program.cause("message", last)
    body.mark()
    body.add(f"t{n}.join()", f"c{n}.close()", f"s{n}.close()")


def polled(program: Program, body: Body) -> None:
    """A thread that handles messages of a selector. Between two messages, no message is the cause of its operations.

    It receives one message at a time, even if it is late and both have arrived: otherwise the selector would hang.
    """
    giver, n = body.mark(), program.number()
    server = program.begin(program.cause("start", giver), 0, "end")
    server.mark()
    server.add("import selectors", "ready = selectors.DefaultSelector()", "ready.register(end, selectors.EVENT_READ)")
    body.add(f"a{n}, b{n} = socket.socketpair()")
    body.add(f"t{n} = threading.Thread(target={server.name.partition('(')[0]}, args=(b{n},))", f"t{n}.start()")
    for _ in range(2):
        server.add("ready.select()")
        server.cause = program.cause("start", giver)
        server.mark()
        server.add("end.recv(1)")
        sender = body.mark()
        server.cause = program.cause("message", sender)
        server.mark()
        body.add(f"a{n}.sendall(b'x')", "later()")
    program.end(server)
    body.add(f"t{n}.join()", f"a{n}.close()", f"b{n}.close()")


def datagram(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    reader = program.begin(program.cause("start", giver), body.depth - 1, "end")
    reader.mark()
    reader.add("end.recvfrom(10)")
    body.add(f"s{n} = socket.socket(type=socket.SOCK_DGRAM)", f"s{n}.bind(('127.0.0.1', 0))")
    body.add(f"t{n} = threading.Thread(target={reader.name.partition('(')[0]}, args=(s{n},))", f"t{n}.start()")
    body.add(f"c{n} = socket.socket(type=socket.SOCK_DGRAM)", f"c{n}.connect(s{n}.getsockname())")
    giver = body.mark()
    reader.cause = program.cause("message", giver)
    reader.mark()
    fill(program, reader, is_async=False)
    program.end(reader)
    body.add(f"c{n}.send(b'x')", f"t{n}.join()", f"c{n}.close()", f"s{n}.close()")


def run(program: Program, body: Body) -> None:
    giver = body.mark()
    name, _ = _coroutine(program, body, "start", giver)
    body.add(f"asyncio.run({name}())")


_CALLED: tuple[Way, ...] = (waited_calls, waited_call, completed_calls)
_THREADS: tuple[Way, ...] = (thread, timer, parallel, workers, executor, *_CALLED, done_callback, item, joined_queue)
_WAITS: tuple[Way, ...] = (event, condition, lock, stacked, semaphore, barrier)
_PROCESSES: tuple[Way, ...] = (forked, process, spawned, process_pool, pool, process_queue, process_pipe)
_OTHERS: tuple[Way, ...] = (pipe, mailbox, tcp, polled, datagram, run)
SYNC: dict[str, Way] = {way.__name__: way for way in (*_THREADS, *_WAITS, *_PROCESSES, *_OTHERS)}


# --- tasks


def task(program: Program, body: Body) -> None:
    _one(program, body, "await asyncio.create_task({}())")


def _one(program: Program, body: Body, *lines: str) -> None:
    """One task, which ends the wait for it."""
    giver = body.mark()
    name, last = _coroutine(program, body, "start", giver, "await asyncio.sleep(0.005)")
    body.add(*(line.format(name) for line in lines))
    program.wait("result", last, "future.set", giver, "future.wait")


def gather(program: Program, body: Body) -> None:
    _several(program, body, "await asyncio.gather({}, {})")


def gather_nested(program: Program, body: Body) -> None:
    _several(program, body, "await asyncio.gather(asyncio.gather({}), asyncio.gather({}))")


def shielded(program: Program, body: Body) -> None:
    lines = "x = asyncio.create_task({})", "await asyncio.gather(asyncio.shield(x), asyncio.create_task({}))"
    _several(program, body, *lines)


def shielded_limited(program: Program, body: Body) -> None:
    _one(program, body, "x = asyncio.create_task({}())", "await asyncio.wait_for(asyncio.shield(x), 99)")


def gather_limited(program: Program, body: Body) -> None:
    _several(program, body, "await asyncio.wait_for(asyncio.gather({}, {}), 99)")


def waited(program: Program, body: Body) -> None:
    _several(program, body, "await asyncio.wait([asyncio.create_task({}), asyncio.create_task({})])")


def group(program: Program, body: Body) -> None:
    """Uses `gather` before Python 3.11, which has no groups."""
    lines = "async with asyncio.TaskGroup() as g:", "    g.create_task({})", "    g.create_task({})"
    _several(program, body, *(lines if sys.version_info >= (3, 11) else ("await asyncio.gather({}, {})",)))


def _several(program: Program, body: Body, *lines: str) -> None:
    """Two tasks: the later one ends the wait for both."""
    giver = body.mark()
    made = [_coroutine(program, body, "start", giver, f"await asyncio.sleep(0.0{n}5)") for n in range(2)]
    calls = iter([f"{name}()" for name, _ in made])
    body.add(*(line.format(*(next(calls) for _ in range(line.count("{}")))) for line in lines))
    for _, last in made:
        program.wait("result", last, "future.set", giver, "future.wait")


def completed(program: Program, body: Body) -> None:
    _several(program, body, "for f in asyncio.as_completed([{}, {}]):", "    await f")


def waited_first(program: Program, body: Body) -> None:
    """The first task ends the wait; the other one continues."""
    giver, n = body.mark(), program.number()
    name, last = _coroutine(program, body, "start", giver, "await asyncio.sleep(0.005)")
    body.add(f"u{n} = asyncio.get_running_loop().create_future()")
    body.add(f"await asyncio.wait([u{n}, asyncio.create_task({name}())], return_when=asyncio.FIRST_COMPLETED)", f"u{n}.cancel()")
    program.wait("result", last, "future.set", giver, "future.wait")


def joined_items(program: Program, body: Body) -> None:
    made = "{x} = asyncio.Queue()\n{x}.put_nowait(1)\n{x}.put_nowait(2)\n{x}.task_done()"
    _awaited(program, body, made, "await x.join()", ("{x}.task_done()",), ("join", "queue.done", "join"))


def _callback(program: Program, body: Body, call: str) -> None:
    giver, n = body.mark(), program.number()
    name, last = program.leaf(program.cause("handover", giver), f"globals()['u{n}'].set_result(1)")
    body.add(f"u{n} = globals()['u{n}'] = asyncio.get_running_loop().create_future()")
    body.add(f"asyncio.get_running_loop().{call}{name})", f"await u{n}")
    program.wait("result", last, "future.set", giver, "future.wait")


def soon(program: Program, body: Body) -> None:
    _callback(program, body, "call_soon(")


def later(program: Program, body: Body) -> None:
    _callback(program, body, "call_later(0.005, ")


def threadsafe(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    other = program.begin(program.cause("handover", giver), 0, "loop, future")
    inner = other.mark()
    name, _ = program.leaf(program.cause("handover", inner), f"globals()['u{n}'].set_result(1)")
    other.add(f"loop.call_soon_threadsafe({name})")
    body.add("loop = asyncio.get_running_loop()", f"u{n} = globals()['u{n}'] = loop.create_future()")
    body.add(f"await loop.run_in_executor(None, {program.end(other)}, loop, u{n})", f"await u{n}")


def future_callback(program: Program, body: Body) -> None:
    giver, n = body.mark(), program.number()
    callback = program.begin(program.cause("handover", giver), 0, "future")
    callback.mark()
    body.add(f"u{n} = asyncio.get_running_loop().create_future()", f"u{n}.add_done_callback({program.end(callback)})")
    body.mark()
    body.add(f"u{n}.set_result(1)", "await asyncio.sleep(0)")


def in_executor(program: Program, body: Body) -> None:
    giver = body.mark()
    name, _ = program.leaf(program.cause("handover", giver))
    body.add(f"await asyncio.get_running_loop().run_in_executor(None, {name})")


def to_thread(program: Program, body: Body) -> None:
    giver = body.mark()
    name, _ = program.leaf(program.cause("handover", giver))
    body.add(f"await asyncio.to_thread({name})")


def task_item(program: Program, body: Body) -> None:
    _item(program, body, "await items.get()")


def task_item_gathered(program: Program, body: Body) -> None:
    _item(program, body, "await asyncio.gather(items.get())")


def _item(program: Program, body: Body, get: str) -> None:
    giver, n = body.mark(), program.number()
    worker = program.begin(program.cause("start", giver), body.depth - 1, "items")
    first = worker.mark()
    worker.add(get)
    name = worker.name.partition("(")[0]
    body.add(f"q{n} = asyncio.Queue()", f"t{n} = asyncio.create_task({name}(q{n}))", "await asyncio.sleep(0.005)")
    giver = body.mark()
    worker.cause = program.cause("handover", giver)
    worker.mark()
    fill(program, worker, is_async=True)
    worker.mark()
    program.end(worker, "async def")
    body.add(f"await q{n}.put(1)", f"await t{n}")
    program.wait("item", giver, "queue.put", first, "queue.get")


def limited_item(program: Program, body: Body) -> None:
    """A task waits for an item with a time limit. A timeout ends the extent of the item before."""
    started, n = body.mark(), program.number()
    worker = program.begin(program.cause("start", started), body.depth - 1, "items")
    worker.mark()
    worker.add("await asyncio.wait_for(items.get(), 99)")
    name = worker.name.partition("(")[0]
    body.add(f"q{n} = asyncio.Queue()", f"t{n} = asyncio.create_task({name}(q{n}))", "await asyncio.sleep(0.005)")
    worker.cause = program.cause("handover", body.mark())
    worker.mark()
    fill(program, worker, is_async=True)
    worker.mark()
    worker.add("with contextlib.suppress(asyncio.TimeoutError):", "    await asyncio.wait_for(items.get(), 0.005)")
    worker.cause = program.cause("start", started)
    worker.mark()
    program.end(worker, "async def")
    body.add(f"await q{n}.put(1)", f"await t{n}")


_Names = tuple[str, str, str]


def _awaited(
    program: Program, body: Body, made: str, wait: str, release: tuple[str, ...], names: _Names, locks: int = 0, after: str = ""
) -> None:
    """A task waits for a release by the function, which holds `locks` locks. `after` is the line with which the task itself
    releases the lock."""
    giver, n = body.mark(), program.number()
    worker = program.begin(program.cause("start", giver), 0, "x")
    waiter = worker.mark()
    worker.add(*wait.splitlines())
    worker.locks = 1 if after else 0
    worker.mark()
    worker.locks = 0
    worker.add(*after.splitlines())
    worker.mark()
    name = program.end(worker, "async def")
    body.add(*(line.format(x=f"x{n}") for line in made.splitlines()))
    body.add(f"t{n} = asyncio.create_task({name}(x{n}))", "await asyncio.sleep(0.005)")
    body.locks += locks
    last = body.mark()
    body.locks -= locks
    body.add(*(line.format(x=f"x{n}") for line in release), f"await t{n}")
    kind, release_op, wait_op = names
    program.wait(kind, last, release_op, waiter, wait_op)


def task_event(program: Program, body: Body) -> None:
    _awaited(program, body, "{x} = asyncio.Event()", "await x.wait()", ("{x}.set()",), ("set", "event.set", "event.wait"))


def task_lock(program: Program, body: Body) -> None:
    made, wait = "{x} = asyncio.Lock()\nawait {x}.acquire()", "async with x:\n    pass"
    _awaited(program, body, made, wait, ("{x}.release()",), ("lock", "lock.release", "lock.acquire"), locks=1)


def task_semaphore(program: Program, body: Body) -> None:
    names = "semaphore", "sem.release", "sem.acquire"
    _awaited(program, body, "{x} = asyncio.Semaphore(0)", "await x.acquire()", ("{x}.release()",), names)


def task_condition(program: Program, body: Body) -> None:
    names = "notify", "cond.notify", "cond.wait"
    release = "async with {x}:", "    {x}.notify()"
    _awaited(program, body, "{x} = asyncio.Condition()", "async with x:\n    await x.wait()", release, names)


def task_event_limited(program: Program, body: Body) -> None:
    wait, names = "await asyncio.wait_for(x.wait(), 99)", ("set", "event.set", "event.wait")
    _awaited(program, body, "{x} = asyncio.Event()", wait, ("{x}.set()",), names)


def task_event_gathered(program: Program, body: Body) -> None:
    wait, names = "await asyncio.gather(x.wait())", ("set", "event.set", "event.wait")
    _awaited(program, body, "{x} = asyncio.Event()", wait, ("{x}.set()",), names)


def task_future_limited(program: Program, body: Body) -> None:
    made, wait = "{x} = asyncio.get_running_loop().create_future()", "await asyncio.wait_for(x, 99)"
    _awaited(program, body, made, wait, ("{x}.set_result(1)",), ("result", "future.set", "future.wait"))


def task_lock_limited(program: Program, body: Body) -> None:
    made, wait = "{x} = asyncio.Lock()\nawait {x}.acquire()", "await asyncio.wait_for(x.acquire(), 99)"
    names = "lock", "lock.release", "lock.acquire"
    _awaited(program, body, made, wait, ("{x}.release()",), names, locks=1, after="x.release()")


def task_semaphore_limited(program: Program, body: Body) -> None:
    made, wait = "{x} = asyncio.Semaphore(1)\nawait {x}.acquire()", "await asyncio.wait_for(x.acquire(), 99)"
    names = "semaphore", "sem.release", "sem.acquire"
    _awaited(program, body, made, wait, ("{x}.release()",), names, locks=1, after="x.release()")


def task_condition_limited(program: Program, body: Body) -> None:
    wait = "await x.acquire()\nawait asyncio.wait_for(x.wait(), 99)"
    release = "async with {x}:", "    {x}.notify()"
    names = "notify", "cond.notify", "cond.wait"
    _awaited(program, body, "{x} = asyncio.Condition()", wait, release, names, after="x.release()")


def stacked_async(program: Program, body: Body) -> None:
    n = program.number()
    body.add(f"async with contextlib.AsyncExitStack() as x{n}:", f"    await x{n}.enter_async_context(asyncio.Lock())")
    _held_within(body)


def limited(program: Program, body: Body) -> None:
    body.add("async with asyncio.timeout(99) if hasattr(asyncio, 'timeout') else contextlib.AsyncExitStack():")
    body.limited = True
    body.mark()
    body.lines[-1] = "    " + body.lines[-1]
    body.limited = False


def stream(program: Program, body: Body) -> None:
    _stream(program, body, "{}")


def limited_stream(program: Program, body: Body) -> None:
    """Before Python 3.12 `wait_for` reads in a task of its own."""
    _stream(program, body, "asyncio.wait_for({}, 99)")


def twice_limited_stream(program: Program, body: Body) -> None:
    waits = program.begin(None, 0, "coming")
    waits.add("return await asyncio.wait_for(coming, 98)")
    _stream(program, body, f"asyncio.wait_for({program.end(waits, 'async def')}({{}}), 99)")


def joined_stream(program: Program, body: Body) -> None:
    """The reader is a task of its own, however the function waits for it."""
    handler, n = program.begin(None, 0, "reader, writer"), program.number()
    handler.add("await reader.readexactly(1)")
    name = handler.name.partition("(")[0]
    body.add(f"s{n} = await asyncio.start_server({name}, '127.0.0.1', 0)")
    body.add(f"r{n}, w{n} = await asyncio.open_connection(*s{n}.sockets[0].getsockname())")
    handler.cause = program.cause("message", body.mark())
    handler.mark()
    handler.add("writer.write(b'yz')", "await writer.drain()", "writer.close()")
    program.end(handler, "async def")
    body.add(f"w{n}.write(b'x')", f"await asyncio.create_task(r{n}.readexactly(1))")
    body.mark()
    body.add(f"await asyncio.wait_for(asyncio.ensure_future(r{n}.readexactly(1)), 99)")
    body.mark()
    body.add(f"w{n}.close()", f"s{n}.close()")


def _stream(program: Program, body: Body, reading: str) -> None:
    n = program.number()
    handler = program.begin(None, body.depth - 1, "reader, writer")
    handler.add(f"await {reading.format('reader.readexactly(1)')}")
    name = handler.name.partition("(")[0]
    body.add(f"s{n} = await asyncio.start_server({name}, '127.0.0.1', 0)")
    body.add(f"r{n}, w{n} = await asyncio.open_connection(*s{n}.sockets[0].getsockname())")
    giver = body.mark()
    handler.cause = program.cause("message", giver)
    handler.mark()
    fill(program, handler, is_async=True)
    last = handler.mark()
    handler.add("writer.write(b'y')", "await writer.drain()", "writer.close()")
    program.end(handler, "async def")
    body.add(f"w{n}.write(b'x')", f"await {reading.format(f'r{n}.readexactly(1)')}")
    body.cause = program.cause("message", last)
    body.mark()
    body.add(f"w{n}.close()", f"s{n}.close()")


def protocol(program: Program, body: Body) -> None:
    """The event loop itself receives, and calls a function of the program."""
    n = program.number()
    handler = program.begin(None, 0, "self, data")
    body.add(f"k{n} = type('K{n}', (asyncio.Protocol,), dict(data_received={handler.name.partition('(')[0]}))")
    body.add(f"k{n}.connection_made = lambda self, transport: setattr(self, 'transport', transport)")
    body.add(f"s{n} = await asyncio.get_running_loop().create_server(k{n}, '127.0.0.1', 0)")
    body.add(f"r{n}, w{n} = await asyncio.open_connection(*s{n}.sockets[0].getsockname())")
    giver = body.mark()
    handler.cause = program.cause("message", giver)
    handler.mark()
    last = handler.mark()
    handler.add("self.transport.write(b'y')")
    program.end(handler)
    body.add(f"w{n}.write(b'x')", f"await r{n}.readexactly(1)")
    body.cause = program.cause("message", last)
    body.mark()
    body.add(f"w{n}.close()", f"s{n}.close()")


def reader(program: Program, body: Body) -> None:
    """A callback for a descriptor."""
    n = program.number()
    body.add(f"r{n}, e{n} = os.pipe()", f"u{n} = globals()['u{n}'] = asyncio.get_running_loop().create_future()")
    callback = program.begin(None, 0, "end")
    callback.add("asyncio.get_running_loop().remove_reader(end)", "os.read(end, 10)")
    body.add(f"asyncio.get_running_loop().add_reader(r{n}, {callback.name.partition('(')[0]}, r{n})")
    giver = body.mark()
    callback.cause = program.cause("message", giver)
    last = callback.mark()
    callback.add(f"u{n}.set_result(1)")
    program.end(callback)
    body.add(f"os.write(e{n}, b'x')", f"await u{n}", f"os.close(r{n})", f"os.close(e{n})")
    program.wait("result", last, "future.set", giver, "future.wait")


_SEVERAL: tuple[Way, ...] = (
    gather, gather_nested, gather_limited, shielded, shielded_limited, waited, waited_first, group, completed,
)  # fmt: skip
_CALLS: tuple[Way, ...] = (task, *_SEVERAL, soon, later, threadsafe, future_callback, in_executor, to_thread, task_item)
_AWAITED: tuple[Way, ...] = (joined_items, task_event, task_lock, task_semaphore, task_condition)
_STREAMS = (stream, limited_stream, twice_limited_stream, joined_stream)
_DRIVEN: tuple[Way, ...] = (
    task_event_limited, task_event_gathered, task_future_limited, task_lock_limited, task_semaphore_limited,
    task_condition_limited, limited_item, task_item_gathered,
)  # fmt: skip
ASYNC: dict[str, Way] = {
    way.__name__: way
    for way in (*_CALLS, *_AWAITED, *_DRIVEN, stacked_async, limited, *_STREAMS, protocol, reader)
}


# --- the language


def _function(word: str, name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{word} {name}:", *(f"    {line}" for line in lines), "", ""])


def _main(name: str) -> str:
    return f'if __name__ == "__main__":\n    globals()[sys.argv[1] if len(sys.argv) > 1 else "{name}"]()\n'


def _tasks(program: Program, main: Body, names: Sequence[str]) -> None:
    giver = main.mark()
    program.ways.append("run")
    later = program.begin(program.cause("start", giver), 0)
    later.mark()
    for name in names:
        if name in ASYNC:
            program.use(later, ASYNC, name)
    main.add(f"asyncio.run({program.end(later, 'async def')}())")


PYTHON = Language(
    head=HEAD, mark='mark("{}")', word="def", function=_function, main=_main, ways=SYNC, favourites=("run",) * 5, others=_tasks
)
