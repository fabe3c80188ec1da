"""Records accesses to the heap that happen inside handlers.

Each hook that `rewriting` put into the target's code is a subscript of the one object here. Outside handlers it only
returns the program's value; objects that are stored there get their names. Inside a handler, the same access is recorded
once, and again when the place has been written since.

A thread is in a handler after it has received a message or an item, and while it runs a callback, a call or a step of a
task. A thread that sleeps or waits with a limit in between polls: it counts as one handler that never ends.
"""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]

from undermine_agent.heap.names import (
    ANY,
    CLASS,
    CODE,
    CONTAINERS,
    MAPPING,
    MISSING,
    MODULE,
    SCALAR,
    SEQUENCE,
    SET,
    Name,
    Names,
    Scratch,
    attribute,
    caller,
    element_edge,
    is_plain,
    key_text,
    looked_up,
)
from undermine_agent.heap.rewriting import (
    FIRST,
    ITERATES,
    KINDS,
    METHOD,
    METHOD_KEY,
    REBOUND,
    STORE,
    STORE_ITEM,
    STORE_KEY,
    STORES,
    WITH_SIZE,
)
from undermine_agent.interpreter import fast
from undermine_agent.names.sites import target_modules
from undermine_agent.names.subjects import Subject, content_of, mask

RECORDS_MAX = 200_000
GAP = "accesses to the heap after the first 200,000 of the process"
SUBJECTS_MAX = 20_000
STEADY_MAX = 100_000
VERSIONS_MAX = 200_000
TEXT_MAX = 32
ADDED, REMOVED = 1, 2
# The operations with which a thread's handler begins (1), and those between which it polls (2).
OPENERS = {
    **dict.fromkeys(("handover.take", "net.recv", "msg.recv", "raw.recv", "stream.read", "pipe.read", "queue.get"), 1),
    **dict.fromkeys(("sleep", "event.wait", "cond.wait"), 2),
}
_MEMBERS = "_member_map_"
_SLOT = type(Scratch.__dict__["held"])


class Accesses:
    """Decides what a hook shows, and records it."""

    def __init__(self, agent):
        self.agent = agent
        self.names = Names(target_modules(agent.sites.packages))
        self.read_operation, self.write_operation = agent.operations["heap.read"], agent.operations["heap.write"]
        self.subjects: dict = {}
        self.of_classes: dict = {}  # by address and name: what a class has under a name
        self.written: set = set()  # places that handlers have written
        self.versions: dict = {}  # by place: how often it was written
        self.steady: set = set()  # other places with an object in them, and where they were read
        self.left = RECORDS_MAX
        self.kinds = (
            self._read, self._read_of, self._item, self._push, self._key, self._store, self._store_of, self._store_item,
            self._store_key, self._push, self._delete, self._delete_item, self._delete_key, self._change, self._change_item,
            self._change_key, self._method, self._method_key, self._contains, self._contains_pushed, self._size,
            self._global, self._global_store, self._global_change,
        )  # fmt: skip
        for name, opens in OPENERS.items():
            agent.operations[name].opens = opens

    def after_fork(self) -> None:
        self.left = RECORDS_MAX
        if GAP in self.agent.gaps:
            self.agent.gaps.remove(GAP)

    def note(self, parts: tuple) -> None:
        """Record what one hook shows, if it is worth anything. Never raises."""
        agent = self.agent
        state = agent.thread_state()
        if state.busy or agent.off or not self.left:
            return
        state.busy = True
        try:
            scratch = state.heap
            if scratch is None:
                scratch = state.heap = Scratch()
            self._refresh(scratch, state)
            site = parts[0]
            self.kinds[site[0] & KINDS](scratch, site, *parts[1:])
            if not scratch.handler and site[0] & KINDS in _END_A_STORE:
                scratch.forget()
        except Exception as error:
            agent._note(error)
        finally:
            state.busy = False

    def _refresh(self, scratch: Scratch, state) -> None:
        """Forget what belongs to the handler before."""
        if scratch.extent != state.extent:
            scratch.extent, scratch.pauses = state.extent, state.pauses
            scratch.recorded.clear()
            scratch.forget()
        elif scratch.pauses != state.pauses:
            scratch.pauses = state.pauses
            scratch.forget()
        scratch.handler = state.extent or state.pauses

    # --- records

    def _record(self, scratch, site, write: bool, owner: Name, edge: str, content: str = "", result: int = 0) -> None:
        place = owner.place(edge)
        version = self.versions.get(place, 0)
        if write:
            if len(self.versions) >= VERSIONS_MAX:
                self.versions.clear()
            self.versions[place] = version + 1
        if not scratch.handler:
            return
        key = site, write, owner, edge, content, result, version
        if key in scratch.recorded:
            return
        scratch.recorded.add(key)
        if write:
            self.written.add(place)
        self.left -= 1
        agent = self.agent
        subject = self._subject(place, content)
        agent.record(self.write_operation if write else self.read_operation, subject, None, result)
        if not self.left:
            agent.add_gap(GAP)

    def _subject(self, place: str, content: str):
        found = self.subjects.get((place, content))
        if found is None:
            if len(self.subjects) >= SUBJECTS_MAX:
                self.subjects.clear()
            found = self.subjects[place, content] = Subject(mask(place), place, False, content)
        return found

    def _shown(self, scratch, site, write: bool, owner: Name, edge: str, value, result: int = 0, key=MISSING) -> None:
        """Record an access and name the value. MISSING: the value isn't known, or the edge isn't a key."""
        if value is MISSING:
            self._record(scratch, site, write, owner, edge, "", result)
            return
        kind = self.names.kind(type(value))
        if kind is SCALAR:
            self._record(scratch, site, write, owner, edge, content(value), result)
        elif write or not (kind is CODE or self._is_steady(scratch, site, owner.place(edge))):
            self._record(scratch, site, write, owner, edge, "", result)
        self.names.adopt(scratch, value, kind, owner, edge, key)

    def _is_steady(self, scratch, site, place: str) -> bool:
        """Has this way to an object been recorded here, and has no handler changed it? Programs take it all the time."""
        if not scratch.handler or place in self.written:
            return False
        if (site, place) in self.steady:
            return True
        if len(self.steady) >= STEADY_MAX:
            self.steady.clear()
        self.steady.add((site, place))
        return False

    # --- attributes

    def _read(self, scratch, site, owner, value) -> None:
        if not self._is_data(owner, site[1]):
            return
        name = self.names.of(scratch, owner)
        if name is not None:
            self._shown(scratch, site, False, name, _edge(owner, site[1]), value)
            if site[0] & WITH_SIZE:
                self._size(scratch, site, value)

    def _read_of(self, scratch, site, owner) -> None:
        if self._is_data(owner, site[1]):
            self._read(scratch, site, owner, attribute(owner, site[1]))

    def _is_data(self, owner, name: str) -> bool:
        """Is the attribute data of the object itself? A value of its class, or of a module, is if a function stores it there."""
        cls = type(owner)
        if self.names.kind(cls) in (MODULE, CLASS):
            place = self.names.of_root(owner)
            return place is not None and place.place(_edge(owner, name)) in self.written
        key = id(cls), name
        known = self.of_classes.get(key)
        if known is None:
            if len(self.of_classes) >= SUBJECTS_MAX:
                self.of_classes.clear()
            known = self.of_classes[key] = _in_class(cls, name), cls  # kept alive, so that no other class gets its address
        return known[0] is NOT_THERE or (known[0] is DEFAULT and attribute(owner, name) is not MISSING)

    def _store(self, scratch, site, value, owner) -> None:
        name = self.names.of(scratch, owner)
        if name is not None:
            self._shown(scratch, site, True, name, _edge(owner, site[1]), value)

    def _store_of(self, scratch, site, owner) -> None:
        name = self.names.of(scratch, owner)
        if name is not None:
            self._shown(scratch, site, True, name, _edge(owner, site[1]), MISSING)

    def _delete(self, scratch, site, owner) -> None:
        name = self.names.of(scratch, owner)
        if name is not None:
            self._shown(scratch, site, True, name, _edge(owner, site[1]), MISSING, REMOVED)

    def _change(self, scratch, site, owner) -> None:
        self._read_of(scratch, site, owner)
        self._store_of(scratch, site, owner)

    # --- items

    def _push(self, scratch, site, value) -> None:
        scratch.pushed.append((site[2], value))

    def _container(self, scratch, container):
        """The name of a container, and its kind. The name is None if it has none, or if it is an object of another kind."""
        kind = self.names.kind(type(container))
        return (self.names.of(scratch, container) if kind in CONTAINERS else None), kind

    def _item(self, scratch, site, key, container) -> None:
        name, kind = self._container(scratch, container)
        if name is None:
            return
        value, edge = looked_up(container, kind, key), key_text(key)
        if kind is MAPPING:
            self._shown(scratch, site, False, name, edge, value, key=key)
            return
        self._record(scratch, site, False, name, edge, _content_of_known(value))
        self._adopt_element(scratch, value, name, key)

    def _adopt_element(self, scratch, value, name: Name, at: int) -> None:
        if value is not MISSING:
            kind = self.names.kind(type(value))
            self.names.adopt(scratch, value, kind, name, element_edge(kind, at), at)

    def _key(self, scratch, site, key) -> None:
        self._item(scratch, site, key, scratch.popped(site[2]))

    def _store_item(self, scratch, site, key, container) -> None:
        value = scratch.popped(site[2])
        name, kind = self._container(scratch, container)
        if name is None:
            return
        if kind is MAPPING:
            added = is_plain(key) and not dict.__contains__(container, key)
            self._shown(scratch, site, True, name, key_text(key), value, ADDED if added else 0, key)
            return
        self._record(scratch, site, True, name, key_text(key), _content_of_known(value))
        if type(key) is int:
            self._adopt_element(scratch, value, name, key)

    def _store_key(self, scratch, site, key) -> None:
        container = scratch.popped(site[2])
        self._store_item(scratch, site, key, container)

    def _delete_item(self, scratch, site, key, container) -> None:
        name, _ = self._container(scratch, container)
        if name is not None:
            self._record(scratch, site, True, name, key_text(key), "", REMOVED)

    def _delete_key(self, scratch, site, key) -> None:
        self._delete_item(scratch, site, key, scratch.popped(site[2]))

    def _change_item(self, scratch, site, key, container) -> None:
        self._item(scratch, site, key, container)
        self._store_item(scratch, site, key, container)

    def _change_key(self, scratch, site, key) -> None:
        self._change_item(scratch, site, key, scratch.popped(site[2]))

    def _contains(self, scratch, site, key, container) -> None:
        name, kind = self._container(scratch, container)
        if name is None:
            return
        edge = ANY if kind is SEQUENCE else key_text(key)
        self._record(scratch, site, False, name, edge, _has(container, kind, key))

    def _contains_pushed(self, scratch, site, container) -> None:
        key = scratch.popped(site[2])
        self._contains(scratch, site, Ellipsis if key is MISSING else key, container)

    def _size(self, scratch, site, container) -> None:
        name, kind = self._container(scratch, container)
        if name is not None:
            self._record(scratch, site, False, name, ANY, str(length(container)))
            if scratch.handler and (site[0] & ITERATES or site[1] in _READS_WHOLE):
                self.names.adopt_all(scratch, container, kind, name)

    # --- methods of containers

    def _method(self, scratch, site, *parts) -> None:
        container = parts[-1]
        name, kind = self._container(scratch, container)
        if name is None:
            return
        method = site[1]
        if method in _READS_WHOLE:
            self._size(scratch, site, container)
        elif len(parts) == 1 or kind is SEQUENCE or method not in _KEYED_OF[kind]:
            result = ADDED if method in _ADDS else REMOVED if method in _REMOVES else 0
            self._record(scratch, site, True, name, ANY, "", result)
            if len(parts) == 2 and method in _ADDS:
                self._adopt_added(scratch, parts[0], name)
        elif kind is SET:
            self._element(scratch, site, method, parts[0], container, name)
        else:
            self._entry(scratch, site, method, parts[0], container, name)

    def _method_key(self, scratch, site, key) -> None:
        container = scratch.popped(site[2])
        if container is not MISSING:
            self._method(scratch, site, key, container)

    def _entry(self, scratch, site, method, key, container, name) -> None:
        """A method of a dictionary with a key."""
        value, known = looked_up(container, MAPPING, key), is_plain(key)
        absent = known and value is MISSING
        writes = (method == "pop" and not absent) or (method == "setdefault" and (absent or not known))
        result = 0 if not writes or not known else REMOVED if method == "pop" else ADDED
        self._shown(scratch, site, writes, name, key_text(key), value, result, key)

    def _element(self, scratch, site, method, element, container, name) -> None:
        """A method of a set with an element."""
        known = is_plain(element)
        present = known and set.__contains__(container, element)
        result = 0
        if known:
            result = ADDED if method == "add" and not present else REMOVED if method != "add" and present else 0
        self._record(scratch, site, True, name, key_text(element), "", result)
        if method == "add":
            self._adopt_added(scratch, element, name)

    def _adopt_added(self, scratch, value, name: Name) -> None:
        self.names.adopt(scratch, value, self.names.kind(type(value)), name, ANY)

    # --- globals

    def _global(self, scratch, site, value) -> None:
        place, kind = self._global_place(site), self.names.kind(type(value))
        if site[0] & REBOUND and kind is not CODE:
            self._record(scratch, site, False, place, "", content(value))
        self.names.adopt(scratch, value, kind, place, "")

    def _global_store(self, scratch, site, value) -> None:
        place = self._global_place(site)
        self._record(scratch, site, True, place, "", content(value))
        self.names.adopt(scratch, value, self.names.kind(type(value)), place, "")

    def _global_change(self, scratch, site, value) -> None:
        place = self._global_place(site)
        self._record(scratch, site, False, place, "")
        self._record(scratch, site, True, place, "")

    def _global_place(self, site) -> Name:
        return self.names.of_global(caller().f_globals, site[1])


_END_A_STORE = frozenset((STORE, STORE_ITEM, STORE_KEY, METHOD, METHOD_KEY))
_READS_WHOLE = frozenset(("keys", "values", "items", "copy", "index", "count"))
_ADDS = frozenset(("append", "appendleft", "extend", "insert", "add"))
_REMOVES = frozenset(("pop", "popleft", "popitem", "clear", "remove", "discard"))
_KEYED_OF = {MAPPING: frozenset(("get", "pop", "setdefault")), SET: frozenset(("add", "remove", "discard"))}


def content(value) -> str:
    """The text of a small value; "" for all others."""
    cls = type(value)
    if value is None or cls is bool:
        return str(value)
    if cls is int:
        return str(value) if -1_000_000_000 < value < 1_000_000_000 else ""
    if cls is str:
        return content_of(value) if len(value) <= TEXT_MAX else ""
    if _MEMBERS in cls.__dict__:  # an enum
        name = attribute(value, "_name_")
        return name if type(name) is str else ""
    return ""


def _content_of_known(value) -> str:
    return "" if value is MISSING else content(value)


def _edge(owner, name: str) -> str:
    return (":" if type(owner) is type(fast) else ".") + name


NOT_THERE, DEFAULT, COMPUTED = range(3)


def _in_class(cls: type, name: str) -> int:
    """The kind of attribute that a class has under a name. A slot doesn't count: it is data of the object."""
    for base in type.__dict__["__mro__"].__get__(cls):
        if name in base.__dict__:
            found = type(base.__dict__[name])
            if found is _SLOT:
                return NOT_THERE
            return COMPUTED if hasattr(found, "__get__") else DEFAULT
    return NOT_THERE


def _has(container, kind: int, key) -> str:
    if not is_plain(key) or kind is SEQUENCE:
        return ""
    return str(dict.__contains__(container, key) if kind is MAPPING else set.__contains__(container, key))


def length(container) -> int:
    """The size of a container, whatever a subclass of the target says."""
    for base in type.__dict__["__mro__"].__get__(type(container)):
        if base in _LENGTHS:
            return _LENGTHS[base](container)
    return 0


_LENGTHS: dict = {cls: cls.__len__ for cls in (dict, list, set, bytearray, deque)}


class Hooks:
    """The object that the target's code subscripts. The accelerator has one in C."""

    def __init__(self, agent, note):
        self.agent = agent
        self.note = note

    def __getitem__(self, parts):
        flags = parts[0][0]
        try:
            state = self.agent.local.state
            if state.extent or state.pauses or flags & STORES:
                self.note(parts)
        except AttributeError:  # nothing has been recorded in this thread yet
            if flags & STORES:
                self.note(parts)
        return parts[1] if flags & FIRST else parts[-1]


class NoHooks:
    """For a process that records nothing: functions that another process sent may have hooks."""

    def __getitem__(self, parts):
        return parts[1] if parts[0][0] & FIRST else parts[-1]


def hooks(agent):
    """The hooks of this process."""
    if not agent.config["heap"]:
        return NoHooks()
    agent.heap = Accesses(agent)
    return fast.module.Hooks(agent.heap.note) if fast.module is not None else Hooks(agent, agent.heap.note)
