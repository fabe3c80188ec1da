"""Undermine finds fault-handling bugs in distributed systems by watching them run well.

What a plug-in file needs is here: `workload`, `final`, `checker`, `check`, `ledgers`, `Session`, `RunView`, `Stage`,
`Verdict`, `Refused`; for policies `filter`, `cluster` and what they ask: `all_points`, `post_injection_points`, `recovery_path`,
`recovery_functions`, `explored`, `first_read`, `crashed`, `abstract_in`, `abstract_out`.
Names are loaded when they are used, so that a workload process starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undermine import ledgers as ledgers
    from undermine.api import hunt as hunt
    from undermine.model.injected import InjectedFault as InjectedFault
    from undermine.model.injected import Stage as Stage
    from undermine.model.run import Op as Op
    from undermine.model.run import RunView as RunView
    from undermine.model.run import Verdict as Verdict
    from undermine.registry import check as check
    from undermine.registry import checker as checker
    from undermine.registry import cluster as cluster
    from undermine.registry import filter as filter
    from undermine.registry import final as final
    from undermine.registry import workload as workload
    from undermine.sequences import Sequence as Sequence
    from undermine.sequences import Task as Task
    from undermine.sequences import abstract_in as abstract_in
    from undermine.sequences import abstract_out as abstract_out
    from undermine.sequences import all_points as all_points
    from undermine.sequences import crashed as crashed
    from undermine.sequences import explored as explored
    from undermine.sequences import first_read as first_read
    from undermine.sequences import post_injection_points as post_injection_points
    from undermine.sequences import recovery_functions as recovery_functions
    from undermine.sequences import recovery_path as recovery_path
    from undermine.workloads import Refused as Refused
    from undermine.workloads import Session as Session

__version__ = "0.1.0"

_HOMES = {
    "InjectedFault": "undermine.model.injected",
    "Stage": "undermine.model.injected",
    "Op": "undermine.model.run",
    "RunView": "undermine.model.run",
    "Verdict": "undermine.model.run",
    "check": "undermine.registry",
    "checker": "undermine.registry",
    "cluster": "undermine.registry",
    "filter": "undermine.registry",
    "final": "undermine.registry",
    "workload": "undermine.registry",
    "Sequence": "undermine.sequences",
    "Task": "undermine.sequences",
    "abstract_in": "undermine.sequences",
    "abstract_out": "undermine.sequences",
    "all_points": "undermine.sequences",
    "crashed": "undermine.sequences",
    "explored": "undermine.sequences",
    "first_read": "undermine.sequences",
    "post_injection_points": "undermine.sequences",
    "recovery_functions": "undermine.sequences",
    "recovery_path": "undermine.sequences",
    "Refused": "undermine.workloads",
    "Session": "undermine.workloads",
    "hunt": "undermine.api",
}

__all__ = [
    "InjectedFault",
    "Op",
    "Refused",
    "RunView",
    "Sequence",
    "Session",
    "Stage",
    "Task",
    "Verdict",
    "__version__",
    "abstract_in",
    "abstract_out",
    "all_points",
    "check",
    "checker",
    "cluster",
    "crashed",
    "explored",
    "filter",
    "final",
    "first_read",
    "hunt",
    "ledgers",
    "post_injection_points",
    "recovery_functions",
    "recovery_path",
    "workload",
]


def __getattr__(name: str) -> Any:
    if name == "ledgers":
        return import_module("undermine.ledgers")
    if name not in _HOMES:
        raise AttributeError(f"module 'undermine' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
