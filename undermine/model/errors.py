"""The one error class for mistakes that a user can make and mend.

Everything that is not a `UserError` is a defect of ours and may crash with a trace.
"""

from __future__ import annotations


class UserError(Exception):
    """A mistake of the user's; the text is one clear sentence that says what to do."""

    exit_code = 2


class ClusterError(UserError):
    """The user's cluster or workload fails without any fault; the text says how."""

    exit_code = 3


class Interrupted(BaseException):
    """The user asked the tool to stop; everything stored so far stays and can be resumed.

    Like KeyboardInterrupt it is no `Exception`, so that nobody takes it for a failure of what was going on.
    """

    exit_code = 130
