"""The one error class for mistakes that a user can make and fix.

Every other exception is a bug in Undermine and may end with a traceback.
"""

from __future__ import annotations


class UserError(Exception):
    """The user made a mistake; the text is one clear sentence that says what to do."""

    exit_code = 2


class ClusterError(UserError):
    """The user's cluster or workload fails without any fault; the text says how."""

    exit_code = 3


class Interrupted(BaseException):
    """The user asked the tool to stop; everything stored so far stays and can be resumed.

    Like KeyboardInterrupt it isn't an `Exception`, so that no handler takes it for a failure of the interrupted work.
    """

    exit_code = 130
