"""Adapters: modules that say which functions of a library are one operation each. docs/adapters.md describes them.

An adapter is a module with one function, `install(hooks)`. It uses nothing of the agent but the `Hooks` it is given.
"""

from __future__ import annotations

import sys

from undermine_agent.interpreter import forks
from undermine_agent.logical.operations import layer_of
from undermine_agent.logical.store_calls import StoreCall
from undermine_agent.patching.observe import WeakTable
from undermine_agent.patching.patch import on_class

BUILTIN = {"http": "http", "redis": "redis", "streams": "asyncio", "tornado": "tornado"}
"""The adapters of the agent itself, and the package with whose import each is loaded."""


def install(agent) -> None:
    layer = layer_of(agent)
    for entry in agent.config.get("adapters", ()):
        name, path = entry["adapter"], entry.get("path", "")
        hooks = Hooks(layer, name, entry.get("options") or {})
        if path:
            hooks.attempt(load_file, hooks, name, path)
        elif name in BUILTIN:
            hooks.when_imported(BUILTIN[name], load_builtin(hooks, name))
        else:
            layer.trouble("there is no adapter %r" % name)


def load_builtin(hooks, name: str):
    def load(package) -> None:
        keep, sys.dont_write_bytecode = sys.dont_write_bytecode, False
        try:
            install_hooks = forks.load("undermine_agent.adapters." + name, "install")
        finally:
            sys.dont_write_bytecode = keep
        install_hooks(hooks)

    return load


def load_file(hooks, name: str, path: str) -> None:
    from _frozen_importlib_external import SourceFileLoader

    module = type(sys)("undermine_adapter_" + name)
    module.__file__ = path
    sys.modules[module.__name__] = module
    SourceFileLoader(module.__name__, path).exec_module(module)
    module.install(hooks)


class Hooks:
    """What an adapter is given. Nothing that goes wrong in an adapter reaches the target."""

    def __init__(self, layer, name: str, options: dict):
        self._layer = layer
        self._name = name
        self.options = options

    def when_imported(self, module: str, act) -> None:
        """Call `act(module)` once the target has imported the module: at once if it has."""
        self._layer.agent.imports.add(module, lambda imported: self.attempt(act, imported))

    def function(
        self,
        owner,
        name,
        op,
        kind=None,
        peer=None,
        size=None,
        error=None,
        dropped=None,
        of_result=False,
        does=None,
        got=None,
    ) -> None:
        """Each call of this function of a module or class is one operation.

        `op`, `kind`, `peer` and `size` are values or functions that are given the call's arguments (`self` too) and
        answer with them. An op or kind of None: this call is no operation. Of a kind that is a pair of
        texts only the second is masked. A peer is a node's name, an address
        (text or tuple) or a socket. `error` makes of an injected `OSError` what the library would raise. `dropped` is
        what the caller is given when the message is dropped, or a function of the arguments that makes it or raises.
        With `of_result` the function returns what has come: `op`, `kind` and `size` are given its result (None if it
        raised) before the arguments, `dropped` too; without a `dropped`, the next message is waited for.

        An operation on a store says by `does`, a function of the same arguments as `kind`, what it asks for: a
        `hooks.store_call`. `got` is given what the function returned and the commands of that call; it answers with
        a list of (key, values).
        """
        kind = name if kind is None else kind
        self._layer.hook(
            owner,
            name,
            op=op,
            kind=kind,
            peer=peer,
            size=size,
            error=error,
            dropped=dropped,
            of_result=of_result,
            does=does,
            got=got,
        )

    def arguments_of(self, owner, name):
        """A function that is given an object and says with which arguments this method of it was last called outside of all
        operations: for libraries that ask in one call and fetch the answer in another. None while an operation is under way.
        """
        agent, asked = self._layer.agent, WeakTable()

        def make(original):
            def method(self, *args, **options):
                if not agent.off and agent.thread_state().logical_call is None:
                    asked.put(self, args)
                return original(self, *args, **options)

            return method

        def latest(owner):
            return asked.get(owner) if agent.thread_state().logical_call is None else None

        on_class(owner, name, make)
        return latest

    def store_call(self, address, database, commands, kind="") -> StoreCall:
        """What is asked of a store. All processes must name the store alike: `address` is a (host, port) or a text.

        A command is (name, keys, values). Values are texts, bytes, numbers, or lists and dictionaries of them.
        `kind` names the table in which the tool finds what the commands do; without one each does what its operation says.
        """
        if isinstance(address, (tuple, list)):
            host, port = address[:2]
            address = "%s:%s" % (self._layer.peers.plain_host(host), port)
        return StoreCall("%s/%s" % (address, database), commands, kind)

    def reading(self, owner, name, sock) -> None:
        """Each call of this method is a `stream.read`: it gives a future of bytes, or of their number, from a buffer.

        `sock` is a function that is given the object and answers with the socket below it, or None.
        """
        agent = self._layer.agent
        if agent.observes("handover"):
            of_future = forks.load("undermine_agent.net.stream_reads", "of_future")  # not before the target uses sockets
            on_class(owner, name, of_future(agent, sock))

    def caller(self) -> str:
        """The place in the target's code that has led here, as `module:function#ordinal`."""
        agent = self._layer.agent
        state = agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            return agent.sites.stack(state.cursor, sys._getframe(1)).loc
        finally:
            state.busy = busy

    def attempt(self, act, *args) -> None:
        """Do it; what goes wrong is one line in the agent's file of errors."""
        try:
            act(*args)
        except Exception as error:
            self._layer.trouble("adapter %s: %s: %s" % (self._name, type(error).__name__, error))
