"""Says which part of a path leads nowhere."""

from __future__ import annotations

from undermine_agent.interpreter.plain import ABSENT, attribute, class_name, container_of
from undermine_agent.variables.paths import ATTRIBUTE, ITEM, Path, each_of, find_module, item_of


def why_nothing(path: Path) -> str:
    """The first part of the path that leads nowhere; "" if the whole path leads somewhere."""
    root = path.root
    module = find_module(root.module)
    if module is ABSENT:
        return "the module %s isn't imported" % root.module
    if attribute(module, root.name) is ABSENT:
        return "%s has no %s" % (root.module, root.name)
    value = root.read(module)
    if value is ABSENT:
        return "the class %s has no instance" % root.name
    return _why_from(value, root.name, path.accesses)


def _why_from(value, where: str, accesses: list) -> str:
    for access in accesses:
        owner, kind = value, class_name(type(value))
        if access.kind == ATTRIBUTE:
            value = attribute(owner, access.name)
            if value is ABSENT:
                return "%s (%s) has no plain attribute %s" % (where, kind, access.name)
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
