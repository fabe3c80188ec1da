"""Loads the accelerator that was built for this interpreter, if there is one. Without it the agent is only slower.

Call `load` before importing the modules that use the accelerator's classes: they get them from here.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module `typing` would cost each process some milliseconds
    from types import FrameType
    from typing import Any

# A hook's `make` offers this to the accelerator, which then does the work while no fault is to be decided: (kind,
# operation, subject or known subjects, size, its argument, measure, most arguments, parts, others, their operation).
OBSERVE, DESCRIPTOR, RAW_FILE, SOCKET, PATH, TAKE, PAIR, SOON = range(1, 9)
NOTHING, NUMBER, LENGTH = range(3)
RESULT = 1

module: Any = None
why_not = "no folder to look for it in"
_left_to_python: tuple = ()


def offer(make: Any, kind: int, *native) -> None:
    """Say what the accelerator may do by itself for the hooks that `make` creates."""
    if kind not in _left_to_python:
        make.native = (kind, *native)


def leave_bytes_to_python() -> None:
    """Let the accelerator move no bytes by itself: Python looks at them. Call it before hooks are installed."""
    global _left_to_python
    _left_to_python = (DESCRIPTOR, RAW_FILE, SOCKET, PAIR)


def name() -> str:
    """This agent's name in its introduction."""
    return "python-pure/1" if module is None else "python-fast/1"


def base(class_name: str, otherwise):
    """The accelerator's class of this name; without the accelerator, the Python class `otherwise`."""
    return otherwise if module is None else getattr(module, class_name)


def file_name() -> str:
    """The name of the accelerator's file for this interpreter; no other interpreter can load it."""
    import _imp

    return "fast-%x%s" % (sys.hexversion, _imp.extension_suffixes()[0])


def load(folder: str) -> None:
    """Use the accelerator in this folder. On any error, do without it and keep the reason."""
    global module, why_not
    if not folder:
        return
    try:
        if os.environ.get("UNDERMINE_ACCELERATOR") == "0":
            raise ImportError("UNDERMINE_ACCELERATOR=0")
        found = _import(os.path.join(folder, file_name()))
        if not _understands_frames(found):
            raise ImportError("frames are not what they are taken for")
    except Exception as error:
        why_not = str(error)
        return
    module, why_not = found, ""


def _import(path: str):
    import _imp
    from _frozen_importlib import ModuleSpec

    if sys.implementation.name != "cpython":
        raise ImportError("not CPython")
    if not os.path.exists(path):
        raise ImportError("not built for this interpreter")
    found = _imp.create_dynamic(ModuleSpec("fast", None, origin=path))
    _imp.exec_dynamic(found)
    return found


def _understands_frames(found) -> bool:
    codes: list = []
    frame: FrameType | None = sys._getframe()
    seen = found.look()
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    return len(codes) == len(seen) and all(map(lambda one, other: one is other, codes, seen))
