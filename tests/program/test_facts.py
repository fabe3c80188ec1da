"""Operations, groups, counts, what runs have shown, and files that are broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from small_programs import facts, points, program
from tables import for_each

from undermine.program import Facts, Named, Program, analyse, calls_in


@for_each(
    ("text", "op"),
    [
        ("open('x')", "file.open"),
        ("os.rename('a', 'b')", "file.rename"),
        ("os.replace('a', 'b')", "file.rename"),
        ("shutil.rmtree('a')", "file.unlink"),
        ("json.dump(1, f)", "file.write"),
        ("os.path.exists('a')", "file.stat"),
        ("Path('x').read_text()", "file.read"),
        ("(Path('x') / 'y').write_bytes(b'')", "file.write"),
        ("socket.create_connection(a)", "net.connect"),
        ("socket.socket().sendall(b'')", "net.send"),
        ("sqlite3.connect('x').execute('SELECT 1')", "db.read"),
        ("sqlite3.connect('x').execute('INSERT')", "db.write"),
        ("sqlite3.connect('x').commit()", "db.commit"),
        ("redis.Redis().get('k')", "db.read"),
        ("redis.StrictRedis().lpush('k', 1)", "db.write"),
        ("redis.Redis().publish('k', 1)", "msg.send"),
        ("redis.Redis().pipeline().execute()", "db.write"),
        ("subprocess.run(['ls'])", "process.start"),
        ("urlopen('u')", "net.send"),
        ("f.sendall(b'')", "net.send"),
        ("self_sock.recv(1)", "net.recv"),
        ("transport.write(b'')", "net.send"),
        ("rename_it('a', 'b')", "file.rename"),
    ],
)
def test_operations(text: str, op: str) -> None:
    head = (
        "import json, os, redis, shutil, socket, sqlite3, subprocess\nfrom pathlib import Path\n"
        "from os import rename as rename_it\nfrom urllib.request import urlopen\n"
    )
    assert op in [point.op for point in points(f"{head}def f(a, f, self_sock, transport):\n    {text}\n")]


@pytest.mark.parametrize(
    "text",
    [
        "redis.Redis().pipeline().set('k', 1)",
        "{}.get('x')",
        "'x'.replace('a', 'b')",
        "io.StringIO().write('x')",
        "a.write('x')",
        "os.path.join('a', 'b')",
        "own.read()",
        "[].append(1)",
    ],
)
def test_some_calls_are_not_operations(text: str) -> None:
    head = "import io, os, redis\nclass Own:\n    def read(self): ...\n"
    assert not points(f"{head}def f(a, own: Own):\n    {text}\n")


def test_operations_that_a_user_has_named() -> None:
    text = (
        "import boto3\nclass Peer:\n    def send(self): ...\n"
        "def f(p: Peer, q, s):\n    p.send()\n    q.push()\n    boto3.client('s').put()\n"
    )
    named = [Named("m:Peer.send", "msg.send"), Named("*.push", "db.write"), Named("boto3.client().put", "net.send")]
    assert [(point.op, point.line) for point in points(text, named)] == [
        ("msg.send", 5),
        ("db.write", 6),
        ("net.send", 7),
    ]
    assert not points(text)


def test_a_pipe_is_no_file() -> None:
    text = (
        "import os\nclass A:\n    def __init__(self):\n        self.r, self.w = os.pipe()\n"
        "    def f(self, fd):\n        os.write(self.w, b'x')\n        os.write(fd, b'x')\n"
    )
    assert [point.op for point in points(text)] == ["pipe.write", "file.write"]


# --- groups


UNDER = "import os, threading\nLOCK = threading.Lock()\ndef f(x):\n    with LOCK:\n"


def groups(body: str) -> list[list[str]]:
    text = UNDER + body
    found: dict[str, list[str]] = {}
    for point in points(text):
        found.setdefault(point.group, []).append(point.loc)
    assert all(group in members for group, members in found.items())
    return list(found.values())


def test_the_last_of_a_basic_block_stands_for_it() -> None:
    body = "        os.stat('1')\n        os.stat('2')\n"
    ((first, second),), text = groups(body), UNDER + body
    by_loc = {point.loc: point for point in points(text)}
    assert (by_loc[first].stands, by_loc[second].stands) == (False, True)
    assert facts(text).counts.grouped == 1
    assert [point.loc for point in facts(text).in_regions()] == [second]
    assert len(facts(text).in_regions(grouped=False)) == 2


@pytest.mark.parametrize(
    "body",
    [
        "        os.stat('1')\n        if x:\n            os.stat('2')\n",
        "        os.stat('1')\n        while x:\n            os.stat('2')\n",
        "        os.stat('1')\n        for y in x:\n            os.stat('2')\n",
        "        os.stat('1')\n        try:\n            os.stat('2')\n        except OSError: ...\n",
        "        try:\n            os.stat('1')\n        except OSError:\n            os.stat('2')\n",
        "        os.stat('1') and os.stat('2')\n",
        "        os.stat('1')\n        x = [os.stat('2') for y in x]\n",
        "        os.stat('1')\n    os.stat('2')\n",
        "        if x:\n            os.stat('1')\n        else:\n            os.stat('2')\n",
    ],
)
def test_a_branch_a_handler_and_a_region_divide_groups(body: str) -> None:
    assert len(groups(body)) == 2


@pytest.mark.parametrize(
    "body",
    [
        "        os.stat('1')\n        y = 1\n        os.stat(os.path.join('2', y))\n",
        "        with open('x') as y:\n            y.write('2')\n",
        "        if x:\n            os.stat('1')\n            os.stat('2')\n",
    ],
)
def test_operations_that_always_follow_each_other_are_one_group(body: str) -> None:
    assert len(groups(body)) == 1


# --- counts, order, form


TWO = """
import os, threading, time
LOCK = threading.Lock()
def f():
    os.stat("free")
    with LOCK:
        os.stat("1")
        os.stat("2")
    start = time.time()
    os.stat("3")
    if time.time() - start > 1: ...
"""


def test_counts() -> None:
    counts = facts(TWO).counts
    assert (counts.all, counts.synchronized, counts.timed, counts.in_regions, counts.grouped) == (4, 2, 1, 3, 2)
    assert (counts.files, counts.lines, counts.functions) == (1, 12, 2)


def test_facts_are_the_same_each_time_and_can_be_kept() -> None:
    one = facts(TWO)
    assert facts(TWO) == one
    assert msgspec.json.decode(msgspec.json.encode(one), type=Facts) == one


SEVERAL = """
import os, threading
LOCK = threading.Lock()
class Base:
    def save(self): ...
class One(Base):
    def save(self):
        common(self)
class Two(Base):
    def save(self):
        common(self)
def common(x):
    os.stat("x")
def run(bases: list[Base], callbacks={}):
    with LOCK:
        for base in bases:
            base.save()
        for callback in callbacks.values():
            callback()
def main():
    run([One(), Two()], {1: One().save, 2: Two().save, 3: lambda: common(1)})
"""


def test_facts_do_not_depend_on_the_order_of_sets(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SEVERAL)
    code = (
        "import sys, msgspec; from undermine.program import analyse; "
        "sys.stdout.buffer.write(msgspec.json.encode(analyse([sys.argv[1]])))"
    )
    seen = set()
    for seed in ("1", "2", "3"):
        command = [sys.executable, "-c", code, str(tmp_path)]
        seen.add(
            subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True).stdout
        )
    assert len(seen) == 1
    assert b"critical" in seen.pop()


def test_every_region_says_where_and_why() -> None:
    for point in facts(TWO).points:
        for region in point.regions:
            assert region.why
            assert region.where.rpartition(":")[2].isdigit()


def test_a_point_outside_all_regions_says_so() -> None:
    assert facts(TWO).points[0].why == "in no region"


# --- what runs have shown


DYNAMIC = """
import os, threading
LOCK = threading.Lock()
def f(table, name):
    table[name]()
    with LOCK:
        table[name]()
def hidden():
    os.stat("x")
"""


def test_an_edge_that_a_run_has_shown_belongs_to_its_call() -> None:
    assert not facts(DYNAMIC).points[0].regions
    free = program(m=DYNAMIC).with_observed([("m:f#0", "m:hidden#0")]).facts()
    assert not free.points[0].regions
    under = program(m=DYNAMIC).with_observed([("m:f#2", "m:hidden#0")]).facts()
    assert [region.kind for region in under.points[0].regions] == ["critical"]


def test_an_edge_without_an_ordinal_is_one_of_the_function_as_a_whole() -> None:
    text = DYNAMIC + "def g(t):\n    with LOCK:\n        f(t, 1)\n"
    found = program(m=text).with_observed([("m:f", "m:hidden"), ("m:gone", "m:hidden"), ("m:f#99", "m:hidden")]).facts()
    assert [region.kind for region in found.points[0].regions] == ["critical"]


def test_stacks_show_calls() -> None:
    assert list(calls_in([("m:a#1", "m:b#2", "m:c#3"), ("m:a#1",)])) == [("m:b#2", "m:a#1"), ("m:c#3", "m:b#2")]


# --- files


def test_a_broken_file_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    package = tmp_path / "p"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "good.py").write_text("import os\ndef f():\n    os.stat('x')\n")
    (package / "bad.py").write_text("def f(:\n")
    (package / "nul.py").write_bytes(b"a = 1\0")
    (package / "latin.py").write_bytes(b"# -*- coding: utf-8 -*-\nx = '\xff'\n")
    (package / "sub" / "__init__.py").write_text("import os\nos.stat('y')\n")
    (package / "tests").mkdir()
    (package / "tests" / "t.py").write_text("import os\nos.stat('z')\n")
    found = analyse([package])
    assert [point.loc for point in found.points] == ["p.good:f#0", "p.sub:<module>#0"]
    assert sorted(Path(trouble.file).name for trouble in found.troubles) == ["bad.py", "latin.py", "nul.py"]
    assert all(trouble.why for trouble in found.troubles)
    assert analyse([package], skip=()).counts.all == 3


def test_a_folder_within_a_package_has_its_full_name(tmp_path: Path) -> None:
    inner = tmp_path / "p" / "q"
    inner.mkdir(parents=True)
    (tmp_path / "p" / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("")
    (inner / "m.py").write_text("open('x')\n")
    assert [point.loc for point in analyse([inner]).points] == ["p.q.m:<module>#0"]


def test_a_script_is_a_module_of_its_name(tmp_path: Path) -> None:
    script = tmp_path / "tool.py"
    script.write_text("open('x')\n")
    assert [point.loc for point in analyse([script]).points] == ["tool:<module>#0"]


def test_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'made')!r}, 'w')\nraise SystemExit\n")
    assert analyse([tmp_path]).counts.all == 1
    assert not (tmp_path / "made").exists()


def test_odd_programs_are_survived() -> None:
    text = """
class A(A): ...
class B(C): ...
class C(B):
    def f(self):
        return self.f().g(self).f
def f(x=lambda: f()):
    x = y = f
    return f(x(y))(*x, **y)
def g():
    while True:
        try:
            continue
        finally:
            break
    else:
        return
    for a, (b, *c) in g(): ...
    del a[b], c.d
    global z
    z = z
    async def h():
        async for _ in h(): yield await h()
    with a as (b, c), d.e as f.g: return
    match a:
        case {"x": [1, *_]} if g(): ...
try: ...
except* OSError: ...
from . import nothing
from .... import far
from m import *
import m.n as n
"""
    assert isinstance(program(m=text).facts(), Facts)


def test_an_empty_program() -> None:
    assert Program([]).facts() == Facts(counts=facts("").counts.__class__())


def test_a_function_that_is_nested_too_deeply_is_told(tmp_path: Path) -> None:
    deep = "x" + " + x" * 3000
    (tmp_path / "deep.py").write_text(f"import os\ndef f(x):\n    return {deep}\ndef g():\n    os.stat('x')\n")
    found = analyse([tmp_path])
    assert [point.loc for point in found.points] in ([], ["deep:g#0"])
    assert found.troubles


def test_a_long_chain_of_calls_is_survived() -> None:
    chain = "\n".join(f"def f{n}():\n    f{n + 1}()" for n in range(300))
    text = f"import os, threading\nL = threading.Lock()\n{chain}\ndef f300():\n    L.acquire()\n    os.stat('x')\n"
    assert len(points(text)) == 1


STACKED = """
import os, threading
LOCK = threading.Lock()
def io():
    os.fsync(3)
def under():
    with LOCK:
        io()
def free():
    io()
"""


def test_a_call_stack_is_in_the_regions_of_its_own_calls_only() -> None:
    found = facts(STACKED)
    (point,) = [point for point in found.points if point.op == "file.fsync"]
    assert {region.kind for region in point.regions} == {"critical"}, "some caller holds the lock"
    places = [loc for loc in found.sites if loc.startswith("m:under#")]
    (region,) = next(regions for loc in places if (regions := found.on((point.loc, loc))))
    assert region.kind == "critical"
    assert region.depth == 1
    assert found.on((point.loc, "m:free#0")) == ()


def test_a_function_that_an_event_loop_calls_is_a_region_for_blocking_operations() -> None:
    found = facts(
        """
        import asyncio, os
        async def handle(reader, writer):
            os.fsync(3)
            await reader.read(1)
        async def main():
            await asyncio.start_server(handle, port=1)
        """
    )
    point = next(point for point in found.points if point.op == "file.fsync")
    assert {region.kind for region in found.on((point.loc,))} == {"loop"}
