"""Plan files: JSON that people write by hand or `undermine plan --json` prints, read into plans or refused with one sentence.

A file holds a plan, a list of plans, or an object with them under `plan`, `plans` or `predicted`. A point may be written as
an object of its keys, like {"op": "file.write", "node": "s1"}; keys that are left out match anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from undermine.config.templates import did_you_mean
from undermine.model.errors import UserError
from undermine.model.faults import row_of
from undermine.model.plan import At, FirstUnseen, Plan, Step, Then, Trigger, When, misplaced, unbindable
from undermine.model.point import ALL_KEYS, Point

BYTES_MAX = 4 * 1024 * 1024
PLANS_MAX = 1000
_WITH_STATE = (*ALL_KEYS, "state")
"""The keys of points that were seen while variables had some values."""


class _Wrong(Exception):
    """A mistake in the document, with its place."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.text = text


def read(path: Path) -> tuple[Plan, ...]:
    """All plans of the file, in its order."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= BYTES_MAX else b""
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    if size > BYTES_MAX:
        raise UserError(f"{path} is larger than {BYTES_MAX >> 20} MiB, so it is not a plan file; give another file")
    return parse(data, str(path))


def parse(data: bytes, name: str) -> tuple[Plan, ...]:
    """All plans of the text. `name` is the name of the file in errors."""
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8 text, so it is not a plan file; a plan file is JSON") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{name}:{error.lineno}: not a plan file, because this is not JSON: {error.msg} (column {error.colno})"
        ) from None
    except RecursionError:
        raise _too_deep(name) from None
    try:
        plans = tuple(_plan(where, value) for where, value in _candidates("", document))
        if not plans:
            raise _Wrong("", "it has no plan")
        if len(plans) > PLANS_MAX:
            raise _Wrong("", f"it has more than {PLANS_MAX} plans")
    except _Wrong as wrong:
        where = f"{name}: {wrong.where}: " if wrong.where else f"{name}: "
        raise UserError(f"{where}{wrong.text}; docs/replay.md describes plan files") from None
    except RecursionError:
        raise _too_deep(name) from None
    return plans


def _too_deep(name: str) -> UserError:
    return UserError(f"{name} is nested too deeply to be a plan file; docs/replay.md describes plan files")


def _candidates(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values at the places where a plan may be."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _candidates(f"{where}[{index}]", inner)
        return
    if isinstance(value, dict) and "steps" not in value:
        for key in ("plan", "plans", "predicted"):
            if key in value:
                yield from _candidates(f"{where}.{key}".lstrip("."), value[key])
                return
    yield where, value


def _plan(where: str, value: Any) -> Plan:
    if not isinstance(value, dict):
        raise _Wrong(where, f"a plan must be an object with steps, not {_show(value)}")
    if "steps" not in value:
        raise _Wrong(where, "a plan needs steps, a list of {trigger, fault}")
    value = _with_points(where, value)
    try:
        plan = msgspec.convert(value, Plan)
    except msgspec.ValidationError as error:
        raise _of_validation(where, str(error)) from None
    _refuse_unknown(where, value, msgspec.to_builtins(_with_every_key(plan)))
    for index, step in enumerate(plan.steps):
        _check_step(f"{where}.steps[{index}]".lstrip("."), step)
    if why := unbindable(plan):
        raise _Wrong(f"{where}.steps".lstrip("."), why)
    return plan


def _with_every_key(plan: Plan) -> Plan:
    """The plan with a value for each optional key that is left out if it has none."""

    def fill(trigger: Any) -> Any:
        if isinstance(trigger, FirstUnseen):
            return msgspec.structs.replace(trigger, wanted=trigger.wanted or Point(()))
        return msgspec.structs.replace(trigger, same="node") if isinstance(trigger, Then) else trigger

    steps = [
        msgspec.structs.replace(step, trigger=fill(step.trigger), until=fill(step.until), same="node", alike=step.alike or ())
        for step in plan.steps
    ]
    return msgspec.structs.replace(plan, steps=tuple(steps))


def _of_validation(where: str, said: str) -> _Wrong:
    text, _, place = said.partition(" - at `$")
    place = place.rstrip("`")
    return _Wrong(f"{where}{place}".lstrip("."), text[:1].lower() + text[1:])


def _with_points(where: str, value: Any) -> Any:
    """The document with every point in the form of the model."""
    if isinstance(value, list):
        return [_with_points(f"{where}[{index}]", inner) for index, inner in enumerate(value)]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, inner in value.items():
        here = f"{where}.{key}".lstrip(".")
        if key == "point":
            out[key] = _point(here, inner)
        elif key == "wanted":
            out[key] = _point(here, inner, _WITH_STATE)
        elif key == "seen" and isinstance(inner, list):
            out[key] = [_point(f"{here}[{index}]", point, _WITH_STATE) for index, point in enumerate(inner)]
        else:
            out[key] = _with_points(here, inner)
    return out


def _point(where: str, value: Any, known: Sequence[str] = ALL_KEYS) -> Any:
    if not isinstance(value, dict):
        raise _Wrong(where, f'a point must be an object like {{"op": "file.write", "node": "s1"}}, not {_show(value)}')
    if "items" in value:
        try:
            keys = dict(msgspec.convert(value, Point).items)
        except msgspec.ValidationError as error:
            raise _of_validation(where, str(error)) from None
    else:
        keys = value
    for name, text in keys.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise _Wrong(where, f"{name!r} is not a key of a point{hint} (known keys: {', '.join(known)})")
        if not isinstance(text, str):
            raise _Wrong(f"{where}.{name}", f"must be text in quotes, not {_show(text)}")
    return {"items": sorted([name, text] for name, text in keys.items())}


def _refuse_unknown(where: str, given: Any, taken: Any) -> None:
    """Refuse a misspelt key: `taken` has all keys that exist."""
    if isinstance(given, dict) and isinstance(taken, dict):
        for key, inner in given.items():
            if key not in taken:
                hint = did_you_mean(key, taken)
                raise _Wrong(where or "the plan", f"{key!r} is not a known key{hint} (known keys: {', '.join(taken)})")
            _refuse_unknown(f"{where}.{key}".lstrip("."), inner, taken[key])
    elif isinstance(given, list):
        for index, (inner, other) in enumerate(zip(given, taken, strict=True)):
            _refuse_unknown(f"{where}[{index}]", inner, other)


def _check_step(where: str, step: Step) -> None:
    """Refuse values that have the right type but make no sense."""
    for name, check in row_of(step.fault).checks.items():
        if why := check(getattr(step.fault, name)):
            raise _Wrong(f"{where}.fault.{name}", why)
    if why := misplaced(step):
        raise _Wrong(where, why)
    _check_trigger(f"{where}.trigger", step.trigger)
    if step.until:
        _check_trigger(f"{where}.until", step.until)


def _check_trigger(where: str, trigger: Trigger) -> None:
    if isinstance(trigger, Then):
        _check_trigger(f"{where}.first", trigger.first)
        _check_trigger(f"{where}.second", trigger.second)
    elif isinstance(trigger, At) and trigger.nth < 1:
        raise _Wrong(f"{where}.nth", f"must be 1 or more, not {trigger.nth}")
    elif isinstance(trigger, FirstUnseen):
        known = _WITH_STATE if trigger.state else ALL_KEYS
        for key in trigger.keys:
            if key not in known:
                raise _Wrong(f"{where}.keys", f"{key!r} is not a key of a point (known keys: {', '.join(known)})")
        for index, name in enumerate(name for part in trigger.state for name in part):
            _check_variable(f"{where}.state[{index}]", name)
    elif isinstance(trigger, When):
        for index, compare in enumerate(trigger.state):
            _check_variable(f"{where}.state[{index}].variable", compare.variable)


def _check_variable(where: str, name: str) -> None:
    if "." not in name:
        raise _Wrong(where, f"{name!r} must name its node, like s1.{name}")


def _show(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
