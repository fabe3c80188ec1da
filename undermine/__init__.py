"""Undermine finds fault-handling bugs in distributed systems by watching them run well.

What a plug-in file needs is here: `workload`, `final`, `checker`, `check`, `ledgers`, `Session`, `RunView`, `Verdict`,
`Refused`.
Names are loaded when they are used, so that a workload process starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undermine import ledgers as ledgers
    from undermine.api import hunt as hunt
    from undermine.model.run import Op as Op
    from undermine.model.run import RunView as RunView
    from undermine.model.run import Verdict as Verdict
    from undermine.registry import check as check
    from undermine.registry import checker as checker
    from undermine.registry import filter as filter
    from undermine.registry import final as final
    from undermine.registry import workload as workload
    from undermine.workloads import Refused as Refused
    from undermine.workloads import Session as Session

__version__ = "0.1.0"

_HOMES = {
    "Op": "undermine.model.run",
    "RunView": "undermine.model.run",
    "Verdict": "undermine.model.run",
    "check": "undermine.registry",
    "checker": "undermine.registry",
    "filter": "undermine.registry",
    "final": "undermine.registry",
    "workload": "undermine.registry",
    "Refused": "undermine.workloads",
    "Session": "undermine.workloads",
    "hunt": "undermine.api",
}

__all__ = [
    "Op",
    "Refused",
    "RunView",
    "Session",
    "Verdict",
    "__version__",
    "check",
    "checker",
    "filter",
    "final",
    "hunt",
    "ledgers",
    "workload",
]


def __getattr__(name: str) -> Any:
    if name == "ledgers":
        return import_module("undermine.ledgers")
    if name not in _HOMES:
        raise AttributeError(f"module 'undermine' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
