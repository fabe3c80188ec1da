"""Gives the target's modules, and the libraries that it uses, hooks at expressions that make values, when they are imported."""

from __future__ import annotations

import builtins
import os

from undermine_agent.heap.imports import Kept, rewrite_modules
from undermine_agent.labels import hooks as flows
from undermine_agent.labels import rewriting
from undermine_agent.labels.rewriting import HOOK
from undermine_agent.names.sites import is_hosts, is_tools
from undermine_agent.patching import rewriting as shared

GAP = "labels: accesses to the heap are recorded, and code has hooks for one of both"
_OF_THE_LIBRARY = frozenset(("asyncio.streams",))
"""Modules of the standard library whose Python code moves bytes of messages."""


def install(agent) -> None:
    hooks = flows.Hooks(agent._note)
    setattr(builtins, HOOK, hooks.builtin())
    if not agent.config["labels"]:
        return
    if agent.config.get("heap"):
        agent.add_gap(GAP)
        return
    hooks.install(agent.imports.add)
    makers = [shared.__file__, *(os.path.join(os.path.dirname(rewriting.__file__), name) for name in _MAKERS)]
    kept = Kept(agent.config.get("accelerator", ""), "labels", makers, _rewritten)
    rewrite_modules(agent, kept, _counts, HOOK, hooks.builtin())
    agent.begin_labels()


_MAKERS = ("rewriting.py", "hooks.py", "texts.py", "functions.py", "formats.py", "json_format.py", "streams.py")


def _rewritten(source: bytes, path: str):
    return rewriting.rewritten(source, path, flows.NAMES)


def _counts(name: str, path: str) -> bool:
    return (is_hosts(path) and not is_tools(name)) or name in _OF_THE_LIBRARY
