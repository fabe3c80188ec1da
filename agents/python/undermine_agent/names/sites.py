"""Call sites and stacks: which frames are the target's, and the names they keep from run to run.

Code objects are known by address and kept alive, never hashed (that would compare their contents). A site is a code
object and an instruction offset; a stack is a tuple of sites. Each is defined once in the event file.
"""

from __future__ import annotations

import os
import sys

from undermine_agent.interpreter import fast, forks

DEPTH_MAX = 30
DIGEST_SIZE = 6
CODES_MAX = 50_000
STACKS_MAX = 50_000
UNKNOWN = object()

AGENT_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY_DIR = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGE_DIRS = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))


class Stack:
    """One distinct call stack: its id in the event file, and its names for matching."""

    __slots__ = ("id", "locs", "_digest")

    def __init__(self, number: int, locs: tuple):
        self.id = number
        self.locs = locs
        self._digest = ""

    @property
    def loc(self) -> str:
        return self.locs[0]

    @property
    def digest(self) -> str:
        if not self._digest:
            blake2b = forks.load("_blake2", "blake2b")
            self._digest = blake2b("\n".join(self.locs).encode("utf-8", "backslashreplace"), digest_size=DIGEST_SIZE).hexdigest()
        return self._digest


class Sites:
    """All sites and stacks of one event file."""

    def __init__(self, packages):
        self.packages = frozenset(packages)
        # code address -> offset -> frame id, for the target's code; None for all other code. Hooks keep a reference
        # to this dictionary, so it is emptied but never replaced.
        self.codes: dict = {}

    def reset(self, writer) -> None:
        """Start over for an event file that has no definitions yet."""
        self.writer = writer
        self._forget()

    def _forget(self) -> None:
        """Forget all sites. Code objects are released last, when no table has their address any more.

        Another thread may be in `classify`: the new list keeps alive whatever it puts into `codes` after this.
        """
        alive = getattr(self, "alive", None)
        self.alive: list = []
        if fast.module is not None:
            fast.module.forget()
        self.codes.clear()
        self.others: dict = {}
        self.stacks: dict = {}
        self.locs: dict = {}
        del alive

    def stack(self, cursor, frame) -> Stack:
        """The stack of the target's frames from this frame outwards."""
        if len(self.alive) >= CODES_MAX or len(self.stacks) >= STACKS_MAX:  # a target that creates code without end
            self._forget()
        codes = self.codes
        inner = frame
        found = []
        while frame is not None:
            code = frame.f_code
            offsets = codes.get(id(code), UNKNOWN)
            if offsets is UNKNOWN:
                offsets = self.classify(frame)
            if offsets is not None:
                offset = frame.f_lasti
                site = offsets.get(offset)
                if site is None:
                    site = offsets[offset] = self._define(cursor, code, offset, frame.f_globals, frame.f_lineno)
                found.append(site)
                if len(found) == DEPTH_MAX:
                    break
            frame = frame.f_back
        if not found:
            found.append(self._foreign(cursor, inner))
        return self._stack(cursor, tuple(found))

    def stack_of_traceback(self, cursor, traceback) -> Stack:
        """The stack at which an exception was raised, innermost first. If the target's packages have no frame there, it is the
        innermost frame outside the standard library and the agent, such as that of another package; else the innermost one.
        """
        found = []
        of_package = of_library = None
        while traceback is not None:
            frame = traceback.tb_frame
            if is_hosts(frame.f_code.co_filename):
                of_package = traceback
            elif not frame.f_code.co_filename.startswith(AGENT_DIR):
                of_library = traceback
            offsets = self.codes.get(id(frame.f_code), UNKNOWN)
            if offsets is UNKNOWN:
                offsets = self.classify(frame)
            if offsets is not None:
                offset = traceback.tb_lasti
                site = offsets.get(offset)
                if site is None:
                    site = offsets[offset] = self._define(
                        cursor, frame.f_code, offset, frame.f_globals, traceback.tb_lineno
                    )
                found.append(site)
            traceback = traceback.tb_next
        if not found:
            raised = of_package or of_library
            if raised is None:
                return self.stack(cursor, sys._getframe(1))
            frame = raised.tb_frame
            found.append(self._other(cursor, frame.f_code, raised.tb_lasti, frame.f_globals, raised.tb_lineno))
        return self._stack(cursor, tuple(found[: -DEPTH_MAX - 1 : -1]))

    def classify(self, frame):
        """Decide once for a code object whether it is the target's; return its table of offsets or None.

        Code that runs on behalf of its caller (`on_behalf`) must be asked about each time.
        """
        if on_behalf(frame):
            return None
        code = frame.f_code
        offsets: dict | None = {} if self._counts(code.co_filename, frame.f_globals) else None
        self.codes[id(code)] = offsets
        self.alive.append(code)
        if fast.module is not None:
            fast.module.learn(code, offsets is not None)
        return offsets

    def _counts(self, filename: str, names: dict) -> bool:
        if not self.packages:
            return is_hosts(filename) and not is_tools(module_name(names))
        if filename.startswith(("<frozen ", AGENT_DIR)):
            return False
        module = module_name(names)
        if module == "__main__":
            stem = os.path.splitext(os.path.basename(filename))[0]
            return stem in self.packages or module in self.packages
        return any(module == package or module.startswith(package + ".") for package in self.packages)

    def raised_by_host(self, error: BaseException) -> bool:
        """True if an exception that reached the agent passed through code outside the agent."""
        traceback = error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if is_hosts(frame.f_code.co_filename) or self._counts(frame.f_code.co_filename, frame.f_globals):
                return True
            traceback = traceback.tb_next
        return False

    def _foreign(self, cursor, frame) -> int:
        """The innermost frame outside the agent, for stacks without a frame of the target."""
        while frame is not None and frame.f_code.co_filename.startswith(AGENT_DIR):
            frame = frame.f_back
        if frame is None:
            return self._named(cursor, "?:?#0", 0)
        return self._other(cursor, frame.f_code, frame.f_lasti, frame.f_globals, frame.f_lineno)

    def _other(self, cursor, code, offset, names, line) -> int:
        """A site that is not the target's."""
        key = id(code), offset
        site = self.others.get(key)
        if site is None:
            site = self.others[key] = self._define(cursor, code, offset, names, line)
        return site

    def _define(self, cursor, code, offset, names, line) -> int:
        name = getattr(code, "co_qualname", code.co_name)
        return self._named(cursor, "%s:%s#%d" % (module_name(names), name, ordinal(code, offset)), line or 0)

    def _named(self, cursor, loc: str, line: int) -> int:
        number = self.writer.frame(cursor, loc, line)
        self.locs[number] = loc
        return number

    def _stack(self, cursor, frames: tuple) -> Stack:
        known = self.stacks.get(frames)
        if known is None:
            known = Stack(self.writer.stack(cursor, frames), tuple(map(self.locs.__getitem__, frames)))
            self.stacks[frames] = known
        return known


_ENTERS = frozenset(("enter_context", "enter_async_context", "__exit__", "__aexit__", "close", "aclose"))
_ENTERS_WITH = frozenset(((), ("cm",), ("exc_details",)))


def on_behalf(frame) -> bool:
    """True for code of `contextlib.ExitStack`, which enters and exits on behalf of its caller."""
    code = frame.f_code
    if code.co_name not in _ENTERS or frame.f_globals.get("__name__") != "contextlib":
        return False
    return code.co_varnames[1:2] in _ENTERS_WITH


def is_hosts(filename: str) -> bool:
    """False for code of the agent and of the standard library."""
    if filename.startswith(("<frozen ", AGENT_DIR)):
        return False
    return not filename.startswith(_LIBRARY_DIR) or any(part in filename for part in _PACKAGE_DIRS)


def is_tools(module: str) -> bool:
    """True for the tool's own code, which calls the clients of a workload. It counts only if `packages` names it."""
    return module == "undermine" or module.startswith("undermine.")


def target_modules(packages):
    """Return a function that says whether a module is the target's own, by its name."""
    known: dict = {}

    def decide(name: str) -> bool:
        if packages:
            return name == "__main__" or any(name == each or name.startswith(each + ".") for each in packages)
        if name.partition(".")[0] in ("undermine", "undermine_agent", "builtins"):
            return False
        path = getattr(sys.modules.get(name), "__file__", None)
        return type(path) is str and is_hosts(path)

    def counts(name: str) -> bool:
        answer = known.get(name)
        if answer is None:
            answer = known[name] = decide(name)
        return answer

    return counts


def module_name(names: dict) -> str:
    """The module's name; for a module that `-m` runs, the name by which it is imported."""
    name = names.get("__name__")
    if name == "__main__" or name == "__mp_main__":
        spec = names.get("__spec__")
        return getattr(spec, "name", None) or "__main__"
    return name if isinstance(name, str) else "?"


_call_opcodes: list = []


def ordinal(code, offset: int) -> int:
    """The number of calls (also `with`, `await`, `for`) before this offset. It moves less often than a line number."""
    instructions = code.co_code
    # During a call of a Python function, the offset may point into the call's inline cache: zeros after the call.
    while offset > 0 and instructions[offset] == 0:
        offset -= 2
    before = instructions[: max(offset, 0) : 2]
    return sum(map(before.count, call_opcodes()))


def call_opcodes() -> list:
    """The instructions that ordinals count."""
    if not _call_opcodes:
        opmap = forks.load("opcode", "opmap")
        names = ("CALL", "CALL_KW", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_FUNCTION_EX", "CALL_METHOD")
        others = ("SETUP_WITH", "BEFORE_WITH", "BEFORE_ASYNC_WITH", "YIELD_FROM", "SEND", "FOR_ITER")
        _call_opcodes[:] = [opmap[name] for name in names + others if opmap.get(name, 256) < 256]
    return _call_opcodes
