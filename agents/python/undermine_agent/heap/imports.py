"""Gives the target's modules hooks at their accesses to the heap, when they are imported.

Only modules that the usual loader reads from source get hooks. Rewritten code is kept in the folder of accelerators, not
where Python keeps its own: a later run without hooks must not find it. The agent cannot rewrite a script that the
interpreter itself reads (`python script.py`).
"""

from __future__ import annotations

import _frozen_importlib_external as external
import atexit
import builtins
import marshal
import os
import sys

from undermine_agent.heap import rewriting
from undermine_agent.heap.accesses import hooks
from undermine_agent.heap.rewriting import HOOK
from undermine_agent.interpreter import forks
from undermine_agent.names.sites import is_hosts, target_modules
from undermine_agent.patching import rewriting as shared
from undermine_agent.patching.patch import dressed


def install(agent) -> None:
    hook = hooks(agent)
    setattr(builtins, HOOK, hook)
    if not agent.config["heap"]:
        return
    counts = target_modules(agent.sites.packages)
    every = not agent.sites.packages
    kept = Kept(agent.config.get("accelerator", ""), "heap", (shared.__file__, rewriting.__file__), rewriting.rewritten)
    rewrite_modules(agent, kept, lambda name, path: is_hosts(path) if every else counts(name), HOOK, hook)


def rewrite_modules(agent, kept: Kept, counts, name: str, hook) -> None:
    """From now on, give modules that count, by `counts(name, path)`, the code that `kept` makes of their source."""
    rewritten_modules: set = set()
    atexit.register(_outlive_builtins, rewritten_modules, name, hook)
    loader = external.SourceFileLoader
    original = loader.get_code

    def get_code(self, fullname):
        if type(self) is not loader or agent.off or not counts(fullname, self.path):
            return original(self, fullname)
        state = agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            code = kept.code(self.get_data(self.path), self.path)
            rewritten_modules.add(fullname)
        except Exception:  # the original reports what is wrong with the module
            code = None
        finally:
            state.busy = busy
        return original(self, fullname) if code is None else code

    # Python removes its own frames from the traceback of an error in an imported module, by the name of their file.
    get_code.__code__ = get_code.__code__.replace(co_filename=original.__code__.co_filename)
    loader.get_code = dressed(get_code, original)  # type: ignore[method-assign]


def _outlive_builtins(names: set, builtin: str, hook) -> None:
    """Give rewritten modules the hook themselves. Python restores its own builtins before it destroys the last objects, whose
    `__del__` may use the hook."""
    for name in names:
        module = sys.modules.get(name)
        if module is not None:
            vars(module).setdefault(builtin, hook)


class Kept:
    """Rewritten code in a folder, by what it was made from: the source, and the files that rewrite it."""

    def __init__(self, folder: str, kind: str, makers, rewrite):
        self.folder = folder
        self.kind = kind
        self.makers = makers
        self.rewrite = rewrite
        self.made_by = b""

    def code(self, source: bytes, path: str):
        if not self.folder:
            return self._rewritten(source, path)
        file = os.path.join(self.folder, "%s-%s" % (self.kind, self._digest(source, path)))
        try:
            with open(file, "rb") as stored:
                return marshal.loads(stored.read())
        except (OSError, EOFError, ValueError, TypeError):
            pass
        code = self._rewritten(source, path)
        self._keep(file, marshal.dumps(code))
        return code

    def _digest(self, source: bytes, path: str) -> str:
        if not self.made_by:
            for name in self.makers:
                with open(name, "rb") as file:
                    self.made_by += file.read()
        about = ("%x %d %s" % (sys.hexversion, sys.flags.optimize, path)).encode("utf-8", "backslashreplace")
        digest = forks.load("_blake2", "blake2b")(digest_size=16)
        for part in (self.made_by, about, source):
            digest.update(b"%d " % len(part) + part)
        return digest.hexdigest()

    def _rewritten(self, source: bytes, path: str):
        """Python warns about the source when it compiles the module itself."""
        quiet = forks.load("warnings", "catch_warnings")
        with quiet():
            forks.load("warnings", "simplefilter")("ignore")
            return self.rewrite(source, path)[0]

    @staticmethod
    def _keep(file: str, data: bytes) -> None:
        """Write in one step: other processes may write or read the same file."""
        temporary = "%s.%d" % (file, os.getpid())
        try:
            with open(temporary, "wb") as made:
                made.write(data)
            os.replace(temporary, file)
        except OSError:
            pass
