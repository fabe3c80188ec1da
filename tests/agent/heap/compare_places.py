"""Compares the call sites of rewritten modules with those of the plain ones; prints the differences as JSON.

    python compare_places.py AGENT_DIR FILE_WITH_PATHS [labels]
"""

import json
import sys
import types
import warnings

sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")

from undermine_agent.heap.rewriting import rewritten  # noqa: E402
from undermine_agent.names.sites import call_opcodes, ordinal  # noqa: E402

is_hook = lambda constant: type(constant) is tuple and len(constant) == 3 and type(constant[0]) is int  # noqa: E731
if sys.argv[3:] == ["labels"]:
    from undermine_agent.labels import rewriting
    from undermine_agent.labels.hooks import NAMES

    def rewritten(source, path):
        return rewriting.rewritten(source, path, NAMES)

    kinds = {*rewriting.OPERATORS.values(), "[]", "=[]", ".", "()", "for", "f", "{}"}
    is_hook = kinds.__contains__


def codes(code, path=()):
    """All code objects, by the names and lines on the way to them, in order."""
    yield (*path, (code.co_name, code.co_firstlineno)), code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant, (*path, (code.co_name, code.co_firstlineno)))


def lines(code):
    if hasattr(code, "co_lines"):
        return {at: line for start, end, line in code.co_lines() for at in range(start, end, 2)}
    import dis

    found, current = {}, None
    starts = dict(dis.findlinestarts(code))
    for at in range(0, len(code.co_code), 2):
        current = starts.get(at, current)
        found[at] = current
    return found


def places(code):
    """Ordinal, line and columns of each call."""
    where, counted = lines(code), set(call_opcodes())
    columns = list(code.co_positions()) if hasattr(code, "co_positions") else None
    return [
        (ordinal(code, at), where.get(at), columns[at // 2] if columns else None)
        for at in range(0, len(code.co_code), 2)
        if code.co_code[at] in counted
    ]


result = {"moved": [], "functions": 0, "hooks": 0, "left_alone": 0}
with open(sys.argv[2]) as file:
    paths = file.read().splitlines()
for path in paths:
    with open(path, "rb") as file:
        source = file.read()
    try:
        plain = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # for a newer Python
        continue
    code, left_alone = rewritten(source, path)
    result["left_alone"] += len(left_alone)
    for (name, one), (other_name, other) in zip(codes(plain), codes(code)):  # noqa: B905 - Python 3.9
        result["functions"] += not one.co_name.startswith("<")
        result["hooks"] += sum(c.__hash__ is not None and is_hook(c) for c in other.co_consts)
        if name != other_name or places(one) != places(other) or one.co_varnames != other.co_varnames:
            result["moved"].append(f"{path} {name}")
print(json.dumps(result))
