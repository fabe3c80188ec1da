"""The shipped policies: short functions over plans, each with the figure or section of the paper that it comes from.

`parse_policy` creates one from the text of a configuration, such as `crash_before_writes` or `only_in(setup)`. Shipped policies
use only the functions of `plan_view`, as a user's own policies do (docs/policies.md). Never runs a plan.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

import msgspec

from undermine.model.errors import UserError
from undermine.model.faults import FAILURES, FAULT_KINDS
from undermine.model.injected import is_function
from undermine.model.point import ALL_KEYS
from undermine.policies.plan_view import (
    PlanView,
    StepView,
    abstract_out,
    crashed,
    explored,
    first_read,
    has_run,
    recovery_functions,
    recovery_path,
)
from undermine.policies.pruning import Policy, cluster_policy, filter_policy

FOR_ALL_FAULTS = (
    "crash_before_writes",
    "no_crash_towards_the_dead",
    "first_reads_only",
    "recovery_by_function",
)
"""The default policies for plans that may have any kind of fault."""
DEFAULT = ("fault_types(crash, reboot, power, disk, net, corruption, drop, partition)", *FOR_ALL_FAULTS)
"""The default policies lose little. They drop delays and pauses, crashes that differ only in their moment, faults at a read that
continues another read, and the same fault on another node of the role if recovery runs through the same functions."""

Groups = Mapping[str, tuple[str, ...]]
"""Groups of nodes, such as racks, by name."""

_CRASHES = tuple(name for name, row in FAULT_KINDS.items() if row.kills)
"""The kinds of faults that kill a node, with and without a restart."""
_KEEPING_WRITES = tuple(name for name in _CRASHES if name != "power")
"""Those that lose nothing that the node has written."""
_WHOLE_NODE = tuple(name for name, row in FAULT_KINDS.items() if row.hits != "operation")
_FIRST_READS = ("disk", "net", "corruption")


class Shipped(msgspec.Struct, frozen=True):
    """A shipped policy: its name, the function that creates it, and the part of the paper that it comes from."""

    name: str
    make: Callable[..., Policy]
    origin: str
    summary: str

    @property
    def usage(self) -> str:
        """The policy as it is written in a configuration."""
        parameters = [_usage_of(parameter) for parameter in _parameters(self.make)]
        return f"{self.name}({', '.join(parameters)})" if parameters else self.name


SHIPPED: dict[str, Shipped] = {}


def _ship(name: str, make: Callable[..., Policy], origin: str, documented: Callable[..., Any]) -> None:
    summary = inspect.cleandoc(documented.__doc__ or "").partition("\n")[0]
    SHIPPED[name] = Shipped(name, make, origin, summary)


def _filter(origin: str) -> Callable[[Callable[[PlanView], bool]], Callable[[PlanView], bool]]:
    def declare(function: Callable[[PlanView], bool]) -> Callable[[PlanView], bool]:
        _ship(function.__name__, lambda: filter_policy(function), origin, function)
        return function

    return declare


def _cluster(origin: str) -> Callable[[Callable[[PlanView], Hashable]], Callable[[PlanView], Hashable]]:
    def declare(function: Callable[[PlanView], Hashable]) -> Callable[[PlanView], Hashable]:
        _ship(function.__name__, lambda: cluster_policy(function), origin, function)
        return function

    return declare


def _factory(origin: str) -> Callable[[Callable[..., Policy]], Callable[..., Policy]]:
    def declare(make: Callable[..., Policy]) -> Callable[..., Policy]:
        _ship(make.__name__, make, origin, make)
        return make

    return declare


# --- by kind of fault and part of the program


@_factory("Figure 4")
def only_in(function: str, *failures: str) -> Policy:
    """Keep plans with only crashes, or only these failures, all of them while this function is executed."""
    wanted = _failures(failures) or _CRASHES

    def inside(step: StepView) -> bool:
        return any(is_function(frame, function) for frame in step.frames)

    def only(fs: PlanView) -> bool:
        return all(step["failure"] in wanted and inside(step) for step in fs)

    return filter_policy(only, _name("only_in", function, *failures))


@_factory("Section 2.2")
def fault_types(*failures: str) -> Policy:
    """Keep plans with only these failures."""
    wanted = _failures(failures)
    if not wanted:
        raise UserError("it needs at least one failure")

    def only(fs: PlanView) -> bool:
        return all(step["failure"] in wanted for step in fs)

    return filter_policy(only, _name("fault_types", *failures))


# --- by node


@_cluster("Figure 7")
def any_nodes(fs: PlanView) -> Hashable:
    """The same failures with the same contexts are one class, on any nodes."""
    return abstract_out(fs, "node")


@_factory("Section 4.2")
def any_k_nodes(k: int) -> Policy:
    """Keep plans that hit at most k nodes. Plans that differ only in the names of their nodes are one class."""
    if k < 1:
        raise UserError("k must be at least 1")
    name = _name("any_k_nodes", k)

    def few(fs: PlanView) -> bool:
        return len({node for step in fs for node in step.nodes}) <= k

    return msgspec.structs.replace(filter_policy(few, name), then=(cluster_policy(_with_numbered_nodes, name),))


def _with_numbered_nodes(fs: PlanView) -> Hashable:
    """The plan with its nodes numbered in the order in which it names them."""
    return tuple(_number_nodes(fs))


def _number_nodes(fs: PlanView, *without: str) -> Iterator[Hashable]:
    """Yield each step without these keys, and with numbers in place of its nodes."""
    numbers: dict[str, int] = {}

    def number(node: str) -> int:
        return numbers.setdefault(node, len(numbers)) if node else -1

    for step in fs:
        peer = step.point.peer or (step["receiver"] if step["io_target"] == "client" else "")
        target = step["target"].removesuffix(peer) if peer else step["target"]
        nodes = tuple(number(node) for node in (step["node"], peer, *step.nodes))
        yield abstract_out(step, "node", "target", "fault", *without), target, nodes, _without_nodes(step)


def _without_nodes(step: StepView) -> Hashable:
    fields = {"nodes", "others"} & set(step.fault.__struct_fields__)
    return msgspec.structs.replace(step.fault, **dict.fromkeys(fields, ())) if fields else step.fault


# --- coverage of the code


@_filter("Figure 8")
def new_location(fs: PlanView) -> bool:
    """Keep plans whose last failure is at a source location where no earlier experiment has injected one."""
    return not explored(fs.last, "loc")


@_cluster("Figure 9")
def same_location(fs: PlanView) -> Hashable:
    """Plans whose last failures are at the same source location are one class."""
    return str(fs.last["loc"])


@_cluster("Figures 7 and 9 together")
def same_place(fs: PlanView) -> Hashable:
    """Plans with the same last failure of the same operation at the same call site are one class, on any node of a role.

    For a first failure the whole call stack counts. For a later one only those functions on the stack count that run in recovery
    alone: if all I/O goes through a few functions, source locations distinguish little. Nodes that earlier failures of the plan
    name are distinguished.
    """
    *before, last = _number_nodes(fs, "stack") if fs.prefix else _number_nodes(fs)
    return last, recovery_functions(fs.prefix).intersection(fs.last.frames) if before else ()


# --- coverage of recovery


@_filter("Section 2.2")
def in_recovery(fs: PlanView) -> bool:
    """Keep plans whose later failures are at points that only the recovery from the earlier failures reaches."""
    return all(step.point in recovery_path(step.prefix) for step in fs if step.prefix)


def _recovery(fs: PlanView, *keys: str) -> Hashable:
    """The recovery path of the plan, reduced to these keys; the plan itself if it was never run, so that it equals no other."""
    return recovery_path(fs, *keys) if has_run(fs) else fs


@_cluster("Figures 10, 11 and 13")
def recovery_by_location(fs: PlanView) -> Hashable:
    """The same last failure, in recoveries that run through the same source locations, is one class."""
    return _recovery(fs.prefix, "loc"), fs.last


@_cluster("Figures 7, 10 and 13 together")
def recovery_by_function(fs: PlanView) -> Hashable:
    """The same last failure, on any node of a role, in recoveries that run through the same functions, is one class.

    Nodes that earlier failures of the plan name are distinguished: a second failure of the same node is another class.
    """
    *_, last = _number_nodes(fs)
    return recovery_functions(fs.prefix) if has_run(fs.prefix) else fs.prefix, last


@_cluster("Figure 13, Section 4.4.2")
def recovery_by_location_and_node(fs: PlanView) -> Hashable:
    """The same last failure, in recoveries that run through the same source locations of the same nodes, is one class."""
    return _recovery(fs.prefix, "loc", "node"), fs.last


@_cluster("Figure 5, Section 4.4.2")
def recovery_by_everything(fs: PlanView) -> Hashable:
    """The same last failure, in recoveries that show exactly the same points, is one class."""
    return _recovery(fs.prefix, *ALL_KEYS), fs.last


# --- moments that make no difference


@_filter("Figure 14")
def crash_before_writes(fs: PlanView) -> bool:
    """Keep crashes only before writes: until a node writes, no other node can see what it has done.

    Crashes of other nodes than the one that does the operation are kept too, such as those at client operations, since the trace
    does not show what these nodes do at that moment. So are power losses: what they lose depends on what was synced, and whether
    that matters on what was told to others before.
    """
    return all(
        step["node"] not in step.nodes or (step["io_type"] == "write" and step["place"] == "before")
        for step in fs
        if step["failure"] in _KEEPING_WRITES
    )


@_filter("Figure 16")
def no_crash_towards_the_dead(fs: PlanView) -> bool:
    """Drop crashes of a node before it sends to a dead node: no other node can see the difference."""
    return not any(
        step["failure"] in _CRASHES
        and step["io_type"] == "write"
        and step.nodes == (step["node"],)
        and crashed(step.prefix, step["receiver"])
        for step in fs
    )


@_factory("Figure 17, Section 4.5.2, Appendix A")
def first_reads_only(*failures: str) -> Policy:
    """Drop failures of reads that continue another read, and network failures to or from a dead node.

    Applies to disk, network and corruption failures, or to those that are named.
    """
    wanted = _failures(failures, _FIRST_READS) or _FIRST_READS

    def first(fs: PlanView) -> bool:
        return not any(_continues_a_read(step, wanted) or ("net" in wanted and _talks_to_the_dead(step)) for step in fs)

    return filter_policy(first, _name("first_reads_only", *failures))


def _continues_a_read(step: StepView, failures: tuple[str, ...]) -> bool:
    return step["failure"] in failures and step["io_type"] == "read" and not first_read(step)


def _talks_to_the_dead(step: StepView) -> bool:
    dead = step.prefix
    return step["failure"] in ("net", "drop") and any(crashed(dead, step[end]) for end in ("sender", "receiver"))


# --- by probability


class FailureModel(msgspec.Struct, frozen=True):
    """Probabilities of failures. Nodes fail independently, except that nodes of one group tend to fail together."""

    node: float = 0.1
    """The probability that a node fails (crash, reboot, pause, partition)."""
    rack: float = 0.5
    """The probability that a node fails if another node of its group has failed."""
    other: float = 0.1
    """The probability that anything else fails: a disk, a message, …"""
    groups: tuple[tuple[str, ...], ...] = ()

    def probability(self, fs: PlanView) -> float:
        """The probability that all failures of the plan happen in one run."""
        chance = 1.0
        failed: set[str] = set()
        for step in fs:
            if step["failure"] not in _WHOLE_NODE:
                chance *= self.other
                continue
            for node in step.nodes:
                chance *= self._of_node(node, failed)
                failed.add(node)
        return chance

    def _of_node(self, node: str, failed: set[str]) -> float:
        together = any(node in group and failed & set(group) - {node} for group in self.groups)
        return self.rack if together else self.node


@_factory("Section 4.6")
def likely(
    threshold: float, node: float = 0.1, rack: float = 0.5, other: float = 0.1, *, groups: Groups | None = None
) -> Policy:
    """Keep plans that are more probable than the threshold; node, rack and other are probabilities of single failures."""
    given = {"threshold": threshold, "node": node, "rack": rack, "other": other}
    for name, value in given.items():
        if not 0 <= value <= 1:
            raise UserError(f"{name} must be a probability from 0 to 1")
    model = FailureModel(node, rack, other, tuple((groups or {}).values()))

    def probable(fs: PlanView) -> bool:
        return model.probability(fs) > threshold

    return filter_policy(probable, _name("likely", f"{threshold:g}"))


@_factory("Section 4.6")
def same_rack(*names: str, groups: Groups | None = None) -> Policy:
    """Keep plans whose failures all hit nodes of one group, or of one of the named groups."""
    racks = _racks(names, groups or {})

    def within(fs: PlanView) -> bool:
        hit = {node for step in fs for node in step.nodes}
        return any(hit <= rack for rack in racks)

    return filter_policy(within, _name("same_rack", *names))


@_factory("Section 2.2")
def whole_racks(*names: str, groups: Groups | None = None) -> Policy:
    """Keep plans in which every failure hits all nodes of a group, or of one of the named groups, at once."""
    racks = _racks(names, groups or {})

    def whole(fs: PlanView) -> bool:
        return all(set(step.nodes) in racks for step in fs)

    return filter_policy(whole, _name("whole_racks", *names))


# --- from a configuration


def parse_policy(text: str, groups: Groups | None = None) -> Policy:
    """The shipped policy that a text like `any_nodes` or `only_in(setup)` names."""
    found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*", text)
    if found is None:
        raise UserError(f'the policy "{text:.80}" cannot be read; write "name" or "name(argument, …)"')
    name, inner = found.groups()
    shipped = SHIPPED.get(name)
    if shipped is None:
        close = get_close_matches(name, SHIPPED, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UserError(f'there is no policy "{name:.80}"{hint} (the policies are {", ".join(sorted(SHIPPED))})')
    try:
        given, named = _arguments(shipped, inner or "")
        if "groups" in inspect.signature(shipped.make).parameters:
            named["groups"] = dict(groups or {})
        return shipped.make(*given, **named)
    except UserError as error:
        raise UserError(f'the policy "{text:.80}" cannot be used: {error}; write it as {shipped.usage}') from None


def _parameters(make: Callable[..., Policy]) -> list[inspect.Parameter]:
    """The parameters that a configuration can give."""
    return [each for each in inspect.signature(make).parameters.values() if each.kind is not each.KEYWORD_ONLY]


def _usage_of(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"{parameter.name}…"
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default}"


def _arguments(shipped: Shipped, inner: str) -> tuple[list[Any], dict[str, Any]]:
    """The values by position and by name, each converted to its parameter's type."""
    parameters = _parameters(shipped.make)
    given: list[Any] = []
    named: dict[str, Any] = {}
    for word in _words(inner):
        name, equals, value = (part.strip() for part in word.rpartition("="))
        if equals:
            parameter = next(
                (one for one in parameters if one.name == name and one.kind is not one.VAR_POSITIONAL), None
            )
            if parameter is None:
                raise UserError(f"it has no parameter {name!r}" if name else "an argument has no name before =")
            if name in named or name in [one.name for one in parameters[: len(given)]]:
                raise UserError(f"{name} is given twice")
            named[name] = _value(parameter, value)
            continue
        if named:
            raise UserError(f"{value} must come before the named arguments")
        given.append(_value(_at(parameters, len(given)), value))
    missing = [p.name for p in parameters[len(given) :] if p.default is p.empty and p.name not in named]
    if required := [name for name in missing if _is_single(parameters, name)]:
        raise UserError(f"{', '.join(required)} is missing")
    return given, named


def _words(inner: str) -> Iterator[str]:
    if not inner.strip():
        return
    for word in inner.split(","):
        if not word.strip():
            raise UserError("there is an empty argument")
        yield word.strip()


def _at(parameters: list[inspect.Parameter], position: int) -> inspect.Parameter:
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        return parameters[min(position, len(parameters) - 1)]
    if position >= len(parameters):
        raise UserError(f"it takes {len(parameters) or 'no'} argument(s)")
    return parameters[position]


def _is_single(parameters: list[inspect.Parameter], name: str) -> bool:
    return any(one.name == name and one.kind is not one.VAR_POSITIONAL for one in parameters)


def _value(parameter: inspect.Parameter, text: str) -> Any:
    kinds: dict[str, tuple[Callable[[str], Any], str]] = {
        "int": (int, "a whole number"),
        "float": (float, "a number"),
        "str": (str, "a name"),
    }
    convert, what = kinds[str(parameter.annotation)]
    if convert is str and not re.fullmatch(r"[\w.:<>-]+", text):
        raise UserError(f'"{text:.40}" is not {what}')
    try:
        return convert(text)
    except ValueError:
        raise UserError(f'{parameter.name} must be {what}, not "{text:.40}"') from None


def _name(name: str, *arguments: object) -> str:
    return f"{name}({', '.join(map(str, arguments))})" if arguments else name


def _failures(names: tuple[str, ...], allowed: tuple[str, ...] = FAILURES) -> tuple[str, ...]:
    for name in names:
        if name not in allowed:
            _refuse_unknown(name, allowed)
    return names


def _refuse_unknown(name: str, known_names: tuple[str, ...]) -> NoReturn:
    raise UserError(f'"{name:.40}" is unknown; use one of {", ".join(known_names)}')


def _racks(names: tuple[str, ...], groups: Groups) -> list[set[str]]:
    if not groups:
        raise UserError("it needs groups of nodes; declare some in [groups]")
    for name in names:
        if name not in groups:
            _refuse_unknown(name, tuple(groups))
    return [set(groups[name]) for name in names or groups]
