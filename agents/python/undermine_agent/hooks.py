"""The table of hooks: some are installed at once, the others when the target imports the module that they hook.

It never imports a module that is to be hooked.
"""

from __future__ import annotations

import atexit
import os
import sys

from undermine_agent.files import kernel_copies, regular_files
from undermine_agent.interpreter import forks
from undermine_agent.patching.patch import ImportWatch

FAMILIES = ("sync", "time", "handover", "process", "raw")
"""The families that can be observed, in addition to deaths and the operations at which faults are possible."""


def install(agent) -> None:
    observed = agent.config.get("observe", FAMILIES)
    if "process" in observed:
        from undermine_agent.files.pipes import Pipes

        agent.pipes = Pipes(agent)

    def on(*names: str):
        """Hooks for one module, each as "room.module.function". If one fails, the others are still installed.

        The word before a colon is the family that must be observed for the hook.
        """
        split = [name.rpartition(": ") for name in names]
        chosen = [name for family, _, name in split if not family or family in observed]

        def hook(*imported):
            for name in chosen:
                module, _, function = name.rpartition(".")
                install_one(module, function, imported)

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
        on("wire.stack_dump.install")()
    regular_files.install(agent)
    kernel_copies.install(agent)
    on("sync: sync.locks.install", "process: handover.processes.install", "process: files.pipes.install")()
    on("time: sync.clocks.install", "handover.raw_threads.install")()
    wanted = {
        "socket": on(
            "net.sockets.install",
            "files.kernel_copies.install_socket",
            "time: sync.clocks.install_socket",
            "process: files.pipes.install_pairs",
        ),
        "ssl": on("net.tls.install"),
        "select": on("handover: sync.clocks.install_select"),
        "selectors": on("handover: sync.clocks.install_selectors"),
        "mmap": on("files.mapped_files.install"),
        "_sqlite3": on("files.sqlite.install"),
        "subprocess": on("process: handover.processes.install_subprocess"),
        "threading": on("handover.threads.install", "sync: sync.waits.install_threading"),
        "queue": on("handover: handover.queues.install_queue"),
        "concurrent.futures._base": on(
            "sync: sync.waits.install_futures",
            "sync: sync.multi_wait.install_threads",
            "handover: handover.executors.install_callbacks",
        ),
        "concurrent.futures.thread": on("handover: handover.executors.install_threads"),
        "concurrent.futures.process": on("handover: handover.executors.install_processes"),
        "multiprocessing.process": on("process: sync.waits.install_processes"),
        "multiprocessing.synchronize": on("sync: sync.waits.install_semaphores"),
        "multiprocessing.connection": on(
            "process: files.pipes.install_connections",
            "sync: sync.waits.install_connections",
            "handover: sync.clocks.install_connections",
        ),
        "multiprocessing.queues": on("handover: handover.executors.install_queues"),
        "multiprocessing.pool": on("sync: handover.executors.install_results"),
        "asyncio.base_events": on(
            "handover: handover.event_loop.install_loop", "handover: sync.clocks.install_loop", "handover.tasks.install"
        ),
        "asyncio.selector_events": on("handover: handover.event_loop.install_readers", "net.transports.install"),
        "asyncio.streams": on("handover: net.stream_reads.install", "sync: net.transports.install_streams"),
        "asyncio.sslproto": on("net.tls.install_asyncio"),
        "asyncio.futures": on("sync: sync.async_waits.install_chain"),
        "asyncio.tasks": on("time: sync.clocks.install_asyncio", "sync: sync.async_waits.install_tasks"),
        "asyncio.taskgroups": on("sync: sync.multi_wait.install_groups"),
        "asyncio.timeouts": on("time: sync.clocks.install_timeouts"),
        "asyncio.locks": on("sync: sync.async_waits.install_locks"),
        "asyncio.queues": on("handover: sync.async_waits.install_queues"),
    }
    agent.imports = ImportWatch(wanted)
    agent.imports.start()
    if agent.variables is not None:
        agent.variables.install(agent.imports)
    if "heap" in agent.config:
        on("heap.imports.install")()
    if "labels" in agent.config:
        on("labels.imports.install")()
    if agent.config.get("operations"):
        on("logical.user_functions.install")()
    if agent.config.get("adapters"):
        on("adapters.install")()
    forks.install(agent)
    os.register_at_fork(after_in_child=agent.after_fork)
    atexit.register(agent.stop)
