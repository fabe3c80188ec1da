"""The agent records files that are not written by `write`: mapped files, and files that C code writes."""

from __future__ import annotations

import os
import stat

import pytest

MAPPED = """
    import mmap, pickle, sys

    class Own(mmap.mmap):
        pass

    def change(m):
        m[0:4] = b"abcd"
        m[7] = 9
        assert m[0:4] == b"abcd" and m[7] == 9 and m[-1] == 0

    def by_methods(m):
        m.seek(0)
        m.write(b"xyz\\n")
        m.write_byte(5)
        m.seek(0)
        assert m.read(2) == b"xy" and m.readline() == b"z\\n" and m.read_byte() == 5
        m.move(0, 100, 10)
        m.flush()
        m.resize(8192)
        m.close()

    with open("journal-3", "w+b") as file:
        file.truncate(4096)
        change(mmap.mmap(file.fileno(), 4096))
        by_methods(mmap.mmap(file.fileno(), 4096))
        with Own(file.fileno(), 0) as own:
            own[1:3] = b"ok"
    anonymous = mmap.mmap(-1, 10)
    anonymous[0] = 1
    for wrong in (lambda: anonymous["x"], lambda: anonymous.__setitem__(slice(0, 2), b"abc"), lambda: mmap.mmap()):
        try:
            wrong()
        except (TypeError, IndexError, ValueError) as error:
            pass
        else:
            raise AssertionError
    assert type(anonymous) is mmap.mmap and mmap.mmap.__name__ == "mmap" and isinstance(own, mmap.mmap)
"""


def test_accesses_to_mapped_files_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(MAPPED).ok()
    seen = [(e.op, e.size, e.result) for e in outcome.trace if e.loc.startswith(("__main__:change", "__main__:by_"))]
    assert seen == [
        ("file.map_write", 4, 0),
        ("file.map_write", 1, 0),
        ("file.map_read", 4, 4),
        ("file.map_read", 1, 1),
        ("file.map_read", 1, 1),
        ("file.map_write", 4, 4),
        ("file.map_write", 1, 0),
        ("file.map_read", 2, 2),
        ("file.map_read", 0, 2),
        ("file.map_read", 1, 1),
        ("file.map_write", 10, 0),
        ("file.fsync", 0, 0),
        ("file.truncate", 8192, 0),
        ("file.close", 0, 0),
    ]
    assert {e.target for e in outcome.trace} == {"journal-<n>"}
    rest = [e.op for e in outcome.trace if e.loc.startswith("__main__:<module>")]
    assert rest == ["file.create", "file.truncate", "file.map_write", "file.close", "file.close"]


WRITERS = {
    "pickle": "import pickle\ndef write():\n    with open('f', 'wb') as f:\n        pickle.dump(list(range(9)), f)",
    "marshal": "import marshal\ndef write():\n    with open('f', 'wb') as f:\n        marshal.dump([1], f)",
    "json": "import json\ndef write():\n    with open('f', 'w') as f:\n        json.dump({'a': 1}, f)",
    "csv": "import csv\ndef write():\n    with open('f', 'w') as f:\n        csv.writer(f).writerow([1, 2])",
    "print": "def write():\n    with open('f', 'w') as f:\n        print('x', file=f)",
    "gzip": "import gzip\ndef write():\n    with gzip.open('f', 'wb') as f:\n        f.write(b'x')",
    "zipfile": "import zipfile\ndef write():\n    with zipfile.ZipFile('f', 'w') as f:\n        f.writestr('a', 'x')",
    "copyfileobj": "import io, shutil\ndef write():\n    with open('f', 'wb') as f:\n"
    "        shutil.copyfileobj(io.BytesIO(b'x'), f)",
    "array": "import array\ndef write():\n    with open('f', 'wb') as f:\n        array.array('i', [1]).tofile(f)",
    "copyfile": "import shutil\ndef write():\n    open('g', 'w').write('x')\n    shutil.copyfile('g', 'f')",
    "writev": "import os\ndef write():\n    os.writev(os.open('f', os.O_CREAT | os.O_WRONLY), [b'x', b'yz'])",
    "sendfile": "import os\ndef write():\n    open('g', 'w').write('x')\n"
    "    os.sendfile(os.open('f', os.O_CREAT | os.O_WRONLY), os.open('g', os.O_RDONLY), 0, 1)",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_writers_in_c_are_recorded(tool, writer):
    outcome = tool.run(WRITERS[writer] + "\nwrite()\n").ok()
    writes = [e for e in outcome.of("file.write") if e.target == "f"]
    assert writes
    assert all(e.stack[-2].startswith("__main__:write#") for e in writes)
    assert sum(e.result for e in writes) >= (tool.data / "f").stat().st_size > 0


def test_raw_files_are_recorded(tool, any_python):
    """Files that other classes open are recorded too, once each."""
    tool.python = any_python
    outcome = tool.run(
        """
        import io
        class Own(io.FileIO):
            pass
        with io.FileIO("raw", "w") as file:
            file.write(b"x")
        with Own("raw", mode="r") as file:
            file.read(1)
        with open("plain", "wb", buffering=0) as file:
            file.write(b"x")
        kept = io.FileIO("raw")
        with open(kept.fileno(), "rb", closefd=False) as file:
            pass
        try:
            io.FileIO("none")
        except FileNotFoundError as error:
            print(error.filename)
        try:
            io.FileIO()
        except TypeError:
            print("arguments")
        """
    ).ok()
    assert outcome.out == "none\narguments\n"
    assert outcome.short("file.create", "file.open", "file.write", "file.read") == [
        "file.create raw",
        "file.write raw",
        "file.open raw",
        "file.read raw",
        "file.create plain",
        "file.write plain",
        "file.open raw",
        "file.open none",
    ]


def test_opening_a_raw_file_can_fail(tool, any_python):
    tool.python = any_python
    for place in ("before", "after"):
        tool.step({"fault": "error", "error": "EIO"}, {"op": "file.create", "target": place, "place": place})
    outcome = tool.run(
        """
        import io, os
        for name in ("before", "after"):
            file = io.FileIO.__new__(io.FileIO)
            try:
                file.__init__(name, "w")
            except OSError as error:
                print(name, error.errno, file.closed, os.path.exists(name))
        """
    ).ok()
    assert outcome.out == "before 5 True False\nafter 5 True True\n"


def test_imported_modules_are_not_files_of_the_target(tool, any_python):
    tool.python = any_python
    (tool.data / "module.py").write_text("x = 1\n")
    outcome = tool.run(
        "import sys; sys.path.insert(0, '.'); import module; del sys.modules['module']; import module"
    ).ok()
    assert not [event for event in outcome.of("file.open", "file.read") if "module" in event.target]


def test_links_and_path_checks_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import os
        open("file", "w").close()
        os.link("file", "hard")
        os.symlink("file", "soft")
        os.symlink("folder", "other", target_is_directory=True)
        os.lstat("soft")
        print(os.access("file", os.R_OK), os.access("none", os.R_OK), os.access("/", os.R_OK))
        try:
            os.link("none", "hard")
        except FileNotFoundError as error:
            print(error.filename, error.filename2)
        """
    ).ok()
    assert outcome.out == "True False True\nnone hard\n"
    assert outcome.short("file.create", "file.stat") == [
        "file.create file",
        "file.create hard",
        "file.create soft",
        "file.create other",
        "file.stat soft",
        "file.stat file",
        "file.stat none",
        "file.create hard",
    ]


def test_links_and_path_checks_can_fail(tool):
    tool.step({"fault": "error", "error": "ENOSPC"}, {"op": "file.create", "target": "soft"})
    tool.step({"fault": "error", "error": "EIO"}, {"op": "file.stat", "target": "file"})
    tool.step({"fault": "error", "error": "EIO"}, {"op": "file.stat", "target": "file", "place": "after", "nth": 2})
    outcome = tool.run(
        """
        import os
        open("file", "w").close()
        try:
            os.symlink("file", "soft")
        except OSError as error:
            print(error.errno, error.filename, error.filename2)
        print(os.access("file", os.R_OK), os.access("file", os.R_OK), os.access("file", os.R_OK))
        """
    ).ok()
    assert outcome.out == "28 file soft\nFalse False True\n"


def test_creating_an_existing_file_is_a_failed_create(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import io, os
        open("lock", "x").close()
        for create in (
            lambda: open("lock", "x"),
            lambda: os.open("lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
            lambda: io.FileIO("lock", "x"),
        ):
            try:
                create()
            except FileExistsError:
                pass
            else:
                raise AssertionError
        """
    ).ok()
    made = [(e.op, e.error) for e in outcome.trace if e.op in ("file.create", "file.open")]
    assert made == [("file.create", ""), *[("file.create", "EEXIST")] * 3]


def test_only_its_user_can_read_an_agents_files(tool):
    before = os.umask(0)
    try:
        tool.run("open('x', 'w').close()").ok()
    finally:
        os.umask(before)
    files = [path for path in tool.trace_dir.iterdir() if path.is_file()]
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


OPENERS = """
    import io, os, tempfile

    def elsewhere(path, flags):
        return os.open("opened", flags | os.O_CREAT, 0o600)

    def write(file):
        with file:
            file.write(b"x")

    write(open("named", "wb", buffering=0, opener=elsewhere))
    write(io.FileIO("named", "w", opener=elsewhere))
    os.mkdir("folder")
    write(tempfile.NamedTemporaryFile(dir="folder", prefix="temporary", buffering=0))
"""


def test_a_file_that_an_opener_opens_is_recorded_instead_of_the_name_that_it_gets(tool, any_python):
    tool.python = any_python
    outcome = tool.run(OPENERS).ok()
    seen = [(e.op, os.path.basename(e.resource)) for e in outcome.trace if e.op in ("file.create", "file.open", "file.write")]
    *opened, created, written = seen
    assert opened == [
        ("file.create", "opened"),
        ("file.write", "opened"),
        ("file.open", "opened"),
        ("file.write", "opened"),
    ]
    assert (created[0], written[0]) == ("file.create", "file.write")
    assert created[1] == written[1]
    assert created[1].startswith("temporary")


def test_a_file_that_is_sent_through_a_socket_pair_or_a_pipe_is_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import os, socket

        def send(goal):
            with open("file", "rb") as file:
                assert os.sendfile(goal, file.fileno(), 0, 100) == 5

        with open("file", "wb") as file:
            file.write(b"12345")
        one, other = socket.socketpair()
        send(one.fileno())
        with open("file", "rb") as file:
            assert one.sendfile(file) == 5
        assert other.recv(100) == b"12345" * 2
        readable, writable = os.pipe()
        send(writable)
        assert os.read(readable, 100) == b"12345"
        """
    ).ok()
    assert [e.result for e in outcome.of("pipe.write") if e.result] == [5, 5, 5]
    assert [e.result for e in outcome.of("pipe.read")] == [10, 5]
