"""Reads the variables of this node, records changed values as samples, and publishes those that triggers use."""

from __future__ import annotations

import _thread
from itertools import count
from time import monotonic_ns

from undermine_agent.names.subjects import Subject
from undermine_agent.patching.patch import on_class
from undermine_agent.variables.paths import Held, Path, Paths
from undermine_agent.variables.reasons import why_nothing
from undermine_agent.variables.texts import name_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DISCARDED_MAX = 20  # readings in a row
_REASONS_MAX = 8
_WAIT_S = 1  # for the lock; a finalizer of the target may run while it is held, and wait for this thread


class Variable:
    """A variable and its last texts by key. `texts` is None before the first reading that counts."""

    def __init__(self, name: str, path: Path, slots: dict):
        self.name = name
        self.path = path
        self.slots = slots
        self.texts: dict | None = None
        self.reading = 0  # the number of the reading that the texts are from
        self.discarded = 0
        self.ever = False  # has the path ever led anywhere?
        self.reasons: list = []  # why it did not

    def read(self):
        """The texts by key now; None if the reading doesn't count."""
        try:
            found = self.path.read(self.discarded >= DISCARDED_MAX)
        except Held:
            self.discarded += 1
            return None
        self.discarded = 0
        return found

    def changes(self, found: dict) -> list:
        """The keys and texts that differ; None is the text of an absent variable."""
        known = self.texts
        if known is None:
            known, expected = {}, [] if self.path.has_keys else [""]
        else:
            expected = list(known)
        changed: list = [(key, text) for key, text in found.items() if known.get(key) != text]
        return changed + [(key, None) for key in expected if key not in found]


class Variables:
    """The variables of this node. Readings are numbered, so that a late thread never replaces a newer value by an older."""

    def __init__(self, agent, descriptions, survey=False):
        paths = Paths()
        name_nodes(agent.config["addresses"])
        self.agent = agent
        self.operation = agent.operations["variable.sample"]
        self.lock = _thread.allocate_lock()
        self.readings = count(1).__next__
        self.last_ns = 0
        self.mine = [Variable(each["name"], paths.path(each["path"]), each["slots"]) for each in descriptions]
        self.roots = list(paths.roots.values())
        self.survey: Any = None
        if survey:
            from undermine_agent.variables.survey import Survey

            self.survey = Survey(agent.config["packages"], Variable, self._changed)

    def install(self, imports) -> None:
        """Watch the classes at which paths start, from the moment their modules are imported."""
        for root in self.roots:
            imports.add(root.module, root.arrived)
        imports.add("asyncio.base_events", self._hook_loop)

    def _hook_loop(self, base_events) -> None:
        """Look before each round of an event loop: the handlers of the round before have ended."""
        look = self.look_now

        def make(original):
            def _run_once(self):
                look()
                return original(self)

            return _run_once

        on_class(base_events.BaseEventLoop, "_run_once", make)

    def watchers(self) -> tuple:
        """For the table: what looks before operations, and after them."""
        return _Before(self), _After(self)

    def look(self, stack=None, t_ns: int = 0) -> None:
        """Read all variables. The agent must be at work in this thread. `t_ns`: when the operation began."""
        reading = self.readings()
        for variable in self.mine:
            found = variable.read()
            if found is not None and found != variable.texts:
                self._changed(variable, found, reading, stack, t_ns)
            if found:
                variable.ever = True
            elif not variable.ever and not variable.discarded:
                self._explain(variable)
        if self.survey is not None:
            self.survey.look(reading, stack, t_ns)

    def look_now(self) -> None:
        """Read all variables where no operation is recorded."""
        agent = self.agent
        if agent.off:
            return
        state = agent.thread_state()
        if state.busy:
            return
        state.busy = True
        try:
            self.look()
        except Exception as error:
            agent._note(error)
        finally:
            state.busy = False

    def _changed(self, variable: Variable, found: dict, reading: int, stack, t_ns: int) -> None:
        if not self.lock.acquire(True, _WAIT_S):
            return
        try:
            if reading < variable.reading:
                return
            if variable.texts is None:
                for key, slot in variable.slots.items():  # an earlier start of the node may have filled it
                    if key not in found:
                        self.agent.state.publish(slot, None)
            for key, text in variable.changes(found):
                if key in variable.slots:
                    self.agent.state.publish(variable.slots[key], text)
                self._record(variable.name, key, text, stack, t_ns)
            variable.texts, variable.reading = found, reading
        finally:
            self.lock.release()

    def _record(self, name: str, key: str, text, stack, t_ns: int) -> None:
        t_ns = self.last_ns = max(t_ns or monotonic_ns(), self.last_ns)
        subject: Any = Subject(name, key, False, text or "")
        self.agent.record(self.operation, subject, stack, 0, 0 if text is None else 1, t_ns)

    def _explain(self, variable: Variable) -> None:
        """Record why a path has never led anywhere: as an absent sample that has a text. It isn't a value."""
        why = why_nothing(variable.path) if len(variable.reasons) < _REASONS_MAX else ""
        if why and why not in variable.reasons:
            variable.reasons.append(why)
            self.agent.record(self.operation, Subject(variable.name, "", False, why), None, 0, 0, monotonic_ns())

    def after_fork(self) -> None:
        self.lock = _thread.allocate_lock()
        if self.survey is not None:
            self.survey.lock = _thread.allocate_lock()


class _Before:
    """Stands in the table before all trigger parts, so that they see current values."""

    def __init__(self, variables: Variables):
        self.look = variables.look

    def reached(self, state, call) -> None:
        self.look(call.stack, call.t_ns)


class _After(_Before):
    def reached(self, state, call) -> None:
        self.look(call.stack)
