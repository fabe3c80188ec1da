"""The hooks in rewritten code: one object, whose subscripts carry out operations and label their results.

An error in the agent's own work is noted and the plain result is returned.
"""

from __future__ import annotations

import builtins

from undermine_agent.interpreter import fast
from undermine_agent.labels import formats, formatting, functions, json_format, operators, streams, texts
from undermine_agent.labels.table import labels

_CLASS_METHODS: dict = {**texts.CLASS_METHODS, **{(int, name): rule for name, rule in functions.INTEGERS_CLASS.items()}}
_MODULES: dict = {
    **{name: dict.fromkeys(members, functions.derived) for name, members in functions.MODULES.items()},
    "struct": formats.STRUCT,
    "json": json_format.JSON,
    "pickle": {**formats.PICKLE, "dump": streams.DUMP, "load": streams.LOAD},
    "msgpack": {**formats.MSGPACK},
    "_io": streams.FUNCTIONS,
    "decimal": functions.DECIMAL,
    "array": formats.ARRAY,
}  # fmt: skip
_MODULES["re"].update(dict.fromkeys(("findall", "split"), functions.PATTERNS["findall"]))
_TYPES: dict = {
    ("_struct", "Struct"): formats.STRUCT_METHODS,
    ("re", "Pattern"): functions.PATTERNS,
    ("re", "Match"): functions.MATCHES,
    ("json.encoder", "JSONEncoder"): {"encode": json_format.CODECS["encode"]},
    ("string", "Template"): dict.fromkeys(("substitute", "safe_substitute"), formatting.by_template),
    ("decimal", "Decimal"): functions.DECIMALS,
    ("array", "array"): formats.ARRAYS,
    ("json.decoder", "JSONDecoder"): {"decode": json_format.CODECS["decode"]},
}
_STATEFUL: dict = {
    "zlib": {"compressobj": ("compress", "flush"), "decompressobj": ("decompress", "flush")},
    "hashlib": {"sha256": ("update", "digest", "hexdigest", "copy"), "blake2b": ("update", "digest", "hexdigest", "copy")},
}
NAMES = frozenset(
    name
    for rules in (*texts.METHODS.values(), *streams.METHODS.values(), *_MODULES.values(), *_TYPES.values(), functions.BUILTINS,
                  functions.INTEGERS)
    for name in rules
) | {name for _, name in _CLASS_METHODS} | {
    name for made in _STATEFUL.values() for names in made.values() for name in names
}  # fmt: skip
"""The names of functions and methods through which labels flow."""


class Hooks:
    """`HOOK[kind, part, ...]` in rewritten code."""

    def __init__(self, trouble):
        self.trouble = trouble
        self.methods = functions.methods
        self.class_methods: dict = {}
        self.loops = dict.fromkeys(map(id, (str, bytes, bytearray, *operators.LINES)))
        self.kinds = operators.hooks(self.guard)
        self.kinds["."] = self._method
        self.kinds["()"] = functions.stand_in
        self._module = type(builtins)

    def __getitem__(self, parts):
        return self.kinds[parts[0]](*parts[1:])

    def builtin(self):
        """The object for rewritten code: this one, or one of the accelerator, which asks this one only if labels may flow."""
        if fast.module is None:
            return self
        return fast.module.LabelHooks(self.__getitem__, labels, self.methods, self.loops, functions.by_address)

    def guard(self, label, result, *args):
        try:
            return label(result, *args)
        except Exception as error:
            self.trouble(error)
            return result

    # --- calls

    def _method(self, name: str, owner):
        if not labels:
            return owner
        cls = type(owner)
        rules = self.methods.get(id(cls))
        if rules is not None:
            stand_in = rules.get(name)
            return owner if stand_in is None else stand_in(owner)
        if cls is self._module:
            entry = functions.by_address.get(id(owner.__dict__.get(name)))
            return owner if entry is None else entry[2]
        if cls is type:
            found = self.class_methods.get((id(owner), name))
            return owner if found is None else found
        return owner

    def through(self, function, rule):
        """A function that calls this one and labels the result."""
        label, prepare = rule if type(rule) is tuple else (rule, None)
        guard, trouble = self.guard, self.trouble

        def call(*args, **options):
            if not labels:
                return function(*args, **options)
            return guard(label, function(*args, **options), args, options)

        def call_prepared(*args, **options):
            if not labels:
                return function(*args, **options)
            try:
                args, memo, *shown = prepare(args, options)
            except Exception as error:
                trouble(error)
                return function(*args, **options)
            return guard(label, function(*args, **options), shown[0] if shown else args, memo)

        return call if prepare is None else call_prepared

    # --- installation

    def install(self, when_imported) -> None:
        """Give stand-ins to functions and methods: of built-ins now, of modules when they are imported."""
        for cls, rules in (*texts.METHODS.items(), *streams.METHODS.items(), (int, functions.INTEGERS)):
            self.on_type(cls, rules)
        for (cls, name), rule in _CLASS_METHODS.items():
            self.class_methods[id(cls), name] = _named(name, self.through(getattr(cls, name), rule))
        for name, rule in functions.BUILTINS.items():
            self.on_function(builtins, name, rule)
        for module in _MODULES:
            when_imported(module, lambda imported, module=module: self._on_module(imported, _MODULES[module]))
        for module, name in _TYPES:
            if module != "re":
                when_imported(module, lambda found, key=(module, name): self.on_type(getattr(found, key[1]), _TYPES[key]))
        when_imported("array", lambda imported: formats.install_arrays(imported.array))
        import re

        self.on_type(re.Pattern, functions.PATTERNS)
        self.on_type(re.Match, functions.MATCHES)
        for module in _STATEFUL:
            when_imported(module, lambda imported, module=module: self._on_stateful(imported, _STATEFUL[module]))

    def _on_module(self, module, rules) -> None:
        for name, rule in rules.items():
            if hasattr(module, name):
                self.on_function(module, name, rule)

    def _on_stateful(self, module, makers) -> None:
        for maker, names in makers.items():
            cls = type(getattr(module, maker)())
            self.on_type(cls, {name: functions.stateful for name in names if hasattr(cls, name)})

    def on_function(self, module, name: str, rule) -> None:
        function = getattr(module, name)
        through = self.through(function, rule)
        functions.by_address[id(function)] = function, through, _named(name, through)

    def on_type(self, cls: type, rules: dict) -> None:
        found = self.methods.setdefault(id(cls), {})
        for name, rule in rules.items():
            if hasattr(cls, name):
                found[name] = self._stand_in(cls, name, rule)

    def _stand_in(self, cls: type, name: str, rule):
        """A class whose instances stand for an object while this method is called."""
        through = self.through(getattr(cls, name), rule)

        def method(self, *args, **options):
            return through(self.owner, *args, **options)

        return type("Through", (_Owner,), {"__slots__": (), name: method})


class _Owner:
    __slots__ = ("owner",)

    def __init__(self, owner):
        self.owner = owner


def _named(name: str, function):
    """An object with this function as its attribute."""
    made = type("Through", (), {"__slots__": (), name: staticmethod(function)})
    return made()
