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
        from undermine_agent import tinyjson

        with open(path, encoding="utf-8") as file:
            config.update(tinyjson.loads(file.read()))
        from undermine_agent.agent import Agent

        agent = Agent(config)
        _loaded.append(agent)
        _install(agent)
    except Exception as error:
        for agent in _loaded:
            agent.off = True
        _say(config, error)
    finally:
        sys.dont_write_bytecode = keep


def _in_main_interpreter() -> bool:
    """C types are shared with sub-interpreters: the agent of the main one is enough, and two would be too many."""
    import _signal

    try:
        _signal.set_wakeup_fd(-1)
    except ValueError:
        return False
    return True


def _install(agent) -> None:
    import atexit
    import os

    from undermine_agent import files, locks
    from undermine_agent.patch import ImportWatch

    def on(module: str, function: str):
        def hook(imported):
            keep, sys.dont_write_bytecode = sys.dont_write_bytecode, False
            try:
                hooks = __import__("undermine_agent." + module, fromlist=[function])
                getattr(hooks, function)(agent, imported)
            except Exception as error:
                agent._note(error)
            finally:
                sys.dont_write_bytecode = keep

        return hook

    files.install(agent)
    locks.install(agent)
    wanted = {
        "socket": on("net", "install"),
        "threading": on("threads", "install"),
        "queue": on("locks", "install_queue"),
        "asyncio.base_events": on("tasks", "install"),
    }
    ImportWatch(wanted).start()
    os.register_at_fork(after_in_child=agent.after_fork)
    atexit.register(agent.stop)


def _say(config: dict, error: BaseException) -> None:
    """Fail open, and leave a line that says why."""
    from undermine_agent.agent import note_error

    if config:
        note_error(config, error)
