package undermine.agent;

/**
 * What the target calls around the entering and leaving of monitors: `synchronized` blocks and methods.
 *
 * A monitor is left by the method that entered it, so the stack need not be walked again: the place of the release is that of
 * the entering. Entering one again that the thread is in is no event, nor is the leaving that belongs to it.
 */
public final class MonitorHooks {
    private MonitorHooks() {
    }

    /** Nothing else is done in this thread between this and `entered`. */
    public static void entering(Object monitor) {
        ThreadState state = ThreadState.get();
        if (monitor != null && state.held.enterAgain(monitor)) {
            return;
        }
        Call call = Watch.begin(state, Ops.acquire, Things.of("monitor", monitor), 0);
        if (call != null) {
            state.entering = call;
            state.monitor = monitor;
        }
    }

    public static void entered() {
        ThreadState state = ThreadState.get();
        Call call = state.entering;
        if (call != null) {
            Core.leave(Agent.current, state, call, 1, null);
            state.held.push(state.monitor, call);
            state.entering = null;
            state.monitor = null;
        }
    }

    /** A method was entered whose monitor was got before. */
    public static void got(Object monitor) {
        entering(monitor);
        entered();
    }

    public static void leaving(Object monitor) {
        ThreadState state = ThreadState.get();
        if (state.held.leaveAgain(monitor)) {
            return;
        }
        Call entered = state.held.pop(monitor);
        if (entered == null) {
            Watch.record(Ops.release, Things.of("monitor", monitor), 0);
        } else {
            Watch.recordAt(state, Ops.release, entered.subject, entered.stack);
        }
    }
}
