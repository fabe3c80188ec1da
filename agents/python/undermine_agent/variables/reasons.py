"""Says which part of a path leads nowhere."""

from __future__ import annotations

from undermine_agent.interpreter.plain import ABSENT, attribute, class_name, container_of, own_names
from undermine_agent.variables.paths import ATTRIBUTE, ITEM, Path, each_of, find_module, item_of

_NEAREST_MAX = 3
_CONTAINED_MIN = 3
_DISTANCE_MAX = 2


def why_nothing(path: Path) -> str:
    """The first part of the path that leads nowhere; "" if the whole path leads somewhere."""
    root = path.root
    module = find_module(root.module)
    if module is ABSENT:
        return "the module %s isn't imported%s" % (root.module, _in_program(root.name))
    if attribute(module, root.name) is ABSENT:
        return "%s has no %s%s" % (root.module, root.name, _nearest(module, root.name))
    value = root.read(module)
    if value is ABSENT:
        return "the class %s has no instance" % root.name
    return _why_from(value, root.name, path.accesses)


def _in_program(name: str) -> str:
    """` (but __main__ has Node)`: a script that is the program itself has another module name than its file."""
    program = find_module("__main__")
    return "" if program is ABSENT or attribute(program, name) is ABSENT else " (but __main__ has %s)" % name


def _why_from(value, where: str, accesses: list) -> str:
    for access in accesses:
        owner, kind = value, class_name(type(value))
        if access.kind == ATTRIBUTE:
            value = attribute(owner, access.name)
            if value is ABSENT:
                return "%s (%s) has no plain attribute %s%s" % (where, kind, access.name, _nearest(owner, access.name))
            where += "." + access.name
        elif container_of(owner) is None:
            return "%s (%s) isn't a map, list or set" % (where, kind)
        elif access.kind == ITEM:
            value = item_of(owner, access.name)
            if value is ABSENT:
                return "%s (%s) has no key %s" % (where, kind, access.name)
            where += "[%s]" % access.name
        else:
            elements = each_of(owner, access.name)
            if not elements:
                return "%s (%s) has no element%s" % (where, kind, " with a plain key" if container_of(owner).size(owner) else "")
            text, value = elements[0]
            where += "[%s]" % text
    return ""


def _nearest(owner, wanted: str) -> str:
    """` (but a, b)`: the names that the owner has and that look most like the wanted one."""
    names = {name for name in own_names(owner) if type(name) is str and _is_near(name.lower(), wanted.lower())}
    nearest = sorted(names, key=lambda name: (_distance(name, wanted), name))[:_NEAREST_MAX]
    return " (but %s)" % ", ".join(nearest) if nearest else ""


def _is_near(one: str, other: str) -> bool:
    """Does one name contain the other, or do few letters differ?"""
    shorter = min(len(one), len(other))
    contained = shorter >= _CONTAINED_MIN and (one in other or other in one)
    return contained or _distance(one, other) <= min(_DISTANCE_MAX, shorter // 3)


def _distance(one: str, other: str) -> int:
    """The number of letters that must be added, removed or changed."""
    row = list(range(len(other) + 1))
    for letter in one:
        above, row = row, [row[0] + 1]
        for at, each in enumerate(other):
            row.append(min(above[at] + (letter != each), above[at + 1] + 1, row[at] + 1))
    return row[-1]
