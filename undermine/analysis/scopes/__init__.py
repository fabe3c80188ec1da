"""Program facts from source text alone: I/O operations, and the scopes in which a slow one hurts (docs/scopes.md).

Nothing of the target is imported or run. `analyse(folders)` gives the facts; `Program.read(folders)` can be told what runs have
shown first.
"""

from undermine.analysis.scopes.facts import SYNCHRONIZED, TIMED, Counts, Facts, Scope, StaticPoint, Trouble
from undermine.analysis.scopes.operations import Named
from undermine.analysis.scopes.program import Program, analyse, calls_in

__all__ = [
    "SYNCHRONIZED",
    "TIMED",
    "Counts",
    "Facts",
    "Named",
    "Program",
    "Scope",
    "StaticPoint",
    "Trouble",
    "analyse",
    "calls_in",
]
