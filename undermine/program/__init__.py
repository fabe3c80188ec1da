"""Facts from a target's Python source: its I/O operations, and the regions in which a slow one hurts.

See docs/program-facts.md. Never imports or runs code of the target. `analyse(folders)` returns the facts. `Program.read(folders)` can also be told
which calls runs have shown.
"""

from undermine.program.facts import SYNCHRONIZED, TIMED, Counts, Facts, Region, StaticPoint, Trouble
from undermine.program.program import Program, analyse, calls_in
from undermine.program.source.operations import Named

__all__ = [
    "SYNCHRONIZED",
    "TIMED",
    "Counts",
    "Facts",
    "Named",
    "Program",
    "Region",
    "StaticPoint",
    "Trouble",
    "analyse",
    "calls_in",
]
