"""The errors that nodes send to each other and to clients, by name."""

from __future__ import annotations

from typing import Any


class GranaryError(Exception):
    """Base of all errors that are sent to a caller; `info` holds facts that the caller may act on."""

    def __init__(self, message: str = "", **info: Any) -> None:
        super().__init__(message)
        self.info = info


class Unreachable(GranaryError):
    """No usable answer from the peer; whether it acted on the request is unknown."""


class CallTimeout(Unreachable):
    """The peer did not answer in time."""


class NotSent(GranaryError):
    """The request certainly never reached anyone who would act on it."""


class Unavailable(GranaryError):
    """Cannot be done now; try again."""


class NotLeader(GranaryError):
    """This store does not lead the shard."""


class StaleEpoch(GranaryError):
    """The sender's epoch is over; info: epoch."""


class NeedsSync(GranaryError):
    """The follower cannot continue with the leader's log and needs a snapshot."""


class StaleSync(GranaryError):
    """The snapshot is older than what the follower already has."""


class StaleGeneration(GranaryError):
    """The log has another generation at this replica; info: generation."""


class Recovering(GranaryError):
    """The log is being recovered at this replica; info: generation."""


class Conflict(GranaryError):
    """Another record is at that offset, or records before it are missing."""


class NotFound(GranaryError):
    """No such log, job or task."""


class Refused(GranaryError):
    """The request is invalid in this state and will stay so."""


class Internal(GranaryError):
    """The peer failed in a way it did not expect."""


_KINDS: dict[str, type[GranaryError]] = {
    kind.__name__: kind
    for kind in (Unreachable, CallTimeout, NotSent, Unavailable, NotLeader, StaleEpoch, NeedsSync, StaleSync,
                 StaleGeneration, Recovering, Conflict, NotFound, Refused, Internal)
}


def to_wire(error: GranaryError) -> dict[str, Any]:
    return {"error": type(error).__name__, "message": str(error), "info": error.info}


def from_wire(reply: dict[str, Any]) -> GranaryError:
    kind = _KINDS.get(str(reply.get("error")), Internal)
    return kind(str(reply.get("message", "")), **dict(reply.get("info") or {}))
