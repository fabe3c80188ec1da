"""System calls that Python has no function for: prctl, setns and seccomp."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Any

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNET = 0x40000000
_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
_SECCOMP_SET_FILTER = 1
# Keep CPU speculation; return a listener; only SIGKILL wakes a call that waits for its answer.
_SECCOMP_FLAGS = 0x4 | 0x8 | 0x20
_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: Any) -> None:
    argument = value if isinstance(value, bytes) else ctypes.c_ulong(value)
    if _libc.prctl(option, argument, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def enter_network(path: str) -> None:
    if not path:
        return
    fd = os.open(path.encode("latin-1"), os.O_RDONLY | os.O_CLOEXEC)
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def install_filter(program: bytes) -> int:
    """Install a seccomp filter on the caller, permanently; return the listener that receives its trapped calls."""
    code = ctypes.create_string_buffer(program, len(program))
    pointer = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    number = _SECCOMP_CALL[os.uname().machine]

    def install() -> int:
        words = map(ctypes.c_long, (number, _SECCOMP_SET_FILTER, _SECCOMP_FLAGS))
        return int(_libc.syscall(*words, pointer))

    listener = install()
    if listener < 0 and ctypes.get_errno() == errno.EACCES:  # without root, the caller must give up set-uid programs first
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        listener = install()
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener
