"""The checker `answers`: every client gets at least one answer after healing."""

from __future__ import annotations

from undermine import RunView, Verdict
from undermine.model.run import Rank


class Answers:
    """Fails if a client that asked something after healing never got an answer."""

    name = "answers"
    rank = Rank.RECOVERY
    summary = "a client gets no answer after healing"

    def check(self, run: RunView) -> Verdict:
        healed_ns = run.record.healed_ns
        if not healed_ns:
            return Verdict.ok()
        late = [op for op in run.history if op.start_ns >= healed_ns]
        asked, answered = {op.client for op in late}, {op.client for op in late if op.status == "ok"}
        if silent := sorted(asked - answered):
            return Verdict.fail(f"{', '.join(silent)} got no answer after healing", symptom="a client is never answered")
        return Verdict.ok()
