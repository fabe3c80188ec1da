package undermine.agent.instead;

import java.time.Instant;
import undermine.agent.operations.Subject;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.stacks.Sites;

/**
 * Called by the target instead of clocks; each call is recorded. See ReplacedCalls.
 *
 * Programs read clocks very often, so the stack isn't walked: only the call site is recorded. Woven code passes it as a
 * number (see Sites); method references have no number. A clock read doesn't cause deferred monitors to be recorded (see
 * HeldMonitors).
 */
public final class ClockCalls {
    private static final Subject MILLISECONDS = new Subject("currentTimeMillis", "", false);
    private static final Subject NANOSECONDS = new Subject("nanoTime", "", false);
    private static final Subject INSTANT = new Subject("Instant", "", false);

    private ClockCalls() {
    }

    public static long currentTimeMillis(int high, int middle, int low) {
        Observer.recordSite(Ops.clock, MILLISECONDS, Sites.number(high, middle, low));
        return System.currentTimeMillis();
    }

    public static long currentTimeMillis() {
        Observer.record(Ops.clock, MILLISECONDS, 0);
        return System.currentTimeMillis();
    }

    public static long nanoTime(int high, int middle, int low) {
        Observer.recordSite(Ops.clock, NANOSECONDS, Sites.number(high, middle, low));
        return System.nanoTime();
    }

    public static long nanoTime() {
        Observer.record(Ops.clock, NANOSECONDS, 0);
        return System.nanoTime();
    }

    public static Instant now(int high, int middle, int low) {
        Observer.recordSite(Ops.clock, INSTANT, Sites.number(high, middle, low));
        return Instant.now();
    }

    public static Instant now() {
        Observer.record(Ops.clock, INSTANT, 0);
        return Instant.now();
    }
}
