"""Does the result of one operation decide whether another one is executed?"""

from __future__ import annotations

from pathlib import Path

import pytest
from asked_sources import Asked, site_of
from tables import for_each

from undermine.program import Program
from undermine.program.dependence import Dependence, Unknown, Why

ROOT = Path(__file__).resolve().parents[2]


def asked(body: str) -> Asked:
    return Asked("import os, sys\nfrom contextlib import suppress\n" + body)


def answer(body: str, first: tuple[str, ...], second: tuple[str, ...]) -> Why | Unknown | None:
    it = asked(body)
    return it.dependence.controls(it.stack(*first), it.stack(*second))


IN_ONE_FUNCTION = [
    """
def f(p):
    if check(p):
        use(p)
""",
    """
def f(p):
    ok = check(p)
    if not ok:
        return
    use(p)
""",
    """
def f(p):
    size, _ = check(p)
    if size < 1:
        raise ValueError
    use(p)
""",
    """
def f(files):
    for p in files:
        if not check(p):
            continue
        use(p)
        break
""",
    """
def f(self, p):
    self.state = check(p)
    while self.state is None:
        p = next(p)
    use(p)
""",
    """
def f(p):
    left = 3
    left -= check(p)
    assert left
    use(p)
""",
    """
def f(p):
    found = [each for each in check(p) if each]
    return use(p) if found else None
""",
    """
def f(p):
    return check(p) and use(p)
""",
    """
def f(p):
    if (head := check(p)) is not None and head.valid():
        use(p)
""",
    """
def f(p):
    match check(p):
        case {"kind": kind} if kind == "log":
            use(p)
""",
    """
def f(p):
    match check(p):
        case [first, *rest]:
            kind = first
        case _:
            kind = None
    if kind:
        use(p)
""",
    """
def f(p):
    try:
        check(p)
    except FileNotFoundError:
        return None
    return use(p)
""",
    """
def f(p):
    try:
        check(p)
    except FileNotFoundError:
        use(p)
""",
    """
def f(p, parse):
    data = check(p)
    try:
        parse(data)
    except ValueError:
        return None
    return use(p)
""",
    """
def f(p):
    found = False
    with suppress(FileNotFoundError):
        check(p)
        found = True
    if found:
        use(p)
""",
    """
def f(p, lock):
    with lock:
        if not check(p):
            return
    use(p)
""",
    """
def f(p, lock):
    try:
        if not check(p):
            raise KeyError(p)
        use(p)
    finally:
        lock.release()
""",
    """
def f(p):
    valid = False
    if check(p):
        valid = True
    if valid:
        use(p)
""",
    """
def f(p):
    wanted = []
    wanted.append(check(p))
    if any(wanted):
        use(p)
""",
    """
def f(p):
    seen = {}
    seen[p] = check(p)
    if seen[p]:
        use(p)
""",
    """
def f(p):
    with check(p) as snapshot:
        pass
    if snapshot:
        use(p)
""",
    """
def f(p):
    if not check(p):
        sys.exit(1)
    use(p)
""",
    """
def stop(why):
    print(why)
    raise SystemExit(why)

def f(p):
    if not check(p):
        stop(p)
    use(p)
""",
    """
async def f(p):
    if not await check(p):
        return
    use(p)
""",
    """
def f(files):
    return [use(p) for p in files if check(p)]
""",
    """
def f(p):
    while True:
        try:
            check(p)
        except OSError:
            continue
        use(p)
        return
""",
    """
def f(p):
    while True:
        if check(p):
            if p:
                use(p)
""",
    """
def verify(data):
    if not data:
        raise ValueError(data)

def f(p):
    data = check(p)
    verify(data)
    use(p)
""",
]
APART = [
    """
def f(p):
    try:
        check(p)
        use(p)
    except OSError:
        print(p)
""",
    """
def f(p):
    with suppress(FileNotFoundError):
        check(p)
        use(p)
""",
    """
def f(p):
    check(p)
    use(p)
""",
    """
def f(p):
    size = check(p)
    if p:
        use(p)
""",
    """
def f(p):
    size = check(p)
    size = 3
    if size:
        use(p)
""",
    """
def f(p):
    if check(p):
        print("there")
    use(p)
""",
    """
def f(p):
    use(p)
    if not check(p):
        return
""",
    """
def f(p):
    try:
        check(p)
    except OSError:
        pass
    use(p)
""",
    """
def f(p):
    try:
        if not check(p):
            raise KeyError(p)
    finally:
        use(p)
""",
    """
def f(p, lock):
    with lock:
        if not check(p):
            print(p)
    use(p)
""",
    """
def f(p):
    use(p)(check(p))
""",
    """
def f(self, p):
    self.size = check(p)
    if self.kind:
        use(p)
""",
    """
def f(p):
    sizes = {}
    sizes[p] = check(p)
    sizes = {}
    if sizes:
        use(p)
""",
    """
def f(p):
    for line in check(p):
        print(line)
    use(p)
""",
    """
def f(files):
    return [check(p) for p in files if use(p)]
""",
    """
def note(data):
    if not data:
        print(data)

def f(p):
    note(check(p))
    use(p)
""",
    """
def f(p):
    try:
        if not check(p):
            raise KeyError(p)
    except LookupError:
        print(p)
    use(p)
""",
]


@for_each("body", IN_ONE_FUNCTION)
def test_the_result_decides_in_the_same_function(body: str) -> None:
    assert isinstance(answer(body, ("check(p)",), ("use(p)",)), Why)


@for_each("body", APART)
def test_the_result_decides_nothing(body: str) -> None:
    assert answer(body, ("check(p)",), ("use(p)",)) is None


DEEP = [
    """
def valid(p):
    data = check(p)
    return len(data) > 3

def f(p):
    if valid(p):
        use(p)
""",
    """
def valid(p):
    if not check(p):
        return False
    return True

def f(p):
    ok = valid(p)
    if not ok:
        return
    use(p)
""",
    """
def valid(p):
    if not check(p):
        raise ValueError(p)

def f(p):
    valid(p)
    use(p)
""",
    """
def valid(p):
    check(p)

def f(p):
    try:
        valid(p)
    except OSError:
        return
    use(p)
""",
    """
def valid(p):
    for line in check(p):
        yield line

def f(p):
    for line in valid(p):
        use(p)
""",
    """
def valid(p):
    assert check(p)

def f(p):
    try:
        valid(p)
    except AssertionError:
        return
    use(p)
""",
]
SHALLOW = [
    """
def valid(p):
    check(p)
    return True

def f(p):
    if valid(p):
        use(p)
""",
    """
def valid(p):
    if check(p):
        print("fine")

def f(p):
    if valid(p):
        use(p)
""",
    """
def valid(p):
    try:
        check(p)
    except OSError:
        pass

def f(p):
    try:
        valid(p)
    except OSError:
        return
    use(p)
""",
    """
def valid(p):
    if not check(p):
        raise ValueError(p)

def f(p):
    try:
        valid(p)
    except Exception:
        print(p)
    use(p)
""",
]


@for_each("body", DEEP)
def test_the_result_is_followed_up_the_stack(body: str) -> None:
    assert isinstance(answer(body, ("check(p)", "valid(p)"), ("use(p)",)), Why)


@for_each("body", SHALLOW)
def test_a_result_that_no_caller_sees_decides_nothing(body: str) -> None:
    assert answer(body, ("check(p)", "valid(p)"), ("use(p)",)) is None


OBJECTS = """
class Store:
    def load(self, p):
        self.head = check(p)

    def size(self, p):
        self.bytes = len(p)

    def read(self, p, head):
        if head:
            return use(p)

    def read_own(self, p):
        if self.head:
            return use(p)

    def plain(self, p):
        return use(p)

    def by_attribute(self, p):
        self.load(p)
        if self.head:
            self.plain(p)

    def by_argument(self, p):
        self.load(p)
        self.read(p, self.head)

    def by_object(self, p):
        self.load(p)
        self.read_own(p)

    def apart(self, p):
        self.load(p)
        if self.bytes:
            self.plain(p)

    def other_argument(self, p):
        self.load(p)
        self.read(p, self.bytes)
"""


@for_each(
    ("around", "call", "depends"),
    [
        ("by_attribute", "plain: self.plain(p)", True),
        ("by_argument", "read: self.read(p, self.head)", True),
        ("by_object", "read_own: self.read_own(p)", True),
        ("apart", "plain: self.plain(p)", False),
        ("other_argument", "read: self.read(p, self.bytes)", False),
    ],
)
def test_attributes_and_arguments_carry_the_result(around: str, call: str, depends: bool) -> None:
    it = asked(OBJECTS)
    method, _, text = call.partition(": ")
    first = it.stack("Store.load: check(p)", f"Store.{around}: self.load(p)")
    second = it.stack(f"Store.{method}: use(p)", f"Store.{around}: {text}")
    assert isinstance(it.dependence.controls(first, second), Why) == depends


def test_both_operations_may_lie_below_outer_calls_and_in_comprehensions() -> None:
    it = asked("""
def valid(p):
    return check(p)

def f(files):
    return [use(p) for p in files if valid(p)]

def main(files):
    f(files)
""")
    first, second = it.stack("check(p)", "valid(p)"), it.stack("use(p)")
    outer = ("m:f#0", "m:main#0")
    found = it.dependence.controls((*first, *outer), (*second, *outer))
    assert isinstance(found, Why)
    assert [line.text for line in found.lines] == [
        "return check(p)",
        "return [use(p) for p in files if valid(p)]",
    ]


def test_operations_of_different_calls_do_not_check_each_other() -> None:
    it = asked("""
def f(p):
    if check(p):
        use(p)

def g(p):
    f(p)
    h(p)

def h(p):
    f(p)
""")
    first, second = it.stack("check(p)", "g: f(p)"), it.stack("use(p)", "h: f(p)")
    assert it.dependence.controls(first, second) is None
    assert it.dependence.controls(it.stack("check(p)"), it.stack("check(p)")) is None
    assert isinstance(it.dependence.controls(first, it.stack("use(p)", "g: f(p)")), Why)


def test_evidence_leads_from_the_first_operation_over_the_test_to_the_second() -> None:
    found = answer(
        """
def valid(p):
    size = check(p)
    return size > 3

def f(p):
    ok = valid(p)
    if not ok:
        return
    use(p)
""",
        ("check(p)", "valid(p)"),
        ("use(p)",),
    )
    assert isinstance(found, Why)
    assert [line.text for line in found.lines] == [
        "size = check(p)",
        "return size > 3",
        "ok = valid(p)",
        "if not ok:",
        "use(p)",
    ]
    assert found.lines[0].where.endswith("m.py:5")


def test_missing_source_is_unknown() -> None:
    it = asked("""
def f(p):
    data = valid(p)
    if data:
        use(p)
    show(data)
    show(p)
""")
    second = it.stack("use(p)")
    assert isinstance(it.dependence.controls(("other:check#0", *it.stack("valid(p)")), second), Unknown)
    assert isinstance(it.dependence.controls(it.stack("valid(p)"), ("other:show#0", *it.stack("show(data)"))), Unknown)
    assert it.dependence.controls(it.stack("valid(p)"), ("other:show#0", *it.stack("show(p)"))) is None
    assert it.dependence.controls(("other:a#0",), ("other:b#0",)) is None, "no function is shared"
    assert isinstance(it.dependence.controls(("other:a#0",), ("other:a#1",)), Unknown)


def test_a_stack_that_lacks_outer_frames_is_still_aligned() -> None:
    it = asked("""
def f(p):
    if check(p):
        deep(p)

def deep(p):
    use(p)
""")
    outer = tuple(f"m:main#{number}" for number in range(29))
    first = (*it.stack("check(p)"), *outer)
    second = (*it.stack("use(p)", "deep(p)"), *outer)[:30]
    assert len(first) == len(second) == 30
    assert isinstance(it.dependence.controls(first, second), Why)


# --- reads of the heap, which have the call site of the next call

HEAP = """
class Jobs:
    def ready(self, job):
        if self.state != "open":
            raise KeyError(job)

    def commit(self, job):
        task = self.tasks[job]
        if task.permitted is None:
            self.save(job)
        if job in self.done and self.limit:
            return self.last
        return None

    def handle(self, job):
        self.ready(job)
        return self.commit(job)

    def known(self, job):
        with self.lock:
            if job not in self.tasks:
                return None
        return self.tasks[job]
"""
JOBS = "m:Jobs#1"


def reads(it: Asked, first: tuple[str, str], second: tuple[str, str]) -> Why | Unknown | None:
    """Asks for two reads at a function's call sites, given as `function#ordinal` and place."""
    stacks = [tuple(f"m:Jobs.{loc}" for loc in locs.split()) for locs, _ in (first, second)]
    return it.dependence.controls(stacks[0], stacks[1], first[1], second[1])


@for_each(
    ("first", "second", "depends"),
    [
        (("commit#0", f"{JOBS}.tasks['j'].permitted"), ("commit#0", ""), True),
        (("commit#0", f"{JOBS}.tasks['j']"), ("commit#0", ""), True),
        (("commit#1", f"{JOBS}.done[*]"), ("commit#1", f"{JOBS}.last"), True),
        (("commit#0", f"{JOBS}.tasks['j']"), ("commit#1", f"{JOBS}.last"), False),
        (("commit#1", f"{JOBS}.last"), ("commit#0", ""), False),
        (("ready#0 handle#0", f"{JOBS}.state"), ("commit#0 handle#1", f"{JOBS}.tasks['j']"), True),
        (("commit#0 handle#1", f"{JOBS}.tasks"), ("ready#0 handle#0", f"{JOBS}.state"), False),
        (("known#1", f"{JOBS}.tasks[*]"), ("known#3", f"{JOBS}.tasks['j']"), True),
        (("known#0", f"{JOBS}.lock"), ("known#3", f"{JOBS}.tasks['j']"), False),
    ],
)
def test_reads_of_the_heap(first: tuple[str, str], second: tuple[str, str], depends: bool) -> None:
    found = reads(asked(HEAP), first, second)
    assert not isinstance(found, Unknown)
    assert isinstance(found, Why) == depends


def test_a_read_that_the_source_does_not_have_is_unknown() -> None:
    it = asked(HEAP)
    assert isinstance(reads(it, ("commit#0", f"{JOBS}.other"), ("commit#0", "")), Unknown)
    assert isinstance(reads(it, ("known#1", f"{JOBS}.tasks[*]"), ("known#2", f"{JOBS}.tasks['j']")), Unknown)
    assert isinstance(it.dependence.impact(("m:Jobs.commit#0",), f"{JOBS}.other"), Unknown)
    found = it.dependence.impact(("m:Jobs.ready#0",), f"{JOBS}.state")
    assert not isinstance(found, Unknown)
    assert [impact.kind for impact in found] == ["raise"]


# --- real programs


def test_granary_decides_by_a_promise_whether_it_saves() -> None:
    program = Program.read([ROOT / "examples" / "granary" / "granary"])
    dependence = Dependence(program)
    find = (site_of(program, "Jobs.can_commit: self._find(job, name)"),)
    save = (site_of(program, "Jobs.can_commit: self._save()"),)
    found = dependence.controls(find, save)
    assert isinstance(found, Why)
    assert [line.text for line in found.lines] == [
        "task = self._find(job, name)",
        'if task["permitted"] is None and self._attempt(task, number)["state"] == "running":',
        "self._save()",
    ]
    inside = (site_of(program, "Jobs._find: self._jobs.get(job, {})"), *find)
    assert isinstance(dependence.controls(inside, save), Why), "it raises if there is no such task"
    assert dependence.controls(save, find) is None


PYSYNCOBJ = ROOT / "examples" / "pysyncobj" / "versions" / "0.3.17" / "pysyncobj"


@pytest.mark.skipif(not PYSYNCOBJ.is_dir(), reason="the release isn't there; examples/pysyncobj/setup.py fetches it")
def test_pysyncobj_checks_for_a_snapshot_before_it_loads_one() -> None:
    program = Program.read([PYSYNCOBJ])
    dependence = Dependence(program)
    check = (site_of(program, "SyncObj._onTick: os.path.isfile(self.__conf.fullDumpFile)"),)
    read = (
        site_of(program, "Serializer.deserialize: open(self.__fileName, 'rb')"),
        site_of(program, "SyncObj.__loadDumpFile: self.__serializer.deserialize()"),
    )
    at_start = site_of(program, "SyncObj._onTick: self.__loadDumpFile(clearJournal=False)")
    later = site_of(program, "SyncObj.__onMessageReceived: self.__loadDumpFile(clearJournal=True)")
    assert isinstance(dependence.controls(check, (*read, at_start)), Why)
    assert dependence.controls(check, (*read, later)) is None
    found = dependence.impact((*read, at_start))
    assert not isinstance(found, Unknown)
    assert found[0].text == "logger.exception('failed to load full dump')"
