"""What a fault may do: a table, not a guess.

| what was injected | what is allowed |
|---|---|
| crash, reboot | the node's own death; operations fail or stay open until it is back |
| disk error | the node may exit (fail-stop), then or when it is started again before healing |
| network error, delay | operations fail or stay open until healed |

Nothing may lose an acknowledged write, hang after healing, kill a thread and leave its process, answer wrongly, or
take other nodes down.
"""

from __future__ import annotations

from undermine.model.plan import DISK_ERRORS, Error
from undermine.model.run import NodeExit, RunView


def exit_allowed(run: RunView, node_exit: NodeExit) -> bool:
    """May this node have ended the way it did? Nothing excuses one that was started when all was healed."""
    healed_ns = run.record.healed_ns
    if node_exit.expected or (healed_ns and node_exit.started_ns >= healed_ns):
        return node_exit.expected
    return any(
        receipt.node == node_exit.node and receipt.t_ns <= node_exit.t_ns and _disk_error(run, receipt.step)
        for receipt in run.receipts
    )


def _disk_error(run: RunView, step: int) -> bool:
    fault = run.plan.steps[step].fault
    return isinstance(fault, Error) and fault.error in DISK_ERRORS
