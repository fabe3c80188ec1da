"""Low-level calls that Python lacks: changing a C type, mapping a file without keeping it open, resetting a
connection.

It uses `_ctypes` directly, since `import ctypes` costs ten times as much. It doesn't use the `mmap` module, whose
objects hold a duplicate of the file descriptor: a target that closes all descriptors when it becomes a daemon would
later see one of its own closed by the agent.
"""

from __future__ import annotations

import _ctypes
import gc
import os

_PROT_READ_WRITE = 3
_MAP_SHARED = 1
_open, _close, _fstat = os.open, os.close, os.fstat


class _Object(_ctypes._SimpleCData):
    _type_ = "O"


class _Pointer(_ctypes._SimpleCData):
    _type_ = "P"


class _Long(_ctypes._SimpleCData):
    _type_ = "l"


class _Int(_ctypes._SimpleCData):
    _type_ = "i"


class _Flags(_ctypes._SimpleCData):
    _type_ = "L"


class _Byte(_ctypes._SimpleCData):
    _type_ = "B"


class _Text(_ctypes._SimpleCData):
    _type_ = "z"


class _Library:
    """The handle that `_ctypes` expects of a library. None opens the running program itself."""

    _handle = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]


class _PythonFunction(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    _restype_ = None


class _AddressFunction(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL
    _restype_ = _Pointer


class _StatusFunction(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL
    _restype_ = _Int


class _UnyieldingFunction(_ctypes.CFuncPtr):
    """A C function during which no other Python thread runs."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    _restype_ = _Int


_type_modified = _PythonFunction(("PyType_Modified", _Library))  # type: ignore[arg-type]
_type_modified.argtypes = (_Object,)
_mmap = _AddressFunction(("mmap", _Library))  # type: ignore[arg-type]
_mmap.argtypes = (_Pointer, _Long, _Int, _Int, _Int, _Long)
_munmap = _StatusFunction(("munmap", _Library))  # type: ignore[arg-type]
_munmap.argtypes = (_Pointer, _Long)
_connect = _StatusFunction(("connect", _Library))  # type: ignore[arg-type]
_connect.argtypes = (_Int, _Text, _Int)
_open_now = _UnyieldingFunction(("open", _Library))  # type: ignore[arg-type]
_open_now.argtypes = (_Text, _Int)
_write_now = _UnyieldingFunction(("write", _Library))  # type: ignore[arg-type]
_write_now.argtypes = (_Int, _Text, _Long)

# The field `tp_flags` of a type, behind 21 fields of a pointer's size.
_FLAGS_OFFSET = 21 * _ctypes.sizeof(_Pointer)
_IMMUTABLE, _HEAP = 1 << 8, 1 << 9
_FAILED = (1 << 8 * _ctypes.sizeof(_Pointer)) - 1
_arrays: dict = {}


def set_type_entry(cls: type, name: str, value: object) -> None:
    """Replace one attribute of a C type, which Python code may not change; raise if that fails."""
    entries = gc.get_referents(cls.__dict__)[0]
    if type(entries) is not dict or entries.get(name) is not cls.__dict__[name]:
        raise TypeError("the entries of %r cannot be reached" % cls)
    entries[name] = value
    _type_modified(cls)


def set_slot(cls: type, name: str, value: object) -> None:
    """Replace a special method of a C type, so that the interpreter itself calls it (`m[i] = x`, `await f`).

    The type is briefly marked as changeable by Python code: then the interpreter does the rest.
    """
    flags = _Flags.from_address(id(cls) + _FLAGS_OFFSET)
    before = flags.value
    if before != cls.__flags__:
        raise TypeError("the flags of %r cannot be reached" % cls)
    flags.value = before & ~_IMMUTABLE | _HEAP
    try:
        type.__setattr__(cls, name, value)
    finally:
        # Don't restore the old value: setting an attribute changes flags of its own.
        flags.value = flags.value & ~(_IMMUTABLE | _HEAP) | before & (_IMMUTABLE | _HEAP)
    _type_modified(cls)


def map_part(fd: int, offset: int, size: int) -> memoryview:
    """Map a part of an open file, shared and writable. The descriptor may be closed afterwards."""
    address = _mmap(None, size, _PROT_READ_WRITE, _MAP_SHARED, fd, offset)
    if address in (None, _FAILED):
        raise OSError("mmap failed")
    array = _arrays.get(size)
    if array is None:
        array = _arrays[size] = type("Bytes", (_ctypes.Array,), {"_type_": _Byte, "_length_": size})
    return memoryview(array.from_address(address)).cast("B")  # type: ignore[union-attr]


def unmap(view: memoryview) -> None:
    """Unmap a mapped part. Nobody may touch the view afterwards."""
    array = view.obj
    address, size = _ctypes.addressof(array), len(view)  # type: ignore[arg-type]
    view.release()
    _munmap(address, size)


def map_file(path: str) -> memoryview:
    """Map a whole existing file."""
    fd = _open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return map_part(fd, 0, _fstat(fd).st_size)
    finally:
        _close(fd)


def reset_connection(fd: int) -> None:
    """Reset a TCP connection: both sides see it, also while they wait. The descriptor stays open."""
    _connect(fd, bytes(16), 16)  # an address without a family


def write_at_once(path: str, data: bytes) -> None:
    """Write to an existing file without letting another thread run. The descriptor stays open."""
    fd = _open_now(os.fsencode(path), os.O_WRONLY | os.O_CLOEXEC)
    if fd >= 0:
        _write_now(fd, data, len(data))
