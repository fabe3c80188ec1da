"""The clock of nodes and clients that run faster than true time (`run.speed`): builds and loads the library that makes it so.

One library in C serves every runtime (`agents/clock/undermine_clock.c`). All processes of a run count from the same origin, so
their clocks agree whenever each of them starts, and a true time can be computed from a process's own.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from undermine.model.errors import UserError
from undermine.resources import c_compiler, cache_dir, clock_source, readable_copy

VARIABLE = "UNDERMINE_CLOCK"
PRELOAD = "LD_PRELOAD"
NAME = "undermine_clock.so"
BUILD_S_MAX = 120
_FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_NEEDED = "run.speed needs a C compiler, to build the library that makes clocks faster"
_ELF_INTERPRETER = 3


class TargetClock(msgspec.Struct, frozen=True):
    """The clock of all nodes and clients of a run: `speed` times faster than the true one, since `origin_ns`."""

    speed: int = 1
    origin_ns: int = 0

    @staticmethod
    def begin(speed: int) -> TargetClock:
        """A clock that shows the true time now."""
        return TargetClock(speed, time.monotonic_ns() if speed != 1 else 0)

    def settings(self) -> dict[str, int]:
        """The part of an agent's configuration file about it."""
        return {"speed": self.speed, "origin_ns": self.origin_ns} if self.speed != 1 else {}

    def environment(self, env: Mapping[str, str], copies: Path | None = None) -> dict[str, str]:
        """A copy of this environment, with the variables that give a process this clock. `copies`: see `Runtime.environment`."""
        return preloading(env, self, copies) if self.speed != 1 else dict(env)

    def true_ns(self, t_ns: int) -> int:
        """A moment of its monotonic clock, as the true one shows it."""
        return t_ns if self.speed == 1 else self.origin_ns + (t_ns - self.origin_ns) // self.speed


TRUE = TargetClock()


def preloading(env: Mapping[str, str], clock: TargetClock, copies: Path | None = None) -> dict[str, str]:
    """A copy of this environment, in which processes load the library and begin with this clock."""
    file = library()
    file = readable_copy(file.parent, copies) / file.name
    if {" ", ":"} & set(str(file)):
        raise UserError(f'run.speed needs a library at {file}, but the loader splits its path at " " and ":"; set XDG_CACHE_HOME')
    others = env.get(PRELOAD, "")
    return {**env, PRELOAD: f"{file}:{others}".rstrip(":"), VARIABLE: f"{clock.speed} {clock.origin_ns}"}


# --- in a process that has loaded the library


_own = TRUE
"""The clock of this process. A program that a workload starts has it from its environment."""
if len(_words := os.environ.get(VARIABLE, "").split()) == 2 and NAME in os.environ.get(PRELOAD, ""):
    _own = TargetClock(*map(int, _words))


def use(clock: TargetClock) -> None:
    """Let this process, which has loaded the library, and the programs that it starts have this clock from now on."""
    global _own
    change = ctypes.CDLL(None).undermine_clock_set
    change.argtypes, change.restype = (ctypes.c_int64, ctypes.c_int64), None
    change(clock.speed, clock.origin_ns)
    os.environ[VARIABLE] = f"{clock.speed} {clock.origin_ns}"
    _own = clock


def true_monotonic_ns() -> int:
    """The true monotonic clock, whatever clock this process has."""
    return _own.true_ns(time.monotonic_ns())


# --- building


@cache
def library() -> Path:
    """The library, built now if it is missing. Raises a `UserError` if it cannot be built."""
    source = clock_source().read_bytes()
    digest = hashlib.blake2b(source + " ".join(_FLAGS).encode(), digest_size=8).hexdigest()
    file = cache_dir() / f"clock-{digest}" / NAME
    if file.exists():
        return file
    compiler = c_compiler()
    if compiler is None:
        raise UserError(f"{_NEEDED}: install cc, gcc or clang (on Debian the package gcc with libc6-dev), or set run.speed to 1")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder, NAME)
        command = [compiler, *_FLAGS, str(clock_source()), "-o", str(made), "-ldl"]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S_MAX, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            raise UserError(f"{_NEEDED}, but {compiler} failed: {said[0] if said else error}; set run.speed to 1") from None
        os.replace(made, file)
    return file


# --- programs that cannot load it


def cannot_load(program: str) -> str:
    """Why this program ignores LD_PRELOAD and so keeps the true clock; "" if it doesn't, or isn't found."""
    found = shutil.which(program)
    try:
        with open(found or program, "rb") as file:
            head = file.read(1 << 16)
    except OSError:
        return ""
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n")[0].decode(errors="replace").split()
        return cannot_load(words[0]) if words else ""
    return f"{program} is linked statically" if _is_static(head) else ""


def _is_static(head: bytes) -> bool:
    """Is this the beginning of a 64-bit ELF file that names no dynamic linker?"""
    if head[:5] != b"\x7fELF\x02":
        return False
    (at,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    ends = (at + number * size for number in range(count))
    return not any(struct.unpack_from("<I", head, end)[0] == _ELF_INTERPRETER for end in ends if end + 4 <= len(head))
