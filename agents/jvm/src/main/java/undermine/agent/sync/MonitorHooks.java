package undermine.agent.sync;

import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.process.Clock;
import undermine.agent.record.AgentCore;
import undermine.agent.record.HeldMonitors;
import undermine.agent.record.MonitorUsers;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.ThreadState;
import undermine.agent.stacks.Sites;

/**
 * Called by the target around monitors: `synchronized` blocks and methods.
 *
 * The method that entered a monitor also leaves it, so the stack isn't walked again: the release has the call site of the
 * entry. Entering a monitor again, and leaving it again, is not an event. Nor is an uncontended monitor in which nothing
 * is recorded (see HeldMonitors).
 */
public final class MonitorHooks {
    /** A longer wait means that code which isn't woven had the monitor. */
    private static final long WAITED_NS = 20_000;

    private MonitorHooks() {
    }

    /**
     * Nothing else happens in this thread between this and `entered`. The result is kept in the thread's state and not on
     * the stack: a virtual thread of JDK 25 that waits for the monitor may lose it there. The three numbers identify the
     * call site.
     */
    public static void entering(Object monitor, int high, int middle, int low) {
        ThreadState state = ThreadState.get();
        state.isEntering = isEntering(state, monitor, high, middle, low);
    }

    private static boolean isEntering(ThreadState state, Object monitor, int high, int middle, int low) {
        AgentCore agent = AgentCore.current;
        if (monitor == null || state.held.enterAgain(monitor) || !Observer.isSeen(agent, state)) {
            return false;
        }
        MonitorUsers users = MonitorUsers.at(monitor);
        if (users.enter() && state.nameId != 0 && defer(agent, state, monitor, users, Sites.number(high, middle, low))) {
            return true;
        }
        Call call = Observer.begin(state, Ops.acquire, ObjectNames.of("monitor", monitor), 0);
        if (call == null) {
            users.leave();
            return false;
        }
        state.held.push(monitor, users, call);
        return true;
    }

    /** The stack is walked only at the first use of the call site (see HeldMonitors). */
    private static boolean defer(AgentCore agent, ThreadState state, Object monitor, MonitorUsers users, long number) {
        state.busy = true;
        try {
            state.held.defer(monitor, users, agent.sites.numbered(agent.cursor(state), number));
            return true;
        } catch (Throwable trouble) {
            agent.note(trouble);
            return false;
        } finally {
            state.busy = false;
        }
    }

    public static void entered() {
        ThreadState state = ThreadState.get();
        if (!state.isEntering) {
            return;
        }
        state.isEntering = false;
        HeldMonitors held = state.held;
        Call call = held.entered(Clock.now());
        if (call != null) {
            Recorder.leave(AgentCore.current, state, call, 1, null);
        } else if (held.waited() > WAITED_NS) {
            Observer.settle(state);
        }
    }

    /** A `synchronized` method begins, which has its monitor already. */
    public static void got(Object monitor, int high, int middle, int low) {
        entering(monitor, high, middle, low);
        entered();
    }

    public static void leaving(Object monitor) {
        ThreadState state = ThreadState.get();
        HeldMonitors held = state.held;
        if (held.leaveAgain(monitor) || held.drop(monitor)) {
            return;
        }
        if (held.isDeferring()) {
            Observer.settle(state);
        }
        Call entered = held.pop(monitor);
        if (entered == null) {
            Observer.record(Ops.release, ObjectNames.of("monitor", monitor), 0);
        } else {
            Observer.recordAt(state, Ops.release, entered.subject, entered.stack);
        }
    }
}
