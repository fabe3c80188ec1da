"""The places of calls are those that the agent would report: programs are run, and its own counter is asked."""

from __future__ import annotations

import asyncio
import builtins
import importlib.util
import sys
import textwrap
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from small_programs import program

from undermine.program.source import call_sites

ROOT = Path(__file__).resolve().parents[2]


def agents_sites() -> ModuleType:
    """The agent's own module, without loading the agent."""
    folder = str(ROOT / "agents" / "python")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("undermine_agent.names.sites")
    finally:
        sys.path.remove(folder)


SITES = agents_sites()

PROGRAM = '''
import os
import asyncio

class Box:
    def __init__(self, path):
        self.file = open(path, "w")

    def twice(self, path):
        """Nested calls, keywords, unpacking, chains over several lines."""
        args = (path,)
        os.stat(os.path.dirname(os.stat(path) and path) or ".")
        os.stat(path, follow_symlinks=True)
        os.stat(*args)
        os.stat(*args, **{})
        (os
            .stat(
                path))
        return [os.stat(p) for p in [path, path]]

    def copied(self, path, fail):
        try:
            if fail:
                raise KeyError(os.stat(path))
            return os.stat(path)
        except KeyError:
            os.stat(path)
        finally:
            os.stat(path)

    @property
    def size(self):
        return os.stat(self.file.name).st_size

def nested(path):
    def inner(deep=lambda: os.stat(path)):
        deep()
        with open(path) as one, open(path) as two:
            for _ in range(2):
                os.stat(path)
                if one:
                    continue
        return os.stat(path)
    return inner()

def early(path):
    with open(path) as file:
        if path:
            return os.stat(path)
    os.stat(path)

def yields(path):
    for _ in range(3):
        yield os.stat(path)

async def slow(path):
    await asyncio.sleep(0)
    async with asyncio.Lock():
        os.stat(path)
    value = {n: os.stat(path) for n in range(2)}
    await inner_coroutine(path)
    if value and os.stat(path) and not os.stat(path):
        os.stat(path)
    match path:
        case "x":
            os.stat("x")
        case _:
            os.stat(path)
    print(f"{os.stat(path).st_size:>4} {path!r}", file=open(os.devnull, "w"))
    while True:
        os.stat(path)
        break
    assert os.stat(path), "never"

async def inner_coroutine(path):
    os.stat(path)

os.stat(".")
'''


class Seen:
    """Stands for the agent's hooks: at each call of the functions it notes what the agent's counter says."""

    def __init__(self) -> None:
        self.locs: dict[str, int] = {}

    def here(self, frame: FrameType | None) -> None:
        while frame is not None and frame.f_globals.get("__name__") != "m":
            frame = frame.f_back
        if frame is not None:
            name = f"m:{frame.f_code.co_qualname}#{SITES.ordinal(frame.f_code, frame.f_lasti)}"
            self.locs[name] = frame.f_lineno


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seen:
    """The program was run, every call of `open` and `os.stat` was noted."""
    import os

    found, real_stat, real_open = Seen(), os.stat, builtins.open

    def stat(*args: Any, **kwargs: Any) -> Any:
        found.here(sys._getframe(1))
        return real_stat(*args, **kwargs)

    def opened(*args: Any, **kwargs: Any) -> Any:
        found.here(sys._getframe(1))
        return real_open(*args, **kwargs)

    module = ModuleType("m")
    code = compile(PROGRAM, "m.py", "exec", dont_inherit=True)
    path = tmp_path / "file"
    path.write_text("x\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        patch.setattr(builtins, "open", opened)
        exec(code, module.__dict__)
        box = module.Box(str(path))
        box.twice(str(path))
        box.copied(str(path), True)
        box.copied(str(path), False)
        assert box.size == 0
        module.nested(str(path))
        module.early(str(path))
        list(module.yields(str(path)))
        asyncio.run(module.slow(str(path)))
    box.file.close()
    return found


def test_every_place_that_was_met_is_the_place_of_a_point_on_that_line(seen: Seen) -> None:
    facts = program(m=PROGRAM).facts()
    assert len(seen.locs) > 30
    for loc, line in seen.locs.items():
        point = facts.at(loc)
        assert point is not None, f"{loc} in line {line} is not a point"
        statement = range(point.line, point.line + 4)
        assert line in statement, f"{loc} is in line {line}, not {point.line}"


def test_every_call_in_the_text_that_was_met_has_exactly_its_places(seen: Seen) -> None:
    met = set(seen.locs)
    stats = [point for point in program(m=PROGRAM).facts().points if point.call == "os.stat"]
    missed = {point.line for point in stats if not met & set(point.locs)}
    lines = PROGRAM.splitlines()
    above = {number: lines[number - 2] for number in range(2, len(lines) + 1)}
    never = {number for number, line in enumerate(lines, 1) if 'os.stat("x")' in line}
    after_return = {number for number, line in above.items() if line.endswith("return os.stat(path)")}
    not_true = {number for number, line in above.items() if "not os.stat" in line}
    assert missed <= never | after_return | not_true


def test_a_copied_finally_is_one_point_with_several_places() -> None:
    point = next(p for p in program(m=PROGRAM).facts().points if "copied" in p.loc and len(p.locs) > 1)
    assert {loc.partition("#")[0] for loc in point.locs} == {"m:Box.copied"}


def test_an_awaited_call_may_be_met_at_its_await() -> None:
    text = textwrap.dedent("""
        import asyncio
        async def f(reader: asyncio.StreamReader):
            return await reader.readexactly(4)
    """)
    (point,) = program(m=text).facts().points
    assert (point.op, point.loc, point.also) == ("net.recv", "m:f#0", ("m:f#1",))


def test_leaving_a_with_on_a_file_is_a_point_of_its_own() -> None:
    text = "def f(p):\n    with open(p, 'w') as g:\n        g.write('x')\n"
    ops = {point.op: point for point in program(m=text).facts().points}
    assert set(ops) == {"file.open", "file.write", "file.close"}
    assert len({loc for point in ops.values() for loc in point.locs}) == sum(len(p.locs) for p in ops.values())


def test_going_over_a_file_is_reading() -> None:
    text = "def f(p):\n    with open(p) as g:\n        for line in g:\n            print(line)\n"
    reads = [point for point in program(m=text).facts().points if point.op == "file.read"]
    assert [point.loc for point in reads] == ["m:f#2"]


def test_the_same_line_is_found_where_ordinals_differ() -> None:
    facts = program(m="import os\ndef f():\n    os.stat('x')\n").facts()
    assert facts.at("m:f#7") is None
    assert [point.op for point in facts.near("m:f#7", 3)] == ["file.stat"]


def test_each_call_site_has_its_line() -> None:
    text = "class A:\n    def f(self, x):\n        g(\n            x)\n        with h():\n            return [k(y) for y in x]\n"
    found = call_sites.lines_of(text)
    assert [line for site, line in found.items() if site.startswith("A.f#")][:3] == [3, 5, 5]
    assert set(found.values()) >= {1, 3, 5, 6}
    assert call_sites.lines_of("def f(:") == {}
    assert call_sites.lines_of("x\x00") == {}
