"""The strategy `half_written`: reboot a node right after it wrote a file and before anything else happened."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from undermine.analysis.possible_faults import injectable
from undermine.model.faults import Reboot
from undermine.model.plan import At, Plan, Step
from undermine.protocols import History

OPS = ("file.write", "file.rename", "file.unlink")


class HalfWritten:
    """Proposes one reboot for each file that a node changes, the files that most runs show first."""

    name = "half_written"
    summary = "a reboot after each change of a file"

    class Options(msgspec.Struct, frozen=True):
        """[strategies.half_written] in undermine.toml."""

        per_file: int = 2
        """How many places in the code to try for each file."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or self.Options()

    def propose(self, history: History) -> Iterator[Plan]:
        runs = {seen.point: seen.runs for seen in history.points}
        changes = [
            fault
            for fault in injectable(history.possible_faults)
            if isinstance(fault.fault, Reboot) and fault.place == "after" and fault.point.get("op") in OPS
        ]
        tried: dict[tuple[str, str], int] = {}
        for change in sorted(changes, key=lambda fault: -runs.get(fault.point, 0)):
            file = change.point.get("role"), change.point.get("target")
            tried[file] = tried.get(file, 0) + 1
            why = f"{file[1]} has changed, and nothing has happened since"
            plan = Plan((Step(At(change.point, "after"), change.fault),), history.seed, self.name, why)
            if tried[file] <= self._options.per_file and plan.id not in history.settled:
                yield plan
