"""The Undermine agent for Python targets: watches operations, writes them down, and injects what a plan asks for.

Loaded by `sitecustomize` into every Python process of a node. Uses the standard library only, as little of it
as possible at start-up, and never imports a module before the target does if that module is to be hooked.
It starts no thread and never raises into the host but what a plan asks for. See protocol/README.md.
"""

from __future__ import annotations

import sys

_loaded: list = []


def load(path: str) -> None:
    """Install the agent that this configuration file describes. Does nothing a second time."""
    if _loaded or not _in_main_interpreter():
        return
    config: dict = {}
    # Compiled once and kept, also where the target asks for no such files: compiling costs more than all the rest.
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        from undermine_agent.wire import tinyjson

        with open(path, encoding="utf-8") as file:
            config.update(tinyjson.loads(file.read()))
        from undermine_agent.interpreter import fast

        fast.load(config.get("accelerator", ""))
        from undermine_agent.agent import Agent
        from undermine_agent.hooks import install

        agent = Agent(config)
        _loaded.append(agent)
        install(agent)
    except Exception as error:
        for agent in _loaded:
            agent.off = True
        _say(config, error)
    finally:
        sys.dont_write_bytecode = keep


def attempt(name: str, function):
    """Do one operation of a client, which asks for it itself: it is not caused by the answer to the operation before."""
    for agent in _loaded:
        if not agent.off and agent.observes("handover"):
            from undermine_agent.handover.give_take import Handover

            handover = Handover(agent)
            return handover.taken(handover.give("client-op", name), function)
    return function()


def _in_main_interpreter() -> bool:
    """C types are shared with sub-interpreters: the agent of the main one is enough, and two would be too many."""
    import _signal  # type: ignore[import-not-found]

    try:
        _signal.set_wakeup_fd(-1)
    except ValueError:
        return False
    return True


def _say(config: dict, error: BaseException) -> None:
    """Fail open, and leave a line that says why."""
    from undermine_agent.core import note_error

    if config:
        note_error(config, error)
