"""Hooks of mapped files: slices, items and methods of `mmap.mmap` read and write the file below.

They are operations of their own. A memory access cannot return an error (a page that cannot be read or stored kills
the process), so none is ever raised here; `flush` and `resize` call the system and can fail.

The type stays the same: its special methods are replaced in place. Accesses through the buffer protocol (a
`memoryview`, `struct.pack_into`) are not seen.
"""

from __future__ import annotations

from undermine_agent.files.regular_files import _closed as closed
from undermine_agent.interpreter import native
from undermine_agent.patching.observe import WeakTable
from undermine_agent.patching.patch import dressed, on_slot, on_type


def install(agent, mmap) -> None:
    cls = mmap.mmap
    files = WeakTable()
    _learn(agent, cls, files)
    _hook_items(agent, cls, files)
    for name, op, size_of, measure in (
        ("write", "file.map_write", _length, int),
        ("write_byte", "file.map_write", _one, None),
        ("move", "file.map_write", _third, None),
        ("read", "file.map_read", _asked, len),
        ("readline", "file.map_read", _nothing, len),
        ("read_byte", "file.map_read", _one, _one),
        ("flush", "file.fsync", _nothing, None),
        ("resize", "file.truncate", _asked, None),
    ):
        on_type(cls, name, _transfer(agent, files, op, size_of, measure))
    for name in ("close", "__exit__"):
        on_type(cls, name, _closing(agent, files))


def _learn(agent, cls, files) -> None:
    """Remember which file was mapped when the object is created: it cannot be asked afterwards."""
    original, fds = cls.__init__, agent.paths.fds

    def __init__(self, *args, **options):
        fd = options.get("fileno", args[0] if args else -1)
        subject = fds.get(fd) if type(fd) is int else None
        if subject is not None:
            files.put(self, subject)

    native.set_slot(cls, "__init__", dressed(__init__, original))


def _hook_items(agent, cls, files) -> None:
    read, write = agent.operations["file.map_read"], agent.operations["file.map_write"]
    known, perform = files.known, agent.perform

    def make_get(original):
        def __getitem__(self, key):
            if id(self) not in known:
                return original(self, key)
            return perform(read, files.get(self), _extent(self, key), _extent_of_result, original, self, key)

        return __getitem__

    def make_set(original):
        def __setitem__(self, key, value):
            if id(self) not in known:
                return original(self, key, value)
            return perform(write, files.get(self), _extent(self, key), None, original, self, key, value)

        return __setitem__

    on_slot(cls, "__getitem__", make_get)
    on_slot(cls, "__setitem__", make_set)


def _transfer(agent, files, op, size_of, measure):
    operation, known, perform = agent.operations[op], files.known, agent.perform

    def make(original):
        def method(self, *args, **options):
            subject = files.get(self) if id(self) in known else None
            if subject is None:
                return original(self, *args, **options)
            return perform(operation, subject, size_of(*args), measure, original, self, *args, **options)

        return method

    return make


def _closing(agent, files):
    operation = agent.operations["file.close"]

    def make(original):
        def method(self, *args):
            subject = files.pop(self)
            if subject is None:
                return original(self, *args)
            return closed(agent, operation, subject, -1, lambda: original(self, *args))

        return method

    return make


def _extent(mapped, key) -> int:
    """The number of bytes that a key covers."""
    try:
        return len(range(*key.indices(len(mapped)))) if isinstance(key, slice) else 1
    except (TypeError, ValueError):
        return 0


def _extent_of_result(result) -> int:
    return len(result) if isinstance(result, bytes) else 1


def _length(*args) -> int:
    try:
        return memoryview(args[0]).nbytes
    except (IndexError, TypeError):
        return 0


def _asked(*args) -> int:
    return args[0] if args and type(args[0]) is int and args[0] > 0 else 0


def _third(*args) -> int:
    return args[2] if len(args) == 3 and type(args[2]) is int else 0


def _one(*args) -> int:
    return 1


def _nothing(*args) -> int:
    return 0
