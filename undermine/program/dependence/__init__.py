"""Answers what depends on an operation that a trace shows, from the source: which other operations its result controls,
what harm an unexpected result may do, and whether a wait in a loop has a limit.

Operations are named by their call stacks (`module:qualname#ordinal`, innermost first). Never imports or runs any code of
the target, and never guesses: where the source is missing, the answer is `Unknown`. See docs/program-facts.md.
"""

from undermine.program.dependence.answers import IMPACTS, Impact, ImpactKind, Line, Loop, LoopLimit, Unknown, Why
from undermine.program.dependence.lifting import meeting
from undermine.program.dependence.queries import Dependence
from undermine.program.dependence.questions import JoinedQuestions, Questions

__all__ = [
    "IMPACTS",
    "Dependence",
    "Impact",
    "ImpactKind",
    "JoinedQuestions",
    "Line",
    "Loop",
    "LoopLimit",
    "Questions",
    "Unknown",
    "Why",
    "meeting",
]
