package undermine.agent;

import java.util.concurrent.TimeUnit;

/** Records what is observed only: locks, waits, queues, clocks. Nothing is ever held or raised here. */
final class Watch {
    private Watch() {
    }

    /** Null: it is not recorded. */
    static Call begin(Operation operation, Subject subject, long size) {
        return operation == null ? null : begin(ThreadState.get(), operation, subject, size);
    }

    static Call begin(ThreadState state, Operation operation, Subject subject, long size) {
        Agent agent = Agent.current;
        if (operation == null || !isSeen(agent, state, subject)) {
            return null;
        }
        return Core.begin(agent, state, operation, subject, size, 0, null, false, false);
    }

    /** The same, at a place that is known. */
    static Call beginAt(ThreadState state, Operation operation, Subject subject, Stack stack, long size) {
        Agent agent = Agent.current;
        if (operation == null || stack == null || !isSeen(agent, state, subject)) {
            return null;
        }
        state.busy = true;
        try {
            return Core.write(agent, state, agent.cursor(state), operation, subject, stack, size, 0);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    /** Where this thread is; null if nothing is recorded now. */
    static Stack here(ThreadState state, Subject subject) {
        Agent agent = Agent.current;
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

    /** Record the monitors that this thread is in and that are not recorded yet. */
    static void settle(ThreadState state) {
        Agent agent = Agent.current;
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

    private static boolean isSeen(Agent agent, ThreadState state, Subject subject) {
        return subject != null && isSeen(agent, state);
    }

    /** Whether anything is recorded in this thread now. */
    static boolean isSeen(Agent agent, ThreadState state) {
        return agent != null && !agent.off && !state.busy && state.inside == 0;
    }

    static void end(Call call, long result) {
        if (call != null) {
            Core.leave(Agent.current, ThreadState.get(), call, result, null);
        }
    }

    static boolean end(Call call, boolean result) {
        end(call, result ? 1 : 0);
        return result;
    }

    /** Always throws the error with which the operation ended. */
    static <T extends Throwable> T failed(Call call, Throwable error) throws T {
        if (call != null) {
            Core.leave(Agent.current, ThreadState.get(), call, 0, Errors.nameOf(error));
        }
        Core.<T>raise(error);
        return null;
    }

    /** Something that has no duration. */
    static void record(Operation operation, Subject subject, long size) {
        ThreadState state = operation == null ? null : ThreadState.get();
        if (state != null && isSeen(Agent.current, state, subject)) {
            recordAt(state, operation, subject, null, size, 0, 0);
        }
    }

    /** The same, at a place that is known. */
    static void recordAt(ThreadState state, Operation operation, Subject subject, Stack stack) {
        if (operation != null && isSeen(Agent.current, state, subject)) {
            recordAt(state, operation, subject, stack, 0, 0, 0);
        }
    }

    /** The same, at a place that woven code tells by a number: its frame alone. What is deferred stays so. */
    static void recordPlace(Operation operation, Subject subject, long number) {
        ThreadState state = operation == null ? null : ThreadState.get();
        if (state == null || !isSeen(Agent.current, state)) {
            return;
        }
        if (state.nameId == 0) { // the thread's first: where it began is told by its stack
            recordAt(state, operation, subject, null, 0, 0, 0);
            return;
        }
        Agent agent = Agent.current;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Core.put(agent, state, cursor, operation, subject, agent.sites.only(cursor, agent.sites.placed(cursor, number)));
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** Something that was begun at this time, and is done. */
    static void done(Operation operation, Subject subject, long size, long since, long result) {
        ThreadState state = operation == null ? null : ThreadState.get();
        Stack stack = state == null ? null : here(state, subject);
        if (stack != null) {
            doneAt(state, operation, subject, stack, size, since, result);
        }
    }

    /** The same, at a place that is known. */
    static void doneAt(
            ThreadState state, Operation operation, Subject subject, Stack stack, long size, long since, long result) {
        if (operation != null && isSeen(Agent.current, state, subject)) {
            recordAt(state, operation, subject, stack, size, since, result);
        }
    }

    private static void recordAt(
            ThreadState state, Operation operation, Subject subject, Stack at, long size, long since, long result) {
        Agent agent = Agent.current;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Stack stack = at == null ? agent.sites.here(cursor) : at;
            Core.recordAt(agent, state, cursor, operation, subject, stack, size, since, result);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** A time limit in nanoseconds; 0: none. */
    static long limit(long time, TimeUnit unit) {
        return unit == null || time <= 0 ? 0 : unit.toNanos(time);
    }

    /** One in milliseconds, where 0 is none. */
    static long limit(long milliseconds) {
        return limit(milliseconds, TimeUnit.MILLISECONDS);
    }
}
