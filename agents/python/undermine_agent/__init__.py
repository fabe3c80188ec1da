"""The Undermine agent for Python targets: watches operations, writes them down, and injects what a plan asks for.

Loaded by `sitecustomize` into every Python process of a node. Uses the standard library only, as little of it
as possible at start-up, and never imports a module before the target does if that module is to be hooked.
It starts no thread and never raises into the host but what a plan asks for. See protocol/README.md.
"""

from __future__ import annotations

import sys

FAMILIES = ("sync", "time", "handover", "process", "raw")
"""What may be observed besides operations at which faults can be asked for, and deaths."""

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
        from undermine_agent import fast

        fast.load(config.get("accelerator", ""))
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


def attempt(name: str, function):
    """Do one operation of a client, which asks for it itself: it is not caused by the answer to the operation before."""
    for agent in _loaded:
        if not agent.off and agent.observes("handover"):
            from undermine_agent.handover import Handover

            handover = Handover(agent)
            return handover.taken(handover.give("client-op", name), function)
    return function()


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

    from undermine_agent import copies, files, forks
    from undermine_agent.patch import ImportWatch

    observed = agent.config.get("observe", FAMILIES)
    if "process" in observed:
        from undermine_agent.pipes import Pipes

        agent.pipes = Pipes(agent)

    def on(*places: str):
        """Hooks for one module, each a "module.function" of ours; one that fails keeps no other away.

        What stands before a colon is the family that must be observed for it.
        """
        chosen = [place.rpartition(":") for place in places]
        chosen = [place for family, _, place in chosen if not family or family in observed]

        def hook(*imported):
            for place in chosen:
                install_one(*place.split("."), imported)

        return hook

    def install_one(module: str, function: str, imported) -> None:
        keep, sys.dont_write_bytecode = sys.dont_write_bytecode, False
        try:
            forks.load("undermine_agent." + module, function)(agent, *imported)
        except Exception as error:
            agent._note(error)
        finally:
            sys.dont_write_bytecode = keep

    if agent.config.get("stacks_signal"):
        on("stacks.install")()
    files.install(agent)
    copies.install(agent)
    on("sync:locks.install", "process:processes.install", "process:pipes.install")()
    on("time:clocks.install", "raw_threads.install")()
    wanted = {
        "socket": on(
            "net.install", "copies.install_socket", "time:clocks.install_socket", "process:pipes.install_pairs"
        ),
        "ssl": on("tls.install"),
        "select": on("handover:clocks.install_select"),
        "selectors": on("handover:clocks.install_selectors"),
        "mmap": on("mmaps.install"),
        "_sqlite3": on("sqlite.install"),
        "subprocess": on("process:processes.install_subprocess"),
        "threading": on("threads.install", "sync:sync.install_threading"),
        "queue": on("handover:handover.install_queue"),
        "concurrent.futures._base": on(
            "sync:sync.install_futures", "sync:several.install_threads", "handover:executors.install_callbacks"
        ),
        "concurrent.futures.thread": on("handover:executors.install_threads"),
        "concurrent.futures.process": on("handover:executors.install_processes"),
        "multiprocessing.process": on("process:sync.install_processes"),
        "multiprocessing.synchronize": on("sync:sync.install_semaphores"),
        "multiprocessing.connection": on(
            "process:pipes.install_connections", "sync:sync.install_connections", "handover:clocks.install_connections"
        ),
        "multiprocessing.queues": on("handover:executors.install_queues"),
        "multiprocessing.pool": on("sync:executors.install_results"),
        "asyncio.base_events": on("handover:handover.install_loop", "handover:clocks.install_loop", "tasks.install"),
        "asyncio.selector_events": on("handover:handover.install_readers", "aio.install"),
        "asyncio.streams": on("handover:reading.install", "sync:aio.install_streams"),
        "asyncio.sslproto": on("tls.install_asyncio"),
        "asyncio.futures": on("sync:async_sync.install_chain"),
        "asyncio.tasks": on("time:clocks.install_asyncio", "sync:async_sync.install_tasks"),
        "asyncio.taskgroups": on("sync:several.install_groups"),
        "asyncio.timeouts": on("time:clocks.install_timeouts"),
        "asyncio.locks": on("sync:async_sync.install_locks"),
        "asyncio.queues": on("handover:async_sync.install_queues"),
    }
    agent.imports = ImportWatch(wanted)
    agent.imports.start()
    if agent.variables.mine:
        agent.variables.install(agent.imports)
    if agent.config.get("operations"):
        on("named.install")()
    if agent.config.get("adapters"):
        on("adapters.install")()
    forks.install(agent)
    os.register_at_fork(after_in_child=agent.after_fork)
    atexit.register(agent.stop)


def _say(config: dict, error: BaseException) -> None:
    """Fail open, and leave a line that says why."""
    from undermine_agent.agent import note_error

    if config:
        note_error(config, error)
