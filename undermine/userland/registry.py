"""The decorators that register the functions of a user's plug-in file, and the loading of the file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from undermine.model.errors import UserError
from undermine.model.injected import Stage

if TYPE_CHECKING:
    from undermine.model.run import Op, RunView, Verdict
    from undermine.policies.plan_view import PlanView

Function = TypeVar("Function", bound=Callable[..., Any])

workloads: dict[str, Callable[..., Any]] = {}
finals: dict[str, Callable[..., Any]] = {}
checkers: dict[str, Callable[[RunView], Verdict | None]] = {}
filters: dict[str, Callable[[PlanView], bool]] = {}
clusters: dict[str, Callable[..., Any]] = {}
policies: dict[str, Literal["filter", "cluster"]] = {}
"""The kinds of all policies by name, in the order of their declaration, in which they are applied."""
settled: dict[str, Callable[[tuple[Op, ...]], str]] = {}
"""For each checker, a function that says why the final reads so far don't show a settled state; "" if they do."""


def workload(function: Function) -> Function:
    """Mark the function that uses the cluster. It gets a `Session`."""
    workloads[function.__name__] = function
    return function


def final(function: Function) -> Function:
    """Mark a function that does the final reads after everything is healed. It gets a `Session`.

    An exception means "not settled yet": the function is called again, in the same process and with the next `nth_try`, until
    it returns and no ledger waits, or `run.settle_timeout_s` is over. Then an exception is a liveness failure.
    """
    finals[function.__name__] = function
    return function


def checker(function: Function) -> Function:
    """Mark a function from `RunView` to `Verdict`. It must be pure, so that it can judge stored runs again. None means `ok`."""
    _declare(function.__name__, function)
    return function


def check(checker: Callable[[RunView], Verdict | None], name: str = "") -> None:
    """Declare a checker that isn't a function of the file: a ledger, or another callable with a name."""
    name = name or getattr(checker, "name", "") or getattr(checker, "__name__", "")
    if not callable(checker) or name in ("", "<lambda>"):
        raise UserError(
            f"undermine.check was given {checker!r:.80}; give it a ledger or a function from RunView to Verdict"
        )
    _declare(name, checker)
    condition = getattr(checker, "settled", None)
    if callable(condition):
        settled[name] = condition


def _declare(name: str, checker: Callable[[RunView], Verdict | None]) -> None:
    if name in checkers:
        raise UserError(f"two checkers are called {name!r}; give one of them another name")
    checkers[name] = checker


def filter(function: Function) -> Function:
    """Mark a policy: a function from a `PlanView` to "is it worth running?"."""
    _declare_policy(function.__name__, "filter")
    filters[function.__name__] = function
    return function


def cluster(function: Function) -> Function:
    """Mark a policy: a function from a `PlanView` to its class, or from two of them to "are they alike?"."""
    _declare_policy(function.__name__, "cluster")
    clusters[function.__name__] = function
    return function


def _declare_policy(name: str, kind: Literal["filter", "cluster"]) -> None:
    if name in filters or name in clusters:
        raise UserError(f"two policies are called {name!r}; give one of them another name")
    policies.pop(name, None)
    policies[name] = kind


class Declared:
    """The functions of one loaded plug-in file."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.workloads = dict(workloads)
        self.finals = dict(finals)
        self.checkers = dict(checkers)
        self.filters = dict(filters)
        self.clusters = dict(clusters)
        self.policies = dict(policies)
        self.settled = dict(settled)
        self.stages = [value for value in vars(module).values() if isinstance(value, Stage)]

    def function(self, name: str) -> Callable[..., Any]:
        found = getattr(self.module, name, None)
        if not callable(found):
            raise UserError(
                f"the plug-in file has no function {name!r}; define it or correct the name in undermine.toml"
            )
        return found  # type: ignore[no-any-return]

    def the_workload(self, name: str = "") -> Callable[..., Any]:
        if name:
            return self.function(name)
        check_workloads("the plug-in file", self.workloads)
        return next(iter(self.workloads.values()))


def check_workloads(file: str, marked: Collection[str]) -> None:
    """Raise a UserError unless exactly one function is marked as workload. Called if the configuration names none."""
    if len(marked) != 1:
        raise UserError(
            f"{file} has {len(marked)} functions marked @undermine.workload; "
            "mark exactly one, or name one as workload.python in undermine.toml"
        )


def load(path: Path) -> Declared:
    """Run the user's file and collect its declarations. Its folder stays importable."""
    for declared in (workloads, finals, checkers, filters, clusters, policies, settled):
        declared.clear()
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"undermine_plugins_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file; name one in campaign.plugins")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        where = f"{path}:{_line_of(error, path)}"
        raise UserError(f"{where} cannot be loaded: {described(error)}; fix the file") from error
    return Declared(module)


def described(error: Exception) -> str:
    """The class and text of an error of the user's code; for a missing module, also where the code looks for it."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError):
        text += f" (this file runs in {sys.executable}: install the module there, or add its folder to sys.path)"
    return text


def _line_of(error: Exception, path: Path) -> int:
    """The line of the user's file in which the error was raised."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return (own or [1])[-1] or 1
