"""Facts from the code of a target: its I/O operations, and the regions in which a slow one hurts.

Never imports or runs any code of the target. `analyse(folders)` returns the facts of source code. `Program.read(folders)` also
takes the calls that runs have shown, and so does `Compiled`, for bytecode. `Dependence(program)` and
`Compiled.dependence()` answer what depends on an operation. See docs/program-facts.md.
"""

from undermine.program.compiled import Compiled
from undermine.program.dependence import Dependence
from undermine.program.facts import (
    SYNCHRONIZED,
    TIMED,
    Counts,
    Facts,
    Limit,
    Region,
    StaticPoint,
    Term,
    Trouble,
    joined,
)
from undermine.program.program import Program, analyse, calls_in
from undermine.program.source.operations import Named

__all__ = [
    "SYNCHRONIZED",
    "TIMED",
    "Compiled",
    "Counts",
    "Dependence",
    "Facts",
    "Limit",
    "Named",
    "Program",
    "Region",
    "StaticPoint",
    "Term",
    "Trouble",
    "analyse",
    "calls_in",
    "joined",
]
