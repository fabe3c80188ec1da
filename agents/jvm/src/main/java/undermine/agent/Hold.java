package undermine.agent;

/** Time that passes before the operation goes on: until it is up, the step is over or everything is healed. */
final class Hold {
    static final long LOOK_NS = 20000000L;

    private final State state;
    private final EventFile file;
    private final int step;
    private final int seq;
    private final int action;
    private final int detail;
    private final long start;
    private final long end;
    private boolean ended;

    /** Begins now, with a receipt that says so. */
    Hold(State state, EventFile file, Step step, Call call, int action, int detail) {
        this.state = state;
        this.file = file;
        this.step = step.index;
        this.seq = call.seq;
        this.action = action;
        this.detail = detail;
        this.start = Clock.now();
        this.end = start + (long) (step.number("delay_s") * 1e9);
        file.receipt(call.cursor, seq, start, this.step, 0, action, detail);
    }

    /** True once it has ended; the cursor is that of the thread that looks. */
    boolean over(Cursor cursor) {
        if (!hasEnded() && (Clock.now() >= end || state.over(step))) {
            finish(cursor);
        }
        return hasEnded();
    }

    private synchronized boolean hasEnded() {
        return ended;
    }

    /** End it now, with a receipt that says how long it was. */
    synchronized void finish(Cursor cursor) {
        if (!ended) {
            ended = true;
            long now = Clock.now();
            file.receipt(cursor, seq, now, step, now - start, action, detail);
        }
    }

    /** Hold this thread. */
    void waitHere(Cursor cursor) {
        try {
            while (!over(cursor)) {
                sleep(Math.min(LOOK_NS, end - Clock.now()));
            }
        } finally {
            finish(cursor);
        }
    }

    /** Let time pass, whatever interrupts: the thread finds its interrupt afterwards. Parking would eat its permits. */
    static void sleep(long ns) {
        boolean wasInterrupted = Thread.interrupted();
        long until = Clock.now() + ns;
        for (long left = ns; left > 0; left = until - Clock.now()) {
            try {
                Thread.sleep(left / 1000000, (int) (left % 1000000));
                break;
            } catch (InterruptedException interrupt) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
