"""Reading variables runs no code of the target, respects its locks, and keeps none of its objects alive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fake_tool import FakeTool
from variable_samples import SEND, samples, variable

HOSTILE = """
    import collections, enum, os, sys
    armed = False
    def called(*args, **options):
        if armed:
            print("called from line", sys._getframe(1).f_lineno, flush=True)
            os._exit(3)
        return NotImplemented
    def refusing(base):
        names = [name for name, value in vars(base).items() if callable(value) and name not in ("__new__", "__init__")]
        skipped = ("__class__", "__getattribute__", "__init_subclass__", "__subclasshook__", "__class_getitem__", "__setattr__")
        def made(name):
            original = getattr(base, name)
            def method(self, *args, **options):
                called()
                return original(self, *args, **options)
            return method
        return {name: made(name) for name in names if name not in skipped}
    class Meta(type):
        def __hash__(cls):
            called()
            return type.__hash__(cls)
        def __eq__(cls, other):
            called()
            return cls is other
        def __getattribute__(cls, name):
            called()
            return type.__getattribute__(cls, name)
        def __instancecheck__(cls, other):
            called()
            return False
        __name__ = __mro__ = __dict__ = property(called)
        __repr__ = called
    class Hostile(metaclass=Meta):
        plain = "plain"
        def __getattr__(self, name):
            called()
            raise AttributeError(name)
        __eq__ = __repr__ = __str__ = __len__ = __iter__ = __bool__ = __getitem__ = __contains__ = __del__ = called
        def __hash__(self):
            called()
            return hash("s2")
        computed = property(called)
    class Sealed(Hostile):
        inside = 1
        def __getattribute__(self, name):
            called()
            return object.__getattribute__(self, name)
    class Pretender(Hostile):
        __class__ = property(called)
    class Descriptor:
        __get__ = __set__ = called
    Mapping, List, Tuple, Set, Text, Number, Bytes = (
        type(base.__name__.title(), (base,), refusing(base)) for base in (dict, list, tuple, set, str, int, bytes)
    )
    Queue = type("Queue", (collections.deque,), refusing(collections.deque))
    class Colour(enum.Enum):
        RED = 1
        __str__ = __repr__ = __hash__ = called
"""


def test_no_code_of_the_target_runs(tool: FakeTool, any_python: str) -> None:
    tool.python = any_python
    expected = {
        "owner.plain": "plain",
        "owner.own": "own",
        "owner.computed": None,
        "owner.missing": None,
        "owner.described": None,
        "owner": "<Hostile>",
        "sealed.inside": None,
        "sealed": "<Sealed>",
        "pretender": "<Pretender>",
        "pretender.plain": "plain",
        "mapping[s2]": "text",
        "mapping[7]": "seven",
        "mapping[nothing]": None,
        "mapping": "{7, <Hostile>, <Pretender>, s2}",
        "listed[0]": "text",
        "listed": "[text, <Hostile>]",
        "fixed[1][0]": "5",
        "queue[1]": "2",
        "queue": "[1, 2]",
        "chosen": "{<Hostile>, x}",
        "text": "text",
        "number": "5",
        "data": "bytes",
        "colour": "RED",
    }
    tool.variables = [variable(path, path) for path in expected]
    tool.variables += [variable("mapping[*]", "keys"), variable("chosen[*]", "chosen[*]"), variable("queue[*]", "queue[*]")]
    tool.variables += [variable("mapping[*.plain]", "plain keys")]
    outcome = tool.run(
        SEND
        + HOSTILE
        + """
    owner, sealed, pretender = Hostile(), Sealed(), Pretender()
    owner.own = "own"
    Hostile.described = Descriptor()
    owner.__dict__["described"] = 1
    mapping = Mapping({"s2": Text("text"), 7: "seven"})
    dict.__setitem__(mapping, owner, 1)
    dict.__setitem__(mapping, pretender, 2)
    listed = List([Text("text"), owner])
    fixed = Tuple([1, [Number(5)]])
    queue = Queue([1, 2])
    chosen = Set()
    set.add(chosen, owner)
    set.add(chosen, "x")
    text, number, data, colour = Text("text"), Number(5), Bytes(b"bytes"), Colour.RED
    armed = True
    send()
    armed = False
    """
    )
    assert outcome.code == 0, outcome.out + outcome.err
    assert {path: dict(samples(outcome, path)) for path in expected} == {
        path: {"": text} for path, text in expected.items()
    }
    assert dict(samples(outcome, "keys")) == {"s2": "text", "7": "seven"}
    assert dict(samples(outcome, "chosen[*]")) == {"x": "x"}
    assert dict(samples(outcome, "queue[*]")) == {"0": "1", "1": "2"}
    assert dict(samples(outcome, "plain keys")) == {"plain": "2"}


def test_a_module_that_answers_by_itself_is_not_asked(tool: FakeTool) -> None:
    package = tool.folder / "package"
    package.mkdir()
    (package / "lazy.py").write_text("here = 1\ndef __getattr__(name):\n    raise SystemExit(name)\n")
    tool.variables = [{"node": "s1", "name": name, "path": f"lazy:{name}", "slots": {}} for name in ("here", "there")]
    outcome = tool.run("    import lazy\n" + SEND + "\n    send()\n", python_path=str(package))
    assert samples(outcome, "here") == [("", "1")]
    assert samples(outcome, "there") == [("", None)]


LOCKED = """
    import threading
    class Owner:
        def __init__(self, guard):
            self.guard, self.value, self.members = guard, 0, {"s2": Member()}
    class Member:
        __slots__ = ("state",)
        def __init__(self):
            self.state = 0
    def change():
        owner.value += 1
        owner.members["s2"].state += 1
        send()
    def elsewhere(acquire, release):
        held, done = threading.Event(), threading.Event()
        def hold():
            acquire()
            held.set()
            done.wait()
            release()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        for _ in range(count):
            change()
        done.set()
        thread.join()
"""


def changed_while_held(tool: FakeTool, guard: str, count: int = 3) -> tuple[list[str | None], list[str | None]]:
    """The samples of two variables that change `count` times while another thread holds the guard, and once before."""
    tool.variables = [variable("owner.value", "value"), variable("owner.members[*].state", "member")]
    run = f"""
    count = {count}
    owner = Owner({guard})
    change()
    elsewhere(owner.guard.acquire, owner.guard.release)
    """
    outcome = tool.run(SEND + LOCKED + run)
    value, member = ([text for _, text in samples(outcome, name)] for name in ("value", "member"))
    return value, member


@pytest.mark.parametrize("guard", ["threading.Lock()", "threading.RLock()", "threading.Condition()"])
def test_a_value_is_not_read_while_another_thread_holds_its_owners_lock(tool: FakeTool, guard: str) -> None:
    """The value of the end is read when the thread ends."""
    assert changed_while_held(tool, guard) == (["1", "4"], ["1", "4"])


def test_at_most_twenty_readings_in_a_row_are_discarded(tool: FakeTool) -> None:
    """The last values are those of the 21st change, and those after it was held for 21 more."""
    assert changed_while_held(tool, "threading.Lock()", 23)[0] == ["1", "22", "24"]


def test_a_lock_of_the_reading_thread_does_not_matter(tool: FakeTool) -> None:
    tool.variables = [variable("owner.value", "value")]
    source = """
    owner = Owner(threading.RLock())
    with owner.guard:
        change()
        change()
    """
    assert samples(tool.run(SEND + LOCKED + source)) == [("", "1"), ("", "2")]


def test_a_lock_in_a_slot_counts(tool: FakeTool) -> None:
    tool.variables = [variable("owner.value", "value")]
    source = """
    class Slotted:
        __slots__ = ("lock", "value", "empty")
    owner = Slotted()
    owner.lock, owner.value = threading.Lock(), 1
    with owner.lock:
        send()
    owner.value = 2
    send()
    """
    assert samples(tool.run(SEND + LOCKED + source)) == [("", "2")]


def test_a_reading_keeps_nothing_alive(tool: FakeTool) -> None:
    tool.variables = [variable("Owner.members[*]"), variable("table[*.id]", "table")]
    source = """
    import weakref
    class Key:
        id = 1
    class Owner:
        def __init__(self):
            self.members = {1: Key()}
    owner = Owner()
    table = {Key(): Key()}
    send()
    kept = weakref.ref(owner), weakref.ref(owner.members[1]), weakref.ref(next(iter(table)))
    del owner
    table.clear()
    print([each() for each in kept])
    send()
    """
    outcome = tool.run(SEND + source)
    assert outcome.out == "[None, None, None]\n"
    assert samples(outcome, "v") == [("1", "<Key>"), ("1", None)]


def test_a_forked_child_records_only_its_own_changes(tool: FakeTool, any_python: str) -> None:
    tool.python = any_python
    tool.variables = [variable("term", **{"": 0})]
    source = """
    import os
    term = 1
    send()
    child = os.fork()
    if not child:
        send()
        term = 2
        send()
        os._exit(0)
    os.waitpid(child, 0)
    send()
    """
    outcome = tool.run(SEND + source).ok()
    found = outcome.of("variable.sample")
    assert [event.content for event in found] == ["1", "2"]
    assert found[0].pid != found[1].pid
    assert tool.slot(0) == "2"


def test_threads_that_read_at_the_same_time_end_with_the_last_value(tool: FakeTool) -> None:
    tool.variables = [variable("number", **{"": 0})]
    source = """
    import itertools, threading
    next_number, number = itertools.count(1).__next__, 0
    def work():
        global number
        for _ in range(300):
            number = next_number()
            send()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    send()
    print(number)
    """
    outcome = tool.run(SEND + source).ok()
    texts = [text for _, text in samples(outcome)]
    assert texts[-1] == tool.slot(0) == outcome.out.strip()
    assert all(one != other for one, other in pairwise(texts))
