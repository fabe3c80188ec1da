"""Finds regions under explicit time limits, and leases.

Limits: `wait_for`, `timeout()`, alarms, timers, and the timeouts of sockets, calls and polls. Leases: keys and locks
with an expiry, and loops that renew something.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from undermine.program.facts import LEASE, TIMEOUT
from undermine.program.regions.moments import Moments, lifted, together
from undermine.program.regions.parts import RegionActions, RegionFunction, RegionPart
from undermine.program.regions.readings import Readings
from undermine.program.source.blocks import Action
from undermine.program.source.code import Code, is_none, keyword, text_of
from undermine.program.source.flow import Flow
from undermine.program.source.index import Function, last_name
from undermine.program.source.names import words

_AROUND = ("wait_for", "with_timeout", "wait")
_MANAGERS = words(
    """asyncio.timeout asyncio.timeout_at async_timeout.timeout anyio.fail_after anyio.move_on_after trio.fail_after
    trio.move_on_after gevent.Timeout eventlet.Timeout"""
)
_ALARMS = frozenset({"signal.alarm", "signal.setitimer"})
_TIMERS = frozenset({"call_later", "call_at", "Timer"})
_LIMITED_MAKERS = words(
    """socket.create_connection http.client.HTTPConnection http.client.HTTPSConnection urllib3.PoolManager smtplib.SMTP ftplib.FTP
    redis.Redis redis.StrictRedis sqlite3.connect"""
)
_POLLERS = words(
    """select.poll select.epoll selectors.DefaultSelector selectors.SelectSelector selectors.PollSelector
    selectors.EpollSelector"""
)
_LIMIT_WORDS = ("timeout", "socket_timeout", "request_timeout", "deadline")
_EXPIRY_WORDS = ("ex", "px", "exat", "pxat", "ttl", "lease", "expires", "expire")
_EXPIRING = words("setex psetex expire pexpire expireat pexpireat getex grant_lease hexpire")
_LEASING = re.compile(
    r"lock|lease|heart|beat|alive|renew|regist|acquir|session|birth|claim|owner|leader|elect", re.IGNORECASE
)
"""Names that tell a lease from a key that expires only to be cleaned up."""
_ENDING = re.compile(r"death|dead|unregist|deregist|release|clean|expire", re.IGNORECASE)
_RENEWING = re.compile(r"(^|_)(heart_?beats?|keep_?alive|renew(_lease|_session|_lock)?|beat)$")
LIFT = 2
LIFT_OF_LEASES = 2


class Limits:
    """Searches all functions for limits and leases."""

    def __init__(self, code: Code, readings: Readings) -> None:
        self.code, self.readings = code, readings
        self.limited_calls: set[ast.AST] = set()
        """Calls whose result is awaited with a time limit."""
        self._around = {function.id: list(self._calls_around(function)) for function in code.functions}

    def found(self) -> Iterator[RegionPart]:
        sockets = self._limited_objects()
        for function in self.code.functions:
            yield from self._awaited(function)
            yield from self._entered(function)
            yield from self._operations(function, sockets)
            yield from self._renewals(function)
        yield from self._alarms()
        yield from self._timers()
        yield from self._leases()

    # --- a limit around something that is awaited

    def _calls_around(self, function: Function) -> Iterator[tuple[ast.Call, str, list[ast.Call]]]:
        """Calls such as `wait_for(f(), t)`: the call, its limit, and the calls that it waits for."""
        for call in function.calls:
            if last_name(call) in _AROUND:
                limit, awaited = self._parts(function, call)
                if limit:
                    inner = [each for part in awaited for each in self._within(function, part)]
                    self.limited_calls.update(inner)
                    yield call, limit, inner

    def _parts(self, function: Function, call: ast.Call) -> tuple[str, list[ast.expr]]:
        name, args = last_name(call), list(call.args)
        if name == "wait":
            if not self.code.outside(function, call) & {"asyncio.wait", "concurrent.futures.wait"}:
                return "", []
            given = keyword(call, "timeout")
            return ("" if is_none(given) or given is None else text_of(given)), args[:1]
        if isinstance(call.func, ast.Attribute) and self._is_condition(function, call.func.value):
            return "", []
        given = keyword(call, "timeout") or (args[1] if name == "wait_for" and len(args) > 1 else None)
        if name == "with_timeout":
            given, args = (args[0] if args else None), args[1:]
        return ("" if is_none(given) or given is None else text_of(given)), args[:1]

    def _is_condition(self, function: Function, node: ast.expr) -> bool:
        return any(name.endswith(".Condition") for name in self.code.made(function, node))

    def _within(self, function: Function, node: ast.expr) -> Iterator[ast.Call]:
        """The calls in an awaited expression; a name is replaced by the values assigned to it."""
        if isinstance(node, ast.Name):
            for value in self.code.assigned(function, node.id):
                if not isinstance(value, ast.Name):
                    yield from self._within(function, value)
        else:
            yield from (each for each in ast.walk(node) if isinstance(each, ast.Call))

    def _awaited(self, function: Function) -> Iterator[RegionPart]:
        for call, limit, inner in self._around[function.id]:
            where = self.code.where(function, call)
            why = f"{last_name(call)} in {function.short} limits it to {limit}"
            flow = self.code.flow(function)
            actions = frozenset(action.number for each in inner if (action := flow.at(each)) is not None)
            yield RegionActions(TIMEOUT, where, where, why, function.id, actions)
            for each in inner:
                for edge in self.code.graph.at.get(each, ()):
                    yield RegionFunction(TIMEOUT, where, where, why, edge.callee)

    # --- with

    def _entered(self, function: Function) -> Iterator[RegionActions]:
        flow = self.code.flow(function)
        for action in flow.actions:
            if action.kind == "enter" and isinstance(action.node, ast.Call):
                limit = action.node.args[0] if action.node.args else keyword(action.node, "delay", "seconds")
                if self.code.outside(function, action.node) & _MANAGERS and not is_none(limit):
                    where = self.code.where(function, action.node)
                    why = f"within {text_of(action.node)} of {function.short}"
                    yield RegionActions(TIMEOUT, where, where, why, function.id, _inside(flow, action))

    # --- sockets, polls and calls with limits of their own

    def _limited_objects(self) -> dict[str, str]:
        """By key, the time limit of objects that have their own."""
        found: dict[str, str] = {}
        for function in self.code.functions:
            for target, value in function.assigns:
                if isinstance(value, ast.Call) and self.code.outside(function, value) & _LIMITED_MAKERS:
                    self._note(found, function, target, keyword(value, *_LIMIT_WORDS))
            for target, value in function.enters:
                if isinstance(value, ast.Call) and self.code.outside(function, value) & _LIMITED_MAKERS:
                    self._note(found, function, target, keyword(value, *_LIMIT_WORDS))
            for call in function.calls:
                self._limited_by(found, function, call)
        self._registered(found)
        for _ in range(2):
            self._passed_on(found)
        return found

    def _note(self, found: dict[str, str], function: Function, node: ast.expr, limit: ast.expr | None) -> None:
        if limit is None or is_none(limit) or (isinstance(limit, ast.Constant) and not limit.value):
            return
        key = self.code.key(function, node)
        if key:
            found.setdefault(key, text_of(limit))

    def _limited_by(self, found: dict[str, str], function: Function, call: ast.Call) -> None:
        name = last_name(call)
        if name == "settimeout" and isinstance(call.func, ast.Attribute) and call.args:
            self._note(found, function, call.func.value, call.args[0])
        elif "select.select" in self.code.outside(function, call) and len(call.args) > 3:
            for group in call.args[:3]:
                for each in group.elts if isinstance(group, ast.List | ast.Tuple) else ():
                    self._note(found, function, each, call.args[3])

    def _registered(self, found: dict[str, str]) -> None:
        """Add objects that are registered with a poller that polls with a limit."""
        polled: dict[str, str] = {}
        calls = [(function, call) for function in self.code.functions for call in function.calls if call.args]
        for function, call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("poll", "select"):
                self._note(polled, function, call.func.value, call.args[0])
        for function, call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == "register":
                limit = polled.get(self.code.key(function, call.func.value), "")
                if limit and self.code.made(function, call.func.value) & _POLLERS:
                    found.setdefault(self.code.key(function, call.args[0]), limit)
        found.pop("", None)

    def _passed_on(self, found: dict[str, str]) -> None:
        """Add parameters that are passed a limited object."""
        for function in list(self.code.functions):
            for call in function.calls:
                limited = [
                    self.code.key(function, a) if isinstance(a, ast.Name | ast.Attribute) else "" for a in call.args
                ]
                if any(key in found for key in limited):
                    for called, skip in self.code.values.called(function, call):
                        names = [arg.arg for arg in called.parameters][skip:]
                        for name, key in zip(names, limited, strict=False):
                            if key in found:
                                found.setdefault(f"{called.id}.{name}", found[key])

    def _operations(self, function: Function, limited: dict[str, str]) -> Iterator[RegionActions]:
        """I/O on a limited object, and I/O calls with a `timeout` argument."""
        for call in function.calls:
            key = self.code.key(function, call.func.value) if isinstance(call.func, ast.Attribute) else ""
            own = keyword(call, "timeout")
            limit = limited.get(key, "") or ("" if is_none(own) or own is None else text_of(own))
            if not limit or not self._is_operation(function, call):
                continue
            flow = self.code.flow(function)
            action = flow.at(call)
            if action is not None:
                where = self.code.where(function, call)
                why = f"{text_of(call.func)} has a time limit of {limit}"
                yield RegionActions(TIMEOUT, where, where, why, function.id, frozenset({action.number}))

    def _is_operation(self, function: Function, call: ast.Call) -> bool:
        own = [callee.id for callee in self.code.graph.callees(call)]
        op = self.code.operations.of(call, self.code.refs(function, call.func), own)[0]
        return bool(op) and not op.endswith(".close")

    # --- alarms and timers

    def _alarms(self) -> Iterator[RegionActions]:
        starts: list[tuple[Function, int]] = []
        ends: list[tuple[Function, int]] = []
        for function in self.code.functions:
            for call in function.calls:
                if self.code.outside(function, call) & _ALARMS and call.args:
                    action = self.code.flow(function).at(call)
                    if action is not None:
                        (ends if _stops(call) else starts).append((function, action.number))
        for id, actions in together(self.code, self._lift(starts), self._lift(ends)).items():
            function = self.code.index.functions[id]
            first = self.code.flow(function).actions[min(self._lift(starts)[id])]
            where = self.code.where(function, first.node)
            why = f"while an alarm is set in {function.short}"
            yield RegionActions(TIMEOUT, f"alarm in {id}", where, why, id, actions)

    def _lift(self, direct: Iterable[tuple[Function, int]], depth: int = LIFT) -> Moments:
        return lifted(self.code, direct, depth)

    def _timers(self) -> Iterator[RegionActions]:
        starts: dict[str, list[tuple[Function, int]]] = defaultdict(list)
        ends: dict[str, list[tuple[Function, int]]] = defaultdict(list)
        for function in self.code.functions:
            for target, value in function.assigns:
                if isinstance(value, ast.Call) and last_name(value) in _TIMERS:
                    self._moment(starts, function, self.code.key(function, target), value)
            for call in function.calls:
                if isinstance(call.func, ast.Attribute) and call.func.attr == "cancel":
                    self._moment(ends, function, self.code.key(function, call.func.value), call)
        for key in sorted(starts.keys() & ends.keys()):
            function, number = starts[key][0]
            where = self.code.where(function, self.code.flow(function).actions[number].node)
            why = f"while the timer {key.rpartition(':')[2]} runs, until it is cancelled"
            for id, actions in together(self.code, self._lift(starts[key], 1), self._lift(ends[key], 1)).items():
                yield RegionActions(TIMEOUT, key, where, why, id, actions)

    def _moment(
        self, into: dict[str, list[tuple[Function, int]]], function: Function, key: str, call: ast.Call
    ) -> None:
        action = self.code.flow(function).at(call)
        if key and action is not None:
            into[key].append((function, action.number))

    # --- leases

    def _leases(self) -> Iterator[RegionActions]:
        """Regions after a key or lock with an expiry is set: it may expire while later operations are slow."""
        for function in self.code.functions:
            for call in function.calls:
                expiry = self._expiry(function, call) if self._is_lease(function, call) else ""
                action = self.code.flow(function).at(call) if expiry else None
                if action is not None:
                    where = self.code.where(function, call)
                    why = f"the key or lock that {function.short} set ({text_of(call.func)}) expires after {expiry}"
                    yield from self._after(function, action, where, why)

    def _after(self, function: Function, action: Action, where: str, why: str) -> Iterator[RegionActions]:
        for id, numbers in sorted(self._lift([(function, action.number)], LIFT_OF_LEASES).items()):
            flow = self.code.flow(self.code.index.functions[id])
            ends = _giving_back(flow, function)
            for number, level in sorted(numbers.items()):
                actions = flow.after(number, ends) - {number}
                if actions and level < LIFT_OF_LEASES:
                    yield RegionActions(LEASE, f"lease {where}", where, why, id, frozenset(actions))

    def _is_lease(self, function: Function, call: ast.Call) -> bool:
        """Does the call take a lease? True if it sets the key only when it is free, or if the names say so."""
        if not is_none(keyword(call, "nx")) or last_name(call) in ("lock", "lease", "grant", "grant_lease"):
            return True
        name = function.qualname.rpartition(".")[2]
        if _ENDING.search(name):
            return False
        return bool(_LEASING.search(name) or any(_LEASING.search(text_of(each)) for each in call.args[:1]))

    def _expiry(self, function: Function, call: ast.Call) -> str:
        name = last_name(call)
        outside = self.code.outside(function, call)
        store = any(
            each.startswith(("redis.", "etcd", "consul", "kazoo", "pymemcache", "memcache")) for each in outside
        )
        if name == "zadd":
            return "the time stored with it" if store and self._holds_time(function, call) else ""
        if name in _EXPIRING and (store or not self.code.graph.callees(call)):
            given = call.args[1] if len(call.args) > 1 else keyword(call, "time", "ttl")
            return text_of(given) if given is not None else "some time"
        if store or (not outside and not self.code.graph.callees(call) and name in ("set", "lock", "lease", "grant")):
            words = _EXPIRY_WORDS if name != "lock" else (*_EXPIRY_WORDS, "timeout")
            given = keyword(call, *words)
            return "" if given is None or is_none(given) else text_of(given)
        return ""

    def _holds_time(self, function: Function, call: ast.Call) -> bool:
        """Is a time added to a sorted set, so that others can look for old entries?"""
        parts = [
            part for argument in call.args for part in ast.walk(argument) if isinstance(part, ast.Name | ast.BinOp)
        ]
        return any(self.readings.times(function, part) for part in parts)

    def _renewals(self, function: Function) -> Iterator[RegionActions]:
        """Loops that renew a lease: everything else in the loop happens between two renewals."""
        for call in function.calls:
            if _RENEWING.search(last_name(call).lower()):
                flow = self.code.flow(function)
                action = flow.at(call)
                actions = flow.in_loop(action.number) if action is not None else set()
                if actions:
                    where = self.code.where(function, call)
                    why = f"{function.short} renews a lease in a loop ({text_of(call.func)})"
                    yield RegionActions(LEASE, where, where, why, function.id, frozenset(actions))


def _inside(flow: Flow, enter: Action) -> frozenset[int]:
    """The actions between entering and leaving a `with`."""
    found: set[int] = set()
    for action in flow.actions:
        if action.kind == "exit" and action.node is enter.node:
            found |= flow.between(enter.number, action.number)
    return frozenset(found)


def _giving_back(flow: Flow, taker: Function) -> set[int]:
    """The actions that by their name release what another function acquires: `release_lock` for `acquire_lock`."""
    name = taker.qualname.rpartition(".")[2]
    wanted = {name.replace("acquire", "release"), name.replace("lock", "unlock"), "release"} - {name}
    return {action.number for action in flow.actions if action.kind == "call" and last_name(action.node) in wanted}


def _stops(call: ast.Call) -> bool:
    value = call.args[-1]
    return isinstance(value, ast.Constant) and value.value == 0
