package undermine.agent.sync;

import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.ClockReads;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.stacks.Sites;

/**
 * Called by the target where it compares clock readings with a limit (see ClockComparisons). The comparison is recorded as
 * a `timeout` that began with the first reading and ends now, if an operation that may be slow was in between.
 *
 * Numbers identify the first clock read, the sum that is a deadline, and the comparison. Units are nanoseconds; a negative
 * one says that the limit is the left operand.
 */
public final class LimitHooks {
    private static final Subject COMPARED = new Subject("compared", "", false);

    private LimitHooks() {
    }

    public static int compared(long left, long right, long unit, int high, int middle, int low, int h, int m, int l) {
        found(left, right, unit, Sites.number(high, middle, low), Sites.number(h, m, l));
        return Long.compare(left, right);
    }

    public static void compared(int left, int right, long unit, int high, int middle, int low, int h, int m, int l) {
        found(left, right, unit, Sites.number(high, middle, low), Sites.number(h, m, l));
    }

    public static long deadline(long left, long right, long unit, int high, int middle, int low) {
        if (Ops.timeout != null) {
            long limit = nanoseconds(unit > 0 ? right : left, Math.abs(unit));
            ThreadState.get().reads.put(Sites.number(high, middle, low), limit, 0);
        }
        return left + right;
    }

    public static int reached(long left, long right, int high, int middle, int low, int h, int m, int l) {
        if (Ops.timeout != null) {
            ThreadState state = ThreadState.get();
            long sum = Sites.number(h, m, l);
            record(state, state.reads.at(sum), Sites.number(high, middle, low), sum);
        }
        return Long.compare(left, right);
    }

    private static void found(long left, long right, long unit, long start, long place) {
        if (Ops.timeout != null) {
            ThreadState state = ThreadState.get();
            record(state, nanoseconds(unit > 0 ? right : left, Math.abs(unit)), start, place);
        }
    }

    private static long nanoseconds(long limit, long unit) {
        return limit <= 0 ? 0 : limit > Long.MAX_VALUE / unit ? Long.MAX_VALUE : limit * unit;
    }

    private static void record(ThreadState state, long limit, long start, long place) {
        ClockReads reads = state.reads;
        long since = reads.at(start);
        boolean isNew = since != 0 && state.acts != reads.actsAt(start) && state.acts != reads.actsAt(place);
        if (limit > 0 && isNew && Observer.isSeen(AgentCore.current, state)) {
            reads.put(place, reads.at(place), state.acts);
            Observer.done(Ops.timeout, COMPARED, limit, since, 0);
        }
    }
}
