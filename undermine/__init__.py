"""Undermine finds fault-handling bugs in distributed systems by watching them run well.

It offers the names that a plug-in file uses: `workload`, `final`, `checker`, `check`, `ledgers`, `Session`, `RunView`, `Stage`,
`Verdict`, `Refused`; for policies `filter`, `cluster` and their helpers `all_points`, `post_injection_points`, `recovery_path`,
`recovery_functions`, `explored`, `first_read`, `crashed`, `abstract_in`, `abstract_out`.
Names are imported when they are used, so that a workload process starts fast.
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
    from undermine.policies.plan_view import PlanView as PlanView
    from undermine.policies.plan_view import StepView as StepView
    from undermine.policies.plan_view import abstract_in as abstract_in
    from undermine.policies.plan_view import abstract_out as abstract_out
    from undermine.policies.plan_view import all_points as all_points
    from undermine.policies.plan_view import crashed as crashed
    from undermine.policies.plan_view import explored as explored
    from undermine.policies.plan_view import first_read as first_read
    from undermine.policies.plan_view import post_injection_points as post_injection_points
    from undermine.policies.plan_view import recovery_functions as recovery_functions
    from undermine.policies.plan_view import recovery_path as recovery_path
    from undermine.userland.registry import check as check
    from undermine.userland.registry import checker as checker
    from undermine.userland.registry import cluster as cluster
    from undermine.userland.registry import filter as filter
    from undermine.userland.registry import final as final
    from undermine.userland.registry import workload as workload
    from undermine.userland.workloads import Refused as Refused
    from undermine.userland.workloads import Session as Session

__version__ = "0.1.0"

_HOMES = {
    "InjectedFault": "undermine.model.injected",
    "Stage": "undermine.model.injected",
    "Op": "undermine.model.run",
    "RunView": "undermine.model.run",
    "Verdict": "undermine.model.run",
    "check": "undermine.userland.registry",
    "checker": "undermine.userland.registry",
    "cluster": "undermine.userland.registry",
    "filter": "undermine.userland.registry",
    "final": "undermine.userland.registry",
    "workload": "undermine.userland.registry",
    "PlanView": "undermine.policies.plan_view",
    "StepView": "undermine.policies.plan_view",
    "abstract_in": "undermine.policies.plan_view",
    "abstract_out": "undermine.policies.plan_view",
    "all_points": "undermine.policies.plan_view",
    "crashed": "undermine.policies.plan_view",
    "explored": "undermine.policies.plan_view",
    "first_read": "undermine.policies.plan_view",
    "post_injection_points": "undermine.policies.plan_view",
    "recovery_functions": "undermine.policies.plan_view",
    "recovery_path": "undermine.policies.plan_view",
    "Refused": "undermine.userland.workloads",
    "Session": "undermine.userland.workloads",
    "hunt": "undermine.api",
}

__all__ = [
    "InjectedFault",
    "Op",
    "PlanView",
    "Refused",
    "RunView",
    "Session",
    "Stage",
    "StepView",
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
