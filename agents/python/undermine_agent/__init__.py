"""The Undermine agent for Python targets: observes operations, records them, and injects the faults of a plan.

`sitecustomize` loads it into every Python process of a node. It uses only the standard library, and little of that at
start-up. It never imports a module that is to be hooked before the target does. It starts a thread only while a
connection is impaired, and raises only the errors that a plan asks for. See protocol/README.md.

Where to read on, in the order in which the rooms build on each other:

    interpreter   the accelerator's loader, C types and memory, forks
    names         names that recur: of files, call sites, stacks, threads
    patching      how hooks are installed, and how they observe
    wire          the event file, requests to the tool, stack dumps
    core          what every operation passes: enter, decide, leave
    faults        when a step fires, and what it does
    files, net    hooks at which faults are possible
    handover      hooks that record who gives work to whom
    sync          hooks that record locks, waits and time
    heap          accesses to objects that handlers share
    labels        the bytes that values were made from
    logical       functions that count as one operation; `adapters` describe those of libraries
    agent, hooks  the parts put together, and the table of hooks; `content` adds tokens and labels of the bytes that are moved
"""

from __future__ import annotations

import sys

_loaded: list = []


def load(path: str) -> None:
    """Install the agent that this configuration file describes. Does nothing a second time."""
    if _loaded or not _in_main_interpreter():
        return
    config: dict = {}
    # Write the bytecode even if the target asks Python not to: compiling costs more than everything else here.
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        from undermine_agent.wire import tinyjson

        with open(path, encoding="utf-8") as file:
            config.update(tinyjson.loads(file.read()))
        from undermine_agent.interpreter import fast

        fast.load(config.get("accelerator", ""))
        _set_clock(config)
        from undermine_agent.hooks import install

        agent = _agent_class(config)(config)
        _loaded.append(agent)
        install(agent)
    except Exception as error:
        for agent in _loaded:
            agent.off = True
        _report(config, error)
    finally:
        sys.dont_write_bytecode = keep


def _set_clock(config: dict) -> None:
    from undermine_agent.wire import clock

    try:
        clock.begin(config)
    except OSError as error:
        _report(config, error)


def _agent_class(config: dict):
    if config.get("labels"):
        from undermine_agent.content.labelled import LabelAgent

        return LabelAgent
    if config.get("content"):
        from undermine_agent.content.recording import ContentAgent

        return ContentAgent
    from undermine_agent.agent import Agent

    return Agent


def attempt(name: str, function):
    """Run one operation of a client, as a cause of its own: the answer to the previous operation did not cause it."""
    for agent in _loaded:
        if not agent.off and agent.observes("handover"):
            from undermine_agent.handover.give_take import Handover

            handover = Handover(agent)
            return handover.taken(handover.give("client-op", name), function)
    return function()


def _in_main_interpreter() -> bool:
    """Sub-interpreters share C types with the main interpreter, so only the main one loads the agent."""
    import _signal  # type: ignore[import-not-found]

    try:
        _signal.set_wakeup_fd(-1)
    except ValueError:
        return False
    return True


def _report(config: dict, error: BaseException) -> None:
    """Fail open, and write down why."""
    from undermine_agent.core import note_error

    if config:
        note_error(config, error)
