"""A program with every kind of access to the heap. It prints what it computes, and the order in which it does so.

    python every_access.py plain|pass|note AGENT_DIR

With `pass` and `note`, the same source runs with hooks: hooks that do nothing, and hooks that name and look up objects.
"""

import asyncio
import enum
import inspect
import sys
import traceback

LOG = []
TABLE = {"a": 1}
COUNT = 0
LIMIT: int = 3


def say(*words):
    print(*words)


def step(name, value=None):
    """Note the order of evaluation."""
    LOG.append(name)
    return value


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Slotted:
    __slots__ = ("__hidden", "x")

    def __init__(self):
        self.x = 1
        self.__hidden = 2

    def total(self):
        return self.x + self.__hidden


class Private:
    def __init__(self):
        self.__value = 10
        self.__items = {"k": [1, 2]}

    def read(self):
        return self.__value, self.__items["k"][-1], sorted(vars(self))


class Watched:
    """Counts every access that reaches Python code."""

    limit = 5

    def __init__(self):
        self.calls = []
        self.plain = 1

    @property
    def size(self):
        self.calls.append("get size")
        return 7

    @size.setter
    def size(self, value):
        self.calls.append("set size")

    def __getattr__(self, name):
        self.calls.append("getattr " + name)
        if name.startswith("no"):
            raise AttributeError(name)
        return name

    def __getitem__(self, key):
        self.calls.append(f"item {key!r}")
        return self

    def __setitem__(self, key, value):
        self.calls.append(f"set {key!r}")

    def __delitem__(self, key):
        self.calls.append(f"del {key!r}")

    def __add__(self, other):
        self.calls.append(f"add {other!r}")
        return other

    def __contains__(self, key):
        self.calls.append(f"in {key!r}")
        return True

    def __len__(self):
        self.calls.append("len")
        return 2

    def __bool__(self):
        self.calls.append("bool")
        return True

    def __eq__(self, other):
        self.calls.append("eq")
        return self is other

    def __hash__(self):
        self.calls.append("hash")
        return 1


class Base:
    def __init__(self, name):
        self.name = name

    def hello(self):
        return "hello " + self.name

    @classmethod
    def make(cls):
        return cls("made")


class Derived(Base):
    shared = {}  # noqa: RUF012

    def __init__(self, name):
        super().__init__(name)
        self.extra = __class__.__name__

    def hello(self):
        Derived.shared.setdefault(self.name, []).append(1)
        return super().hello() + "!" + str(super().name if hasattr(super(), "name") else "")


class Key:
    def __init__(self, text):
        self.text = text

    def __hash__(self):
        step("hash " + self.text)
        return 3

    def __eq__(self, other):
        step("eq " + self.text)
        return isinstance(other, Key) and other.text == self.text


def attributes():
    w = Watched()
    say(w.plain, w.size, w.limit, w.missing)
    w.size = 3
    w.plain += 1
    w.size += 1
    try:
        say(w.nothing)
    except AttributeError as error:
        say("no attribute", error)
    del w.plain
    say(w.plain)
    say(w.calls)
    say(Slotted().total(), Private().read())
    d = Derived("x")
    say(d.hello(), d.extra, Derived.make().name, Derived.shared)


def items():
    w = Watched()
    w["a"] = 1
    w[1:2] = 2
    w["a"]["b"][..., 3] = 4
    w["c"] += 1
    del w["d"]
    say("x" in w, "x" not in w, len(w), bool(w), [1 for _ in (1,) if w])
    say(w.calls)
    d = {"a": {"b": [1, 2, 3]}, 1: "one", (1, 2): "pair"}
    n = 1
    say(d["a"]["b"][n], d[n], d[n, 2], d["a"]["b"][1:], d["a"]["b"][-1])
    d["a"]["b"][n + 1] += 5
    d["a"]["b"][:1] = [9, 9]
    d[n, 3] = d.pop((n, 2))
    d.setdefault("z", []).append(d.get("nothing", 7))
    del d["a"]["b"][0], d[1]
    say(d, n in d, (1, 3) in d, len(d), sorted(map(str, d)))
    k = Key("k")
    table = {k: 1}
    LOG.clear()
    table[Key("k")] = 2
    say(table[k], Key("k") in table, table.get(Key("k")), table.pop(Key("k")), LOG)


def order():
    LOG.clear()
    holder = Base("h")
    holder.d = {}

    def owner():
        step("owner")
        return holder

    owner().d[step("key", "k")] = step("value", 1)
    owner().name = step("value", "new")
    owner().d[step("key", "k")] += step("value", 2)
    step("in", step("left", "k") in step("right", holder.d))
    owner().d.get(step("first", "k"), step("second"))
    a = owner().name = holder.other = step("chained", 5)
    holder.x, holder.d["y"] = step("pair", (1, 2))
    del owner().d[step("key", "k")]
    say(LOG, a, vars(holder))


def binding():
    holder = other = Base("h")
    holder.name = (holder := Base("new")).name
    say(other.name, holder.name)
    if (n := len(LOG)) > 0 and holder.name:
        say(n > 0)
    say([x.name for x in (holder, other) if x.name], {k: v + k for k, v in vars(other).items()})
    say((lambda h=holder: h.name)(), sorted(locals()))


def scopes():
    global COUNT, TABLE
    COUNT += 1
    COUNT = COUNT + LIMIT
    TABLE["b"] = TABLE["a"] + 1
    kept = TABLE
    TABLE = {}
    say(COUNT, TABLE, kept, TABLE is kept)
    total = [0]

    def inner(TABLE):
        nonlocal kept
        kept = TABLE
        total[0] += len(TABLE)
        return inner.__name__

    class Local:
        value = total

        def read(self):
            return self.value[0], Local.value is total

    say(inner([1, 2]), kept, Local().read(), inner.__code__.co_freevars)


def failing():
    d, empty = {"a": {}}, Base("e")
    tries = [
        lambda: d["a"]["missing"],
        lambda: d[[]],
        lambda: empty.nothing.more,
        lambda: d.pop("x"),
        lambda: [].pop(),
        lambda: None.attribute,
        lambda: 1 in 2,
        lambda: undefined.attribute,  # noqa: F821
    ]
    for each in tries:
        try:
            each()
        except Exception as error:
            say(type(error).__name__, error)
            say(traceback.format_exc())

    def unbound():
        d[key] = 1  # noqa: F821
        key = 2  # noqa: F841

    try:
        unbound()
    except UnboundLocalError:
        say(traceback.format_exc())


def finally_and_with():
    holder = Base("h")

    class Manager:
        def __enter__(self):
            return step("enter", self)

        def __exit__(self, *_):
            step("exit")

    LOG.clear()
    try:
        with Manager() as holder.manager:
            for holder.i in range(3):
                if holder.i:
                    continue
                holder.name = holder.name + "x"
            raise KeyError(holder.name)
    except KeyError as error:
        holder.error = str(error)
    finally:
        holder.done = True
    say(LOG, holder.i, holder.error, holder.done, holder.name)


async def waits(holder):
    async def value(name):
        await asyncio.sleep(0)
        return step(name, name)

    holder.d[await value("key")] = await value("value")
    holder.d[(await value("key")) + "2"] = 1
    say(holder.d.get(await value("key"), await value("other")), LOG)
    say([v async for v in agen(holder)])


async def agen(holder):
    for each in holder.d:
        yield each


def generator(holder):
    holder.got = yield holder.name
    holder.d[(yield "key")] = yield "value"


def generators():
    holder = Base("h")
    holder.d = {}
    LOG.clear()
    asyncio.run(waits(holder))
    running = generator(holder)
    say(next(running), running.send("got"), running.send("first"), list(running), holder.d)


def values():
    holder = Base("h")
    holder.colour = Colour.RED
    holder.none, holder.text, holder.big = None, "x" * 100, 10**30
    holder.set = {1}
    holder.set.add("a")
    holder.set.discard("b")
    holder.list = [holder]
    holder.list.append(holder.list)
    holder.list.remove(holder)
    holder.method = holder.hello
    say(holder.colour.name, holder.method(), holder.set == {1, "a"}, len(holder.list), not holder.set)
    say(holder.none or holder.text[:2])
    say(f"{holder.name!r:>5} {holder.colour.value}", *holder.set - {1}, inspect.signature(Derived.__init__))
    say(inspect.getsource(order).splitlines()[0], order.__code__.co_varnames)


def main():
    for function in (attributes, items, order, binding, scopes, failing, finally_and_with, generators, values):
        say("---", function.__name__)
        function()


if __name__ == "__main__" and len(sys.argv) > 1:
    mode, agent_dir = sys.argv[1:]
    names = {"__name__": "every_access", "__file__": __file__}
    with open(__file__, "rb") as file:
        source = file.read()
    if mode == "plain":
        code = compile(source, __file__, "exec", dont_inherit=True)
    else:
        sys.path.append(agent_dir)
        import builtins
        import types

        from undermine_agent.heap import accesses, rewriting

        code, left_alone = rewriting.rewritten(source, __file__)
        assert not left_alone, left_alone
        noted = []
        if mode == "pass":
            hooks = accesses.NoHooks()
        else:
            state = types.SimpleNamespace(busy=False, extent=1, pauses=0, heap=None, accesses=0)

            def thread_state():
                """Objects that two handlers touch have names: begin another handler now and then."""
                state.accesses += 1
                state.extent += state.accesses % 10 == 0
                return state

            agent = types.SimpleNamespace(
                off=False,
                config={"heap": True},
                local=types.SimpleNamespace(state=state),
                sites=types.SimpleNamespace(packages=frozenset(["every_access"])),
                operations={name: types.SimpleNamespace() for name in (*accesses.OPENERS, "heap.read", "heap.write")},
                thread_state=thread_state,
                record=lambda *access: noted.append(access),
                _note=lambda error: print("trouble", repr(error)),
            )
            hooks = accesses.hooks(agent)
        setattr(builtins, rewriting.HOOK, hooks)
    sys.modules["every_access"] = sys.modules["__main__"]
    exec(code, names)
    names["main"]()
    if mode == "note":
        assert len(noted) > 100, len(noted)
