"""The harm that an unexpected result of an operation may do."""

from __future__ import annotations

from pathlib import Path

from asked_sources import Asked, site_of
from tables import for_each

from undermine.program import Program
from undermine.program.dependence import Dependence, Impact, Unknown

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import asyncio, logging, os, queue, socket, subprocess, sys, threading
log = logging.getLogger("x")
jobs = queue.Queue()
"""


def impacts(body: str, *calls: str) -> tuple[Impact, ...]:
    it = Asked(HEAD + body)
    found = it.dependence.impact(it.stack(*(calls or ("read(p)",))))
    assert not isinstance(found, Unknown)
    return found


def kinds(body: str, *calls: str) -> list[str]:
    return [impact.kind for impact in impacts(body, *calls)]


@for_each(
    ("body", "kind"),
    [
        ("def f(p):\n    if not read(p):\n        raise ValueError\n", "raise"),
        ("def f(p):\n    assert read(p)\n", "raise"),
        ("def f(p):\n    raise ValueError(read(p))\n", "raise"),
        ("def f(p):\n    if read(p):\n        sys.exit(1)\n", "raise"),
        ("def stop():\n    print(1)\n    os._exit(1)\n\ndef f(p):\n    if read(p):\n        stop()\n", "raise"),
        ("def f(p):\n    if read(p):\n        log.error('no')\n", "error"),
        ("def f(p):\n    log.critical('no %s', read(p))\n", "error"),
        ("def f(p):\n    if read(p):\n        log.log(logging.ERROR, 'no')\n", "error"),
        ("def f(p):\n    try:\n        read(p)\n    except OSError:\n        log.exception('no')\n", "error"),
        ("def f(self, p):\n    if read(p):\n        self.logger.fatal('no')\n", "error"),
        ("def f(p):\n    data = read(p)\n    socket.socket().sendall(data)\n", "send"),
        ("def f(p):\n    if read(p):\n        socket.create_connection(p)\n", "send"),
        ("def f(p):\n    threading.Thread(target=print, args=(read(p),)).start()\n", "start"),
        ("def f(self, p):\n    if read(p):\n        self.server.start()\n", "start"),
        ("def f(p):\n    if read(p):\n        subprocess.run(['x'])\n", "start"),
        ("def f(p):\n    jobs.put(read(p))\n", "event"),
        ("def f(p, loop):\n    data = read(p)\n    loop.call_soon(print, data)\n", "event"),
        ("def f(p, pool):\n    if read(p):\n        pool.submit(print)\n", "event"),
        ("async def f(p, g):\n    if await read(p):\n        asyncio.create_task(g())\n", "event"),
        ("def f(p):\n    return read(p)\n", "reply"),
        ("def f(self, p):\n    self.state = read(p)\n", "kept"),
        ("def f(table, p):\n    table[p], size = read(p)\n", "kept"),
        ("def f(p):\n    global state\n    state = read(p)\n", "kept"),
        ("def f(p):\n    if read(p):\n        return 1\n    return 2\n", "reply"),
    ],
)
def test_each_kind_of_impact(body: str, kind: str) -> None:
    assert kind in kinds(body)


@for_each(
    "body",
    [
        "def f(p):\n    read(p)\n    raise ValueError\n",
        "def f(p):\n    data = read(p)\n    log.error('always')\n",
        "def f(p):\n    if read(p):\n        log.info('fine')\n    log.error('always')\n",
        "def f(p, table):\n    if read(p):\n        table.put(1)\n        print(p.start() + 1)\n",
        "def f(p):\n    data = read(p)\n    data = 3\n    socket.socket().sendall(data)\n",
        "def f(p):\n    data = read(p)\n    return 3\n",
        "def f(p, math):\n    if read(p):\n        math.error(p)\n",
        "def f(p):\n    socket.socket().sendall(p)\n    read(p)\n",
        "def f(p):\n    table = {}\n    table[p] = state = read(p)\n    if state:\n        p.seen = True\n",
    ],
)
def test_harmless_results(body: str) -> None:
    assert kinds(body) == []


def test_a_result_does_harm_in_callers_that_it_reaches() -> None:
    body = """
def load(p):
    data = read(p)
    return data or None

def handle(p):
    state = load(p)
    if state is None:
        log.error("no state")
        raise KeyError(p)
    return state
"""
    found = impacts(body, "read(p)", "load(p)")
    assert [(impact.kind, impact.depth) for impact in found] == [("raise", 1), ("error", 1), ("reply", 1)]
    assert [line.text for line in found[0].lines] == [
        "data = read(p)",
        "return data or None",
        "state = load(p)",
        "if state is None:",
        "raise KeyError(p)",
    ]
    assert found[0].where.endswith("m.py:14")
    assert found[0].text == "raise KeyError(p)"


def test_a_result_that_stays_in_its_function_does_no_harm_in_callers() -> None:
    body = """
def load(p):
    if read(p):
        log.info("there")

def handle(p):
    if load(p):
        raise KeyError(p)
"""
    assert kinds(body, "read(p)", "load(p)") == []


def test_only_the_outermost_function_replies() -> None:
    body = """
def load(p):
    return read(p)

def handle(p):
    data = load(p)
    return 3
"""
    assert kinds(body, "read(p)") == ["reply"]
    assert kinds(body, "read(p)", "load(p)") == []


def test_missing_source_is_unknown_unless_an_impact_is_known() -> None:
    it = Asked(HEAD + "def f(p):\n    if read(p):\n        raise KeyError\n\ndef g(p):\n    return read(p, 1)\n")
    assert isinstance(it.dependence.impact(("other:f#0",)), Unknown)
    assert isinstance(it.dependence.impact((*it.stack("read(p, 1)"), "other:f#0")), Unknown)
    found = it.dependence.impact((*it.stack("read(p)"), "other:f#0"))
    assert not isinstance(found, Unknown)
    assert [impact.kind for impact in found] == ["raise"]


def test_missing_source_of_a_caller_that_the_result_does_not_reach_is_not_asked_for() -> None:
    it = Asked(HEAD + "def f(p):\n    try:\n        read(p)\n    except OSError:\n        pass\n")
    assert it.dependence.impact((*it.stack("read(p)"), "other:f#0")) == ()


# --- real programs


def test_granary_keeps_what_it_loads() -> None:
    program = Program.read([ROOT / "examples" / "granary" / "granary"])
    stack = tuple(
        site_of(program, call)
        for call in (
            "read_file: file.read()",
            "load_document: read_file(path)",
            "Jobs.__init__: durable.load_document(self._path)",
        )
    )
    found = Dependence(program).impact(stack)
    assert not isinstance(found, Unknown)
    assert {(impact.kind, impact.text) for impact in found} == {
        ("raise", 'fail_stop(EXIT_DISK, \'disk error: %s is damaged: %s\', pat…'),
        ("kept", "self._jobs: dict[str, dict[str, Task]] = durable.load_document(self._path) or {}"),
    }


def test_granary_refuses_calls_by_what_it_keeps() -> None:
    program = Program.read([ROOT / "examples" / "granary" / "granary"])
    found = Dependence(program).impact((site_of(program, "Jobs._find: self._jobs.get(job, {})"),))
    assert not isinstance(found, Unknown)
    assert next((impact.kind, impact.text) for impact in found) == (
        "raise",
        'raise NotFound(f"no task {name} of {job}")',
    )
