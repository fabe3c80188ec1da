"""Changes of operations: what a fault does to one operation instead of letting it be done as asked.

`instead` carries out the operation in some way, or not at all, and returns the caller's result; then `lost` is true
if nothing was done. `after` is for a change that comes after the operation. A change that only takes time also has
`pauses`, for coroutines: the seconds to wait, one after the other.
"""

from __future__ import annotations

from time import monotonic, monotonic_ns, sleep

LOOK_S = 0.02


class Delay:
    """A delay before the operation continues: until its time is up, the step is over or everything is healed."""

    lost = False

    def __init__(self, agent, step, cursor, seq: int, receipt):
        self.agent = agent
        self.step = step.index
        self.seq = seq
        self.receipt = receipt
        self.start = monotonic_ns()
        self.end = self.start + int(float(step.fault.get("delay_s", 0)) * 1e9)
        self.ended = False
        agent.writer.receipt(cursor, seq, self.start, self.step, 0, *receipt)

    def over(self) -> bool:
        if not self.ended and (monotonic_ns() >= self.end or self.agent.state.over(self.step)):
            self.finish()
        return self.ended

    def finish(self) -> None:
        """End the delay now, and write a receipt with its duration."""
        if not self.ended:
            self.ended = True
            now = monotonic_ns()
            cursor = self.agent.thread_state().cursor
            self.agent.writer.receipt(cursor, self.seq, now, self.step, now - self.start, *self.receipt)

    def left_s(self) -> float:
        """The time to wait until the next look at the clock and the shared state."""
        return max(0.0, min(LOOK_S, (self.end - monotonic_ns()) / 1e9))

    def pauses(self):
        try:
            while not self.over():
                yield self.left_s()
        finally:
            self.finish()

    def wait(self) -> None:
        """Delay this thread."""
        for seconds in self.pauses():
            sleep(seconds)

    def outlasts(self, limit_s: float) -> bool:
        """Delay this thread up to the operation's own time limit. True if the limit came first."""
        end = monotonic() + limit_s
        while not self.over() and monotonic() < end:
            sleep(max(0.0, min(self.left_s(), end - monotonic())))
        is_over = self.ended
        self.finish()
        return not is_over

    def instead(self, original, args, options):
        self.wait()
        return original(*args, **options)

    def after(self, result):
        self.wait()
        return result


class SilentDrop:
    """A logical operation that is not carried out, though its caller gets an answer as if it had been."""

    lost = True

    def instead(self, original, args, options):
        return None

    def lose_connection(self, subject):
        """None: only this message is lost. `LostArrival` loses its connection too."""
        return None
