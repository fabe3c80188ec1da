"""Reads the numbers that the target's code uses around a clock read: time limits are among them.

The tool finds in the source which of them a clock reading is compared with. Numbers are found by plain look-ups in
frames, dictionaries, slots and classes. None of the target's code runs: properties and `__getattr__` are left out.
"""

from __future__ import annotations

import sys

from undermine_agent.interpreter import forks
from undermine_agent.interpreter.plain import ABSENT, attribute, imported
from undermine_agent.names.subjects import Subject
from undermine_agent.wire import tinyjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FRAMES_MAX = 3  # the function that reads the clock may be one that the program calls its clock
VALUES_MAX = 40
_PATHS_MAX = 200
_CODES_MAX = 2_000
_NUMBER_MAX = 1e15
_OPTIMIZED = 0x1  # the flag of code whose local variables are not in a dictionary
_SHOW_LOCALS = frozenset(("locals", "vars", "dir", "eval", "exec"))
_COPIES_LOCALS = sys.version_info < (3, 13)


class _Reads:
    """The clock reads in one code object: the paths of its numbers, and by offset the number of reads.

    If it isn't the target's, there are no counts.
    """

    __slots__ = ("code", "paths", "counts")

    def __init__(self, code, is_own: bool):
        self.code = code  # its address must not become another's
        self.paths = paths_of(code) if is_own else []
        self.counts: Any = {} if is_own else None


def install(agent):
    """Return a function that records the numbers around a clock read; its argument is the frame that reads the clock."""
    operation, record, codes = agent.operations["numbers"], agent.record, agent.sites.codes
    known: dict = {}  # by address of a code object

    def near(frame) -> None:
        left = FRAMES_MAX
        while left:
            code = frame.f_code
            reads = known.get(id(code))
            if reads is None:
                if len(known) >= _CODES_MAX:
                    known.clear()
                reads = known[id(code)] = _Reads(code, codes.get(id(code)) is not None)
            counts = reads.counts
            if counts is not None:
                left -= 1
                at = frame.f_lasti
                count = counts[at] = counts.get(at, 0) + 1
                if not count & count - 1 and reads.paths:  # the 1st, 2nd, 4th, 8th… time: numbers seldom change
                    look(frame, reads.paths)
            frame = frame.f_back
            if frame is None:
                return

    def look(frame, paths) -> None:
        state = agent.thread_state()
        if state.busy:
            return
        state.busy = True
        try:
            text = _text(numbers_in(frame, paths))
            stack = agent.sites.stack(state.cursor, frame) if text else None
        except Exception as error:
            agent._note(error)
            return
        finally:
            state.busy = False
        if stack is not None:
            record(operation, Subject("", text), stack)

    return near


def _text(found: dict) -> str:
    items = list(found.items())[:VALUES_MAX]
    return "{" + ",".join(tinyjson.quoted(name) + ":" + repr(value) for name, value in items) + "}" if items else ""


def numbers_in(frame, paths) -> dict:
    """The numbers at these paths, by the path as it is written in the source."""
    code, optimized = frame.f_code, frame.f_code.co_flags & _OPTIMIZED
    copied = _COPIES_LOCALS and optimized
    if copied and (not _SHOW_LOCALS.isdisjoint(code.co_names) or sys.gettrace() or sys.getprofile()):
        return {}  # somebody else may use the copy
    names = frame.f_locals
    if not optimized and type(names) is not dict:  # the body of a class with a mapping of its own
        return {}
    try:
        found = {}
        for text, root, accesses in paths:
            value = names.get(root, ABSENT)
            if value is ABSENT:
                value = frame.f_globals.get(root, ABSENT)
            for is_key, name in accesses:
                if value is ABSENT:
                    break
                value = _item(value, name) if is_key else attribute(value, name)
            number = _number(value)
            if number is not None:
                found[text] = number
        return found
    finally:
        if copied:
            names.clear()  # the copy must not keep alive what the target lets go


def _number(value):
    """The number itself, the seconds of a duration, or None."""
    kind = type(value)
    if kind is not int and kind is not float:
        if kind is not imported("_datetime", "timedelta"):
            return None
        value = value.days * 86400 + value.seconds + value.microseconds / 1e6
    return value if -_NUMBER_MAX < value < _NUMBER_MAX else None


def _item(owner, key):
    return owner.get(key, ABSENT) if type(owner) is dict else ABSENT


# --- which numbers: the names, attributes and items that the code itself uses


def paths_of(code) -> list:
    """The paths in a code object, such as `self.limit` and `conf['limit']`: (text, name, accesses).

    An access is (whether it is a key, the attribute or key).
    """
    found: dict = {}
    path: tuple | None = None
    key = ABSENT
    for loaded, kind in _loads(code):
        if kind == "key":
            key = loaded
            continue
        if kind == "name":
            path = (loaded, loaded, ())
        elif path is not None and kind == "attribute":
            path = ("%s.%s" % (path[0], loaded), path[1], (*path[2], (False, loaded)))
        elif path is not None and kind == "item" and type(key) is str:
            path = ("%s[%r]" % (path[0], key), path[1], (*path[2], (True, key)))
        else:
            path = None
        key = ABSENT
        if path is not None and len(found) < _PATHS_MAX:
            found[path[0]] = path
    return list(found.values())


def _loads(code):
    """Each instruction as (what it loads, its kind); the kind is "" for all others."""
    kinds, extended, skipped = _instructions()
    name_of, more, instructions = _local_names(code), 0, code.co_code
    for at in range(0, len(instructions), 2):
        op, arg = instructions[at], instructions[at + 1] | more
        if op in skipped:
            continue
        more = arg << 8 if op == extended else 0
        if more or op == extended:
            continue
        kind, shift = kinds.get(op, ("", 0))
        if kind == "local":
            yield name_of(arg), "name"
        elif kind == "locals":  # two in one instruction
            yield name_of(arg >> 4), "name"
            yield name_of(arg & 15), "name"
        elif kind == "then local":  # stores one and loads the other
            yield name_of(arg & 15), "name"
        elif kind == "cell":
            yield (name_of(arg) if sys.version_info >= (3, 11) else (code.co_cellvars + code.co_freevars)[arg]), "name"
        elif kind == "key":
            yield code.co_consts[arg], "key"
        elif kind in ("name", "attribute"):
            yield code.co_names[arg >> shift], kind
        else:
            yield None, kind


def _local_names(code):
    names = code.co_varnames
    other = getattr(code, "_varname_from_oparg", None)
    return lambda number: names[number] if number < len(names) or other is None else other(number)


_KINDS = (
    ("local", "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW"),
    ("locals", "LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW_LOAD_FAST_BORROW"),
    ("then local", "STORE_FAST_LOAD_FAST"),
    ("cell", "LOAD_DEREF"),
    ("name", "LOAD_NAME LOAD_GLOBAL"),
    ("attribute", "LOAD_ATTR"),
    ("key", "LOAD_CONST"),
    ("item", "BINARY_SUBSCR"),
)
_read: list = []


def _instructions():
    """By instruction, its kind and the number of lowest bits in its argument that are flags; then those to be skipped."""
    if not _read:
        opmap = forks.load("opcode", "opmap")
        flags = {"LOAD_GLOBAL": (3, 11), "LOAD_ATTR": (3, 12)}
        kinds = {
            opmap[name]: (kind, 1 if name in flags and sys.version_info >= flags[name] else 0)
            for kind, names in _KINDS
            for name in names.split()
            if name in opmap
        }
        skipped = frozenset(opmap[name] for name in ("CACHE",) if name in opmap)
        _read[:] = [kinds, opmap["EXTENDED_ARG"], skipped]
    return _read
