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
 * What the target calls around the entering and leaving of monitors: `synchronized` blocks and methods.
 *
 * A monitor is left by the method that entered it, so the stack need not be walked again: the place of the release is that of
 * the entering. Entering one again that the thread is in is no event, nor is the leaving that belongs to it; nor is one that is
 * left before anything is recorded in it or anybody else comes to it (see HeldMonitors).
 */
public final class MonitorHooks {
    /** Who waited so long did so for code that is not woven. */
    private static final long WAITED_NS = 20_000;

    private MonitorHooks() {
    }

    /**
     * Nothing else is done in this thread between this and `entered`. What this finds out is kept for it with the thread, not on
     * the stack: a virtual thread of JDK 25 that waits for the monitor may lose what lies there. The three numbers are one that
     * tells the place apart from all others.
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
        MonitorUsers crowd = MonitorUsers.at(monitor);
        if (crowd.enter() && state.nameId != 0 && defer(agent, state, monitor, crowd, Sites.number(high, middle, low))) {
            return true;
        }
        Call call = Observer.begin(state, Ops.acquire, ObjectNames.of("monitor", monitor), 0);
        if (call == null) {
            crowd.leave();
            return false;
        }
        state.held.push(monitor, crowd, call);
        return true;
    }

    /** The stack is walked only where the place is not known yet: who records it knows the stack (see HeldMonitors). */
    private static boolean defer(AgentCore agent, ThreadState state, Object monitor, MonitorUsers crowd, long number) {
        state.busy = true;
        try {
            state.held.defer(monitor, crowd, agent.sites.placed(agent.cursor(state), number));
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

    /** A method was entered whose monitor was got before. */
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
