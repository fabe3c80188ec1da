"""What a fault may do: a table, not a guess.

| what was injected | what is allowed |
|---|---|
| crash, reboot (of a node or a group) | the nodes' own death; operations fail or stay open until they are back |
| disk error | the node may exit (fail-stop), then or when it is started again before healing |
| partition, pause | operations fail or stay open until healed |
| network error, delay, drop | one client's operations fail or stay open until healed; those of more only if a node says why |
| corrupt | the node may exit, or refuse to serve as long as what it stored is wrong, also after healing |

The last line but one is what `gray` judges, and a slow or failing disk while its node lives: several clients that nobody
answers, and all nodes concerned say that they are healthy. It judges no time in which another line excuses everybody.

Nothing may lose an acknowledged write, hang after healing, kill a thread and leave its process, answer wrongly, or
take other nodes down. That holds for corrupted bytes too: who cannot tell them from right ones answers wrongly.
"""

from __future__ import annotations

from undermine.model.faults import row_of
from undermine.model.plan import final_at
from undermine.model.point import Point
from undermine.model.run import NodeExit, RunView


def exit_allowed(run: RunView, node_exit: NodeExit) -> bool:
    """May this node have ended the way it did? Only bytes that are still wrong excuse one that was started when all
    was healed."""
    if node_exit.expected or refusal_allowed(run, node_exit.node, node_exit.t_ns):
        return True
    healed_ns = run.record.healed_ns
    if healed_ns and node_exit.started_ns >= healed_ns:
        return False
    return any(_may_stop_node(run, step) for step in _steps_that_hit(run, node_exit.node, node_exit.t_ns))


def refusal_allowed(run: RunView, node: str, t_ns: int) -> bool:
    """May this node refuse to work at that time, whether or not all is healed, since its data is not what it wrote?"""
    return any(_corrupts_store(run, step) for step in _steps_that_hit(run, node, t_ns))


def _steps_that_hit(run: RunView, node: str, until_ns: int) -> set[int]:
    hits = (receipt for receipt in run.receipts if receipt.node == node and receipt.proves)
    known = range(len(run.plan.steps))  # a damaged receipt may name any
    return {receipt.step for receipt in hits if receipt.begun_ns <= until_ns and receipt.step in known}


def _may_stop_node(run: RunView, step: int) -> bool:
    fault = run.plan.steps[step].fault
    return row_of(fault).may_stop_node(fault)


def _corrupts_store(run: RunView, step: int) -> bool:
    """Bytes of a file stay wrong; those of a message are gone with it."""
    at = final_at(run.plan.steps[step].trigger)
    return row_of(run.plan.steps[step].fault).may_refuse(at.point if at else Point(()))
