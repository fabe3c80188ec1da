package undermine.agent.record;

import java.util.concurrent.TimeUnit;
import undermine.agent.faults.SystemErrors;
import undermine.agent.lib.Unchecked;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.stacks.Stack;
import undermine.agent.wire.Cursor;

/**
 * Records operations that are only observed: locks, waits, queues, clocks. It never delays and never raises an error of
 * its own.
 */
public final class Observer {
    private static final Subject SELECT = new Subject("select", "", false);

    private Observer() {
    }

    /** Begin a wait for channels. */
    public static Call poll(ThreadState state, long limit) {
        return begin(state, Ops.poll, SELECT, limit);
    }

    /** Begin an operation; null: it isn't recorded. */
    public static Call begin(Operation operation, Subject subject, long size) {
        return operation == null ? null : begin(ThreadState.get(), operation, subject, size);
    }

    public static Call begin(ThreadState state, Operation operation, Subject subject, long size) {
        AgentCore agent = AgentCore.current;
        if (operation == null || !isSeen(agent, state, subject)) {
            return null;
        }
        return Recorder.begin(agent, state, operation, subject, size, 0, null, false, false);
    }

    /** The same, at a known stack. */
    public static Call beginAt(ThreadState state, Operation operation, Subject subject, Stack stack, long size) {
        AgentCore agent = AgentCore.current;
        if (operation == null || stack == null || !isSeen(agent, state, subject)) {
            return null;
        }
        state.busy = true;
        try {
            return Recorder.write(agent, state, agent.cursor(state), operation, subject, stack, size, 0);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    /** The current stack; null if nothing is recorded now. */
    public static Stack here(ThreadState state, Subject subject) {
        AgentCore agent = AgentCore.current;
        if (!isSeen(agent, state, subject)) {
            return null;
        }
        state.busy = true;
        try {
            return agent.sites.here(agent.cursor(state));
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    /** Record the deferred monitors of this thread. */
    public static void settle(ThreadState state) {
        AgentCore agent = AgentCore.current;
        if (!isSeen(agent, state)) {
            return;
        }
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            state.held.settle(agent, state, cursor, agent.sites.here(cursor));
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    private static boolean isSeen(AgentCore agent, ThreadState state, Subject subject) {
        return subject != null && isSeen(agent, state);
    }

    /** True if operations of this thread are recorded now. */
    public static boolean isSeen(AgentCore agent, ThreadState state) {
        return agent != null && !agent.off && !state.busy && state.inside == 0;
    }

    public static void end(Call call, long result) {
        if (call != null) {
            Recorder.leave(AgentCore.current, ThreadState.get(), call, result, null);
        }
    }

    public static boolean end(Call call, boolean result) {
        end(call, result ? 1 : 0);
        return result;
    }

    /** End the operation with an error, and throw that error. */
    public static <T extends Throwable> T failed(Call call, Throwable error) throws T {
        if (call != null) {
            Recorder.leave(AgentCore.current, ThreadState.get(), call, 0, SystemErrors.nameOf(error));
        }
        Unchecked.<T>raise(error);
        return null;
    }

    /** Record an operation without a duration. */
    public static void record(Operation operation, Subject subject, long size) {
        ThreadState state = operation == null ? null : ThreadState.get();
        if (state != null && isSeen(AgentCore.current, state, subject)) {
            recordAt(state, operation, subject, null, size, 0, 0);
        }
    }

    /** The same, at a known stack. */
    public static void recordAt(ThreadState state, Operation operation, Subject subject, Stack stack) {
        if (operation != null && isSeen(AgentCore.current, state, subject)) {
            recordAt(state, operation, subject, stack, 0, 0, 0);
        }
    }

    /**
     * The same for a clock read, at the call site that woven code passes as a number; the stack isn't walked. Deferred
     * monitors stay deferred. The thread remembers the time for later comparisons.
     */
    public static void recordSite(Operation operation, Subject subject, long number) {
        ThreadState state = operation == null ? null : ThreadState.get();
        if (state == null || !isSeen(AgentCore.current, state)) {
            return;
        }
        if (state.nameId == 0) { // the thread's first event: its stack tells where the thread began
            recordAt(state, operation, subject, null, 0, 0, 0);
            state.reads.put(number, Clock.now(), state.acts);
            return;
        }
        AgentCore agent = AgentCore.current;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Stack site = agent.sites.only(cursor, agent.sites.numbered(cursor, number));
            state.reads.put(number, Recorder.put(agent, state, cursor, operation, subject, site, 0), state.acts);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** Record an operation that began at `since` and is done. */
    public static void done(Operation operation, Subject subject, long size, long since, long result) {
        ThreadState state = operation == null ? null : ThreadState.get();
        Stack stack = state == null ? null : here(state, subject);
        if (stack != null) {
            doneAt(state, operation, subject, stack, size, since, result);
        }
    }

    /** The same, at a known stack. */
    public static void doneAt(
            ThreadState state, Operation operation, Subject subject, Stack stack, long size, long since, long result) {
        if (operation != null && isSeen(AgentCore.current, state, subject)) {
            recordAt(state, operation, subject, stack, size, since, result);
        }
    }

    private static void recordAt(
            ThreadState state, Operation operation, Subject subject, Stack at, long size, long since, long result) {
        AgentCore agent = AgentCore.current;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Stack stack = at == null ? agent.sites.here(cursor) : at;
            Recorder.recordAt(agent, state, cursor, operation, subject, stack, size, since, result);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** A time limit in nanoseconds; 0: none. */
    public static long limit(long time, TimeUnit unit) {
        return unit == null || time <= 0 ? 0 : unit.toNanos(time);
    }

    /** A time limit in milliseconds, where 0 means none, in nanoseconds. */
    public static long limit(long milliseconds) {
        return limit(milliseconds, TimeUnit.MILLISECONDS);
    }
}
