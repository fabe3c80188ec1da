"""The effects that a fault may have on a target.

| injected fault | permitted effect |
|---|---|
| crash, reboot, power loss (`power`; of a node or a group) | these nodes die; operations fail or stay open until they are back |
| disk error | the node may exit (fail-stop), at once or when it is started again before healing |
| partition, pause | operations fail or stay open until healed |
| network error, delay, drop | one client's operations fail or stay open until healed; other clients' only if a node says why |
| corrupt | the node may exit, or refuse to serve while its stored bytes are wrong, even after healing |

The checker `gray` judges the row `network error, delay, drop`, and a slow or failing disk while its node lives: clients other
than the fault's victim get no answer or only errors, and all nodes concerned say they are healthy. It skips periods in which
another row permits all clients to wait.

No fault permits the loss of an acknowledged write, a hang after healing, a thread that dies alone, a wrong answer, or the end of
other nodes. That includes corrupted bytes: a node that does not detect them answers wrongly.
"""

from __future__ import annotations

from undermine.model.faults import row_of
from undermine.model.plan import final_at
from undermine.model.point import Point
from undermine.model.run import NodeExit, RunView


def exit_allowed(run: RunView, node_exit: NodeExit) -> bool:
    """Was this node permitted to end? After healing, only stored bytes that are still wrong permit it."""
    if node_exit.expected or refusal_allowed(run, node_exit.node, node_exit.t_ns):
        return True
    healed_ns = run.record.healed_ns
    if healed_ns and node_exit.started_ns >= healed_ns:
        return False
    return any(_may_stop_node(run, step) for step in _steps_that_hit(run, node_exit.node, node_exit.t_ns))


def refusal_allowed(run: RunView, node: str, t_ns: int) -> bool:
    """May this node refuse to serve at that time, even after healing, because its stored bytes were corrupted?"""
    return any(_may_refuse(run, step) for step in _steps_that_hit(run, node, t_ns))


def _steps_that_hit(run: RunView, node: str, until_ns: int) -> set[int]:
    hits = (receipt for receipt in run.receipts if receipt.node == node and receipt.proves)
    known = range(len(run.plan.steps))  # a damaged receipt may name any step
    return {receipt.step for receipt in hits if receipt.begun_ns <= until_ns and receipt.step in known}


def _may_stop_node(run: RunView, step: int) -> bool:
    fault = run.plan.steps[step].fault
    return row_of(fault).may_stop_node(fault)


def _may_refuse(run: RunView, step: int) -> bool:
    at = final_at(run.plan.steps[step].trigger)
    return row_of(run.plan.steps[step].fault).may_refuse(at.point if at else Point(()))
