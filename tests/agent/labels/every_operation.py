"""A program with every kind of expression that has a hook. It prints what it computes, and the order in which it does so.

    python every_operation.py plain|hooks|labels AGENT_DIR FOLDER_OF_ACCELERATORS

With `labels`, its input has labels, so that all hooks are at work.
"""

# ruff: noqa: B009, B905, C416, F524, RUF059, UP031 - all ways to write an expression count, on all versions of Python

import array
import copy
import decimal
import functools
import io
import json
import math
import pickle
import string
import sys
import traceback

LOG = []
LIMIT = 5


def say(*words):
    print(*words)


def step(name, value=None):
    """Note the order of evaluation."""
    LOG.append(name)
    return value


class Number:
    """Operators of the program's own."""

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Number(self.value + other)

    def __radd__(self, other):
        return NotImplemented

    def __iadd__(self, other):
        self.value += other
        return self

    def __getitem__(self, key):
        step("get %r" % (key,))
        return self.value

    def __setitem__(self, key, value):
        step("set %r" % (key,))
        self.value = value

    def __delitem__(self, key):
        step("delete %r" % (key,))

    def __neg__(self):
        return "negative"

    def __format__(self, form):
        return "<%s %s>" % (form, self.value)

    def __iter__(self):
        return iter([self.value])

    def join(self, parts):
        return "own join %s" % list(parts)


class Text(str):
    """A type of the program's own."""

    def upper(self):
        return "own upper"


def identity(data):
    small, text, big = int(data[0:1]), data[2:3].decode(), int(data[4:9])
    say(small is LIMIT, small is not LIMIT, text is "abc"[1], (small, small)[0] is small)
    say([id(x) == id(x) for x in (small, text, big)], small in {5}, {small: 1}.get(5), hash(text) == hash("b"))
    say(type(small) is int, type(text) is str, isinstance(small, int), repr(small), small == LIMIT)
    x = y = text
    say(x is y, x is text, sys.intern(text) == "b")


def exact_types(data):
    values = {"n": int(data[0:1]), "t": data[2:3].decode(), "two": data[:2], "l": list(data[:3])}
    say(pickle.dumps(values) == pickle.dumps({"n": 5, "t": "b", "two": b"5 ", "l": [53, 32, 98]}))
    say(json.dumps(copy.deepcopy(values["l"])), ["x", "y"][int(data[0:1]) - 4], "%c" % int(data[4:6]), range(int(data[0:1])))
    say(bytes([int(data[0:1])]), chr(int(data[0:1])), "abcdefg"[int(data[0:1])], (1, 2, 3)[: int(data[0:1])])
    say(values["t"].join(["1", "2"]), Text(values["t"]).upper(), str.upper(values["t"]), int.__add__(values["n"], 1))
    say(values["two"].__class__, values["n"].real, values["n"].bit_length(), values["t"].isalpha())


def order(data):
    LOG.clear()
    step("a", 1) + step("b", 2) * step("c", 3)
    {step("d", 1): 2}[step("e", 1)]
    step("f", [1, 2, 3])[step("g", 0) : step("h", 2)]
    f"{step('i', 1)}{step('j', 2):{step('k', 3)}}"
    step("l", "").join([step("m", "x"), step("n", "y")])
    held = {"k": 1}
    step("o", held)[step("p", "k")] += step("q", 2)
    own = Number(1)
    own[step("r")] += step("s", 1)
    own.value += step("t", 1)
    del own[1:2]
    own[0] = 1
    step("u", own).value -= step("v", 1)
    say(LOG, held, own.value)


def own_types(data):
    own = Number(int(data[0:1]))
    say((own + 1).value, own[1], -own, f"{own:x}", own.join("ab"), [x for x in own], own[data[:1]])
    own += 2
    (value,) = own
    a, *b = data[:3]
    say(own.value, value, a, b)


def failing(data):
    for fails in (
        lambda: data + "text", lambda: data[1000], lambda: {}[data], lambda: "%d" % data, lambda: "{}{}".format(data),
        lambda: data.decode("ascii", "strict").join(5), lambda: int(data), lambda: f"{data:d}", lambda: -data,
        lambda: b",".join([data, 1]), lambda: data.split(b""), lambda: json.loads(data), lambda: bytearray(data).pop(1000),
        lambda: [x for x in 5], lambda: data.nothing(), lambda: len(5), lambda: None[0],
    ):  # fmt: skip
        try:
            fails()
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[1].lineno
            say(type(error).__name__, error, line - failing.__code__.co_firstlineno)
    x, y, z = "abc"
    try:
        x, y = data
    except ValueError as error:
        say(error)


def in_place(data):
    array = other = bytearray(data)
    array += data
    array[0] = 65
    array[1:3] = b"--"
    del array[-1]
    view = memoryview(array)[2:4]
    say(other is array, bytes(array), bytes(view), view.tobytes())
    view.release()
    array.extend(b"+")
    stream = io.BytesIO(data)
    stream.seek(2)
    stream.write(b"!")
    say(array, stream.getvalue(), [line for line in stream], list(io.StringIO("a\nb")))


def iterators(data):
    def fails():
        yield data[:1]
        raise KeyError("own")

    for reads in (
        lambda: b"".join(fails()), lambda: sum(map(int, ["1", "x"])), lambda: list(map(int, [data])),
        lambda: bytearray().extend(fails()),
        lambda: bytes(iter([1, 300])), lambda: "".join(), lambda: map(), lambda: bytearray(b"1").extend(),
        lambda: bytearray().extend(x[0] for x in fails()), lambda: bytes(x for x in data[:3]), lambda: "".join({"a": data}),
    ):  # fmt: skip
        try:
            say(reads())
        except Exception as error:
            say(type(error).__name__, error)


def streams(data):
    def numbers():
        for x in data[:2]:
            got = yield x
            say("got", got)

    running = numbers()
    say(next(running), running.send(7), list(running), max(data[:3]), sorted(data[:3]), sum(data[:3]), dict(zip("ab", data)))
    say(*map(chr, data[:3]), *(x for x in data[:2]), list(reversed(data[:3])), tuple(enumerate(data[:2])))


def functions(data):
    text = data[2:9].decode()
    method = text.upper
    joined = functools.partial(",".join, [text, text])
    number = functools.partial(int, data[4:9])
    say(method(), joined(), number(), getattr(text, "upper")(), [text.split][0](), (lambda: text.strip)()(), number.func is int)
    say(functools.partial(number)(), functools.partial(int, base=16)(data[4:9]), {"n": Number}["n"](1).value)
    say(method == text.upper, method.__self__ is text)
    for fails in (
        lambda: getattr(text, "split")(""), lambda: functools.partial(int, text, text)(), lambda: joined(1), lambda: [5][0](),
        lambda: getattr(text, "nothing")(), lambda: functools.partial(text.join)(),
    ):  # fmt: skip
        try:
            say(fails())
        except Exception as error:
            say(type(error).__name__, error)


def library(data):
    text, stream = data[2:9].decode(), io.StringIO()
    json.dump({"t": text, "n": [int(data[4:9]), math.nan, None, True], "s": {1: data[:1].decode()}}, stream, indent=1)
    json.dump([text], fp=stream)
    json.dump([Number(1), text], stream, default=lambda own: own.value)
    say(stream.getvalue(), json.load(fp=io.BytesIO(b"[1]")), json.load(io.StringIO('"x"'), object_hook=say))
    template = string.Template("$a ${b} $$ $c")
    say(template.substitute(a=text, b=1, c=None), template.safe_substitute({"a": text}), template.safe_substitute())
    exact = decimal.Decimal(text[2:])
    say(exact, repr(exact), -exact, exact + 1, decimal.Decimal(exact) is exact, round(exact, 1), exact.normalize(), hash(exact))
    numbers = array.array("H", data[:4])
    numbers[0] = 7
    numbers.extend([1, 2])
    numbers[1:2] = array.array("H", [int(data[4:9]) % 1000])
    del numbers[-1]
    say(numbers, numbers[0], numbers[::2], numbers.pop(0), numbers.tobytes(), numbers.tolist(), bytes(numbers), len(numbers))
    for fails in (
        lambda: json.load(5), lambda: json.load(), lambda: json.dump(text), lambda: json.dump([text], 5),
        lambda: json.load(io.StringIO(text)), lambda: json.dump([text, {1}], io.StringIO()), lambda: template.substitute(a=text),
        lambda: json.dump([text], stream, stream), lambda: template.substitute(5), lambda: decimal.Decimal([text]),
        lambda: array.array("H", data[:3]), lambda: numbers[data], lambda: numbers.append(text), lambda: array.array(),
    ):  # fmt: skip
        try:
            say(fails())
        except Exception as error:
            say(type(error).__name__, error)


def main(data):
    for function in (identity, exact_types, order, own_types, failing, in_place, iterators, streams, functions, library):
        say("---", function.__name__)
        function(data)


if __name__ == "__main__" and len(sys.argv) > 1:
    mode, agent_dir, accelerators = sys.argv[1:]
    names = {"__name__": "every_operation", "__file__": __file__}
    with open(__file__, "rb") as file:
        source = file.read()
    message = bytes(bytearray(b"5 b 70000 tail"))
    if mode == "plain":
        code = compile(source, __file__, "exec", dont_inherit=True)
    else:
        sys.path.append(agent_dir)
        import builtins
        from importlib import import_module

        from undermine_agent.interpreter import fast

        fast.load(accelerators)
        from undermine_agent.labels import table
        from undermine_agent.labels.hooks import NAMES, Hooks
        from undermine_agent.labels.rewriting import HOOK, rewritten

        code, left_alone = rewritten(source, __file__, NAMES)
        assert not left_alone, left_alone
        hooks = Hooks(lambda error: print("trouble", repr(error)))
        hooks.install(lambda name, hook: hook(import_module(name)) if name != "msgpack" else None)
        setattr(builtins, HOOK, hooks.builtin())
        if mode == "labels":
            message = table.put(message, [(0, len(message), 1, 0, len(message), True)])
    exec(code, names)
    names["main"](message)
    if mode == "labels":
        assert len(table.labels) > 5, len(table.labels)
