"""Creates the strategies and checkers of a campaign: the built-in ones, and those of other packages' entry points.

Never asks a strategy for plans and never judges a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec

from undermine.checkers.base import BuiltinChecker, Settings
from undermine.checkers.registry import BUILTIN
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.policies.library import FOR_ALL_FAULTS
from undermine.protocols import Checker, Predicts, Strategy, TakesOptions, Traced
from undermine.strategies.cofi import Cofi
from undermine.strategies.deminer import Deminer
from undermine.strategies.exhaustive import Exhaustive
from undermine.strategies.fcatch import Fcatch
from undermine.strategies.next_steps import NextSteps
from undermine.strategies.prefail import Prefail
from undermine.strategies.random import Random
from undermine.strategies.sieve import Sieve

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "deminer": Deminer,
    "sieve": Sieve,
    "fcatch": Fcatch,
    "cofi": Cofi,
    "prefail": Prefail,
    "exhaustive": Exhaustive,
    "random": Random,
}
"""The built-in strategies. A class is called without arguments or, if it has a struct `Options`, with the options of
[strategies.NAME].

The strategies that predict most have their first turn first; `fcatch` uses its first turn to learn.
"""


def strategies(config: Config, wanted: Sequence[str | Strategy] = ()) -> list[Strategy]:
    """Create the strategies with these names and keep those that are objects; if none are wanted, the configured ones or all."""
    known: dict[str, Callable[..., Strategy]] = dict(STRATEGIES)
    for entry in entry_points(group="undermine.strategies"):
        known.setdefault(entry.name, entry.load())
    for name in wanted:
        if isinstance(name, str) and name not in known:
            raise UserError(f"there is no strategy {name!r}; the strategies are {', '.join(sorted(known))}")
    if not wanted:
        config.check_names("hunt.strategies", config.hunt.strategies, known)
    config.check_names("strategies", config.strategies, known)
    chosen = dict.fromkeys(wanted or config.hunt.strategies or known)
    made = [_create(each, known[each], config) if isinstance(each, str) else each for each in chosen]
    return [*made, *_next_steps(config, made)]


def _next_steps(config: Config, chosen: Sequence[Strategy]) -> list[Strategy]:
    """The strategy that extends the plans of all others, if a run may have more than one fault and one of them predicts."""
    predictors = [strategy for strategy in chosen if isinstance(strategy, Predicts)]
    if config.hunt.steps < 2 or not predictors:
        return []
    policies = config.strategies.get(Prefail.name, {}).get("policies") or FOR_ALL_FAULTS
    traced = any(isinstance(strategy, Traced) and strategy.traced for strategy in predictors)
    return [NextSteps(predictors, config.hunt.steps, policies, traced=traced)]


def _create(name: str, make: Callable[..., Strategy], config: Config) -> Strategy:
    """Create the strategy with the options of the configuration."""
    table = config.strategies.get(name, {})
    if not isinstance(make, TakesOptions):
        if table:
            where = config.where(f"strategies.{name}")
            raise UserError(f"{where}: the strategy {name} takes no options; remove this table")
        return make()
    hints = get_type_hints(make.Options)
    for key, value in table.items():
        config.check_names(f"strategies.{name}.{key}", [key], make.Options.__struct_fields__)
        if get_origin(hints[key]) is Literal and isinstance(value, str):
            config.check_names(f"strategies.{name}.{key}", [value], get_args(hints[key]))
    try:
        return make(msgspec.convert(table, make.Options))
    except msgspec.ValidationError as error:
        where = config.where(f"strategies.{name}")
        raise UserError(
            f"{where}: [strategies.{name}] cannot be used: {str(error)[0].lower()}{str(error)[1:]}"
        ) from None


def checkers(config: Config, user_checkers: Sequence[str]) -> list[Checker]:
    """The built-in checkers that are on and those of entry points, except those that `checkers.disable` names."""
    builtin = [kind.name for kind in BUILTIN]
    installed = {entry.name: entry for entry in entry_points(group="undermine.checkers") if entry.name not in builtin}
    for name in user_checkers:
        if name in builtin or name in installed:
            raise UserError(f"your checker {name!r} has the name of an installed checker; rename yours")
    config.check_names("checkers.enable", config.checkers.enable, builtin)
    config.check_names("checkers.disable", config.checkers.disable, [*builtin, *installed, *user_checkers])
    others = [entry.load()() for name, entry in installed.items() if name not in config.checkers.disable]
    return [*builtin_checkers(config), *others]


def builtin_checkers(config: Config) -> list[BuiltinChecker]:
    """The built-in checkers that are on: by default or by `checkers.enable`, and not disabled."""
    chosen = config.checkers
    settings = Settings(config.run.gray_s, chosen.fail_on, chosen.ignore)
    on = (kind for kind in BUILTIN if kind.default_state == "on" or kind.name in chosen.enable)
    return [kind(settings) for kind in on if kind.name not in chosen.disable]
