package undermine.agent.faults;

import undermine.agent.operations.Call;
import undermine.agent.process.Clock;
import undermine.agent.process.Threads;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;
import undermine.agent.wire.SharedState;

/** A delay of one operation. It ends when its time is up, its step is over, or everything is healed. */
final class Delay {
    static final long LOOK_NS = 20000000L;

    private final SharedState state;
    private final EventFile file;
    private final int step;
    private final int seq;
    private final int action;
    private final int detail;
    private final long start;
    private final long end;
    private boolean ended;

    /** Begin the delay, with a receipt. */
    Delay(SharedState state, EventFile file, Step step, Call call, int action, int detail) {
        this.state = state;
        this.file = file;
        this.step = step.index;
        this.seq = call.seq;
        this.action = action;
        this.detail = detail;
        this.start = Clock.now();
        this.end = start + (long) (step.number("delay_s", 0) * 1e9);
        file.receipt(call.cursor, seq, start, this.step, 0, action, detail);
    }

    /** True once it has ended; `cursor` belongs to the current thread. */
    boolean over(Cursor cursor) {
        if (!hasEnded() && (Clock.now() >= end || state.over(step))) {
            finish(cursor);
        }
        return hasEnded();
    }

    private synchronized boolean hasEnded() {
        return ended;
    }

    /** End it now, with a receipt of its duration. */
    synchronized void finish(Cursor cursor) {
        if (!ended) {
            ended = true;
            long now = Clock.now();
            file.receipt(cursor, seq, now, step, now - start, action, detail);
        }
    }

    /** Make this thread wait until the delay is over. */
    void waitHere(Cursor cursor) {
        try {
            while (!over(cursor)) {
                Threads.sleep(Math.min(LOOK_NS, end - Clock.now()));
            }
        } finally {
            finish(cursor);
        }
    }
}
