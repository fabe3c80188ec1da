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
"""The agent's own adapters, and the package whose import loads each."""


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
    """The interface for adapters. No error in an adapter reaches the target."""

    def __init__(self, layer, name: str, options: dict):
        self._layer = layer
        self._name = name
        self.options = options

    def when_imported(self, module: str, act) -> None:
        """Call `act(module)` once the target has imported the module; at once if it already has."""
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
        content=None,
    ) -> None:
        """Make each call of this function of a module or class one operation.

        `op`, `kind`, `peer` and `size` are values, or functions of the call's arguments (with `self`). If op or kind is
        None, this call isn't an operation. If a kind is a pair of texts, only the second is masked. A peer is a node's
        name, an address (text or tuple) or a socket. `error` turns an injected `OSError` into the library's exception.
        `dropped` is the caller's result when the message is dropped, or a function of the arguments that returns it or
        raises. With `of_result` the function returns a message that has arrived: `op`, `kind`, `size` and `dropped` get
        its result (None if it raised) before the arguments; without a `dropped`, the function waits for the next
        message.

        For an operation on a store, `does` takes the same arguments as `kind` and returns a `hooks.store_call`. `got`
        takes the function's result and the commands of that call, and returns a list of (key, values).

        `content` takes the same arguments as `kind` and returns a text that tells operations of the same kind apart. By
        default, for an operation on a store, it has the keys.
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
            content=content,
        )

    def arguments_of(self, owner, name):
        """Return a function that takes an object and returns the arguments of the last call of this method on it,
        outside of all operations. For libraries that ask in one call and fetch the answer in another. None while an
        operation is under way.
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
        """A request to a store. All processes must name the store alike: `address` is a (host, port) or a text.

        A command is (name, keys, values). Values are texts, bytes, numbers, or lists and dictionaries of them. `kind`
        names the tool's table of command effects; without one, each command has the effect of its operation.
        """
        if isinstance(address, (tuple, list)):
            host, port = address[:2]
            address = "%s:%s" % (self._layer.peers.plain_host(host), port)
        return StoreCall("%s/%s" % (address, database), commands, kind)

    def reading(self, owner, name, sock) -> None:
        """Make each call of this method a `stream.read`. It returns a future of bytes from a buffer, or of their
        number.

        `sock` takes the object and returns the socket below it, or None.
        """
        agent = self._layer.agent
        if agent.observes("handover"):
            of_future = forks.load("undermine_agent.net.stream_reads", "of_future")  # not before the target uses sockets
            on_class(owner, name, of_future(agent, sock))

    def caller(self) -> str:
        """The call site in the target's code that led here, as `module:function#ordinal`."""
        agent = self._layer.agent
        state = agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            return agent.sites.stack(state.cursor, sys._getframe(1)).loc
        finally:
            state.busy = busy

    def attempt(self, act, *args) -> None:
        """Call it; an error becomes one line in the agent's error file."""
        try:
            act(*args)
        except Exception as error:
            self._layer.trouble("adapter %s: %s: %s" % (self._name, type(error).__name__, error))
