package undermine.agent.record;

import undermine.agent.names.ThreadNames;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.stacks.Site;
import undermine.agent.stacks.Sites;
import undermine.agent.stacks.Stack;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.EventFile;

/** Records operations in the event file, and lets faults decide about them. */
public final class Recorder {
    private Recorder() {
    }

    /** The operation to record: itself or, below a logical operation, the raw transfer; null: none. */
    public static Operation seen(AgentCore agent, ThreadState state, Operation operation, Subject subject) {
        if (subject == null || state.busy || state.inside > 0 || agent == null || agent.off) {
            return null;
        }
        boolean isCovered = state.enclosing != null && state.enclosing.covers(operation.name, subject);
        if (!isCovered || hasLasting(agent, state)) {
            return operation;
        }
        return operation == Ops.send ? Ops.rawSend : operation == Ops.recv ? Ops.rawRecv : null;
    }

    /** While lasting faults are in force, operations below a logical one are recorded too, since faults meet them. */
    private static boolean hasLasting(AgentCore agent, ThreadState state) {
        state.busy = true;
        try {
            return agent.lasting.any();
        } catch (Throwable trouble) {
            agent.note(trouble);
            return false;
        } finally {
            state.busy = false;
        }
    }

    /**
     * Record the beginning and let faults decide; null if it couldn't be recorded.
     *
     * `isOfCaller`: the innermost frame of the target is the operation itself, so its caller is the call site.
     */
    public static Call begin(AgentCore agent, ThreadState state, Operation operation, Subject subject, long size, long since,
            Object handle, boolean isNonBlocking, boolean isOfCaller) {
        Call call = null;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Stack stack = agent.sites.here(cursor);
            stack = isOfCaller ? caller(agent.sites, cursor, stack) : stack;
            long begun = since;
            if (operation.readsBefore) {
                begun = since == 0 ? Clock.now() : since;
                SampleRecorder.read(agent, state, cursor, stack, begun);
            }
            call = write(agent, state, cursor, operation, subject, stack, size, begun);
            call.nonBlocking = isNonBlocking;
            call.handle = handle;
            call.size = size;
            if (operation.matchable && (operation.before.length > 0 || agent.lasting.any())) {
                agent.greeting.await();
                agent.faults.before(call);
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
        return call;
    }

    /** The stack without its innermost frame; unchanged if that is the only one. */
    private static Stack caller(Sites sites, Cursor cursor, Stack stack) {
        Site[] frames = stack.outer();
        return frames.length == 0 ? stack : sites.stack(cursor, frames);
    }

    /** Write the beginning of an operation. The caller has set `busy`. */
    static Call write(AgentCore agent, ThreadState state, Cursor cursor, Operation operation, Subject subject,
            Stack stack, long size, long since) {
        if (state.held.isDeferring()) {
            state.held.settle(agent, state, cursor, stack);
        }
        if (state.nameId == 0 || operation.nameId == 0 || !subject.isDefined) {
            define(agent, state, cursor, operation, subject, stack, since);
        }
        state.acts += operation.matchable ? 1 : 0;
        EventFile file = agent.file;
        int seq = file.nextSeq();
        file.begin(cursor, seq, since == 0 ? Clock.now() : since, operation.nameId, stack.id, subject.targetId,
                subject.resourceId, state.nameId, size);
        if (operation.handling == Operation.Handling.SURROUNDS) {
            state.handler.begin(operation, subject, stack, size);
        }
        return new Call(operation, subject, stack, seq, cursor);
    }

    /**
     * Write an operation of a thread that has recorded something before, with the times at which it began and ended; 0:
     * not ended. The cursor may belong to another thread.
     */
    static Call writeAt(AgentCore agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack,
            long begun, long ended) {
        define(agent, state, cursor, operation, subject, stack, begun);
        EventFile file = agent.file;
        int seq = file.nextSeq();
        file.begin(cursor, seq, begun, operation.nameId, stack.id, subject.targetId, subject.resourceId, state.nameId, 0);
        if (ended != 0) {
            file.end(cursor, seq, ended, 1, 0);
        }
        return new Call(operation, subject, stack, seq, cursor);
    }

    /** Define the names that a record refers to: the thread, the operation and its subject. */
    private static void define(AgentCore agent, ThreadState state, Cursor cursor, Operation operation, Subject subject,
            Stack stack, long since) {
        EventFile file = agent.file;
        if (state.nameId == 0) {
            Thread current = Thread.currentThread();
            boolean isUnique = ThreadNames.isNumbered(current);
            state.name = agent.threadNames.take(current);
            state.nameId = isUnique ? file.define(cursor, state.name) : file.string(cursor, state.name);
            Subject begun = Ops.take == null ? null : StartedThreads.begun(current);
            if (begun != null) { // the thread's first event
                recordBeginning(agent, state, cursor, begun, stack, since);
            }
        }
        if (operation.nameId == 0) {
            operation.nameId = file.string(cursor, operation.name);
        }
        if (!subject.isDefined) {
            subject.targetId = file.string(cursor, subject.described());
            String resource = subject.resource;
            subject.resourceId = subject.isUnique ? file.define(cursor, resource) : file.string(cursor, resource);
            subject.isDefined = true;
        }
    }

    /** Record that a new thread took the work that its start gave it, before the thread's first event. */
    private static void recordBeginning(
            AgentCore agent, ThreadState state, Cursor cursor, Subject subject, Stack stack, long since) {
        long at = since == 0 ? Clock.now() : since;
        Call call = write(agent, state, cursor, Ops.take, subject, stack, 0, at);
        agent.file.end(cursor, call.seq, at, 0, 0);
    }

    /** Record the end of an operation; may set `call.error`. */
    public static void leave(AgentCore agent, ThreadState state, Call call, long result, String error) {
        boolean wasBusy = state.busy;
        state.busy = true;
        call.error = null;
        try {
            Cursor cursor = agent.cursor(state);
            call.cursor = cursor;
            agent.file.end(cursor, call.seq, Clock.now(), result, error == null ? 0 : agent.file.string(cursor, error));
            if (call.operation.handling != Operation.Handling.KEEPS) {
                state.handler.begin(call.operation, call.subject, call.stack, call.size);
            }
            if (call.operation.readsAfter && !agent.off) {
                SampleRecorder.read(agent, state, cursor, call.stack, 0);
            }
            if (call.operation.after.length > 0 && !agent.off) {
                agent.greeting.await();
                agent.faults.after(call);
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** Record an operation without a duration, even if `busy` is set. */
    public static void record(Operation operation, Subject subject, Throwable at) {
        AgentCore agent = AgentCore.current;
        if (agent == null || agent.off) {
            return;
        }
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Stack stack = at == null ? agent.sites.here(cursor) : agent.sites.of(cursor, at);
            if (operation.readsBefore) {
                SampleRecorder.read(agent, state, cursor, stack, 0);
            }
            recordAt(agent, state, cursor, operation, subject, stack, 0, 0, 0);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /**
     * The same at a known stack. With a time in `since` it began then and ends now; with 0 it has no duration. The caller
     * has set `busy`.
     */
    public static void recordAt(AgentCore agent, ThreadState state, Cursor cursor, Operation operation, Subject subject,
            Stack stack, long size, long since, long result) {
        long now = Clock.now();
        long begun = since == 0 ? now : since;
        if (state.held.isDeferring()) {
            state.held.settle(agent, state, cursor, stack);
        }
        put(agent, state, cursor, operation, subject, stack, size, begun, now, result);
    }

    /** Record an operation without a duration, and leave deferred monitors deferred. Returns the time. The caller has set `busy`. */
    public static long put(AgentCore agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack,
            long result) {
        long now = Clock.now();
        put(agent, state, cursor, operation, subject, stack, 0, now, now, result);
        return now;
    }

    /** Record an operation without a duration at a known time, and leave deferred monitors deferred. The caller has set `busy`. */
    static void putAt(AgentCore agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack,
            long size, long at) {
        put(agent, state, cursor, operation, subject, stack, size, at, at, 0);
    }

    private static void put(AgentCore agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack,
            long size, long begun, long ended, long result) {
        if (state.nameId == 0 || operation.nameId == 0 || !subject.isDefined) {
            define(agent, state, cursor, operation, subject, stack, begun);
        }
        state.acts += operation.matchable ? 1 : 0;
        EventFile file = agent.file;
        file.whole(cursor, file.nextSeq(), begun, operation.nameId, stack.id, subject.targetId, subject.resourceId,
                state.nameId, size, ended, result);
        if (operation.handling != Operation.Handling.KEEPS) {
            state.handler.begin(operation, subject, stack, size);
        }
    }
}
