package undermine.agent.instead;

import java.time.Instant;
import undermine.agent.operations.Subject;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.stacks.Sites;

/**
 * Called by the target instead of clocks: the same is done, and recorded. See ReplacedCalls.
 *
 * Programs look at clocks more often than they do anything else, so a stack is not walked for each look: what is recorded is
 * the place of the call, alone. Woven code tells it by a number (see Sites); references to these methods do not. Nor is a look at
 * a clock something that is done in a monitor (see HeldMonitors).
 */
public final class ClockCalls {
    private static final Subject MILLISECONDS = new Subject("currentTimeMillis", "", false);
    private static final Subject NANOSECONDS = new Subject("nanoTime", "", false);
    private static final Subject INSTANT = new Subject("Instant", "", false);

    private ClockCalls() {
    }

    public static long currentTimeMillis(int high, int middle, int low) {
        Observer.recordPlace(Ops.clock, MILLISECONDS, Sites.number(high, middle, low));
        return System.currentTimeMillis();
    }

    public static long currentTimeMillis() {
        Observer.record(Ops.clock, MILLISECONDS, 0);
        return System.currentTimeMillis();
    }

    public static long nanoTime(int high, int middle, int low) {
        Observer.recordPlace(Ops.clock, NANOSECONDS, Sites.number(high, middle, low));
        return System.nanoTime();
    }

    public static long nanoTime() {
        Observer.record(Ops.clock, NANOSECONDS, 0);
        return System.nanoTime();
    }

    public static Instant now(int high, int middle, int low) {
        Observer.recordPlace(Ops.clock, INSTANT, Sites.number(high, middle, low));
        return Instant.now();
    }

    public static Instant now() {
        Observer.record(Ops.clock, INSTANT, 0);
        return Instant.now();
    }
}
