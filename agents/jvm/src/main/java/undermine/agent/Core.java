package undermine.agent;

import java.io.IOException;
import java.io.SyncFailedException;

/** The part of the agent that each operation passes: it is recorded, decided upon, and its end is recorded. */
final class Core {
    private Core() {
    }

    /**
     * An operation begins in a method whose frame was just pushed. True: do not do it, answer with nothing; the frame is
     * popped then.
     *
     * Throws what was decided to be raised instead; woven code pops the frame then.
     */
    static boolean enter(ThreadState state, Frame frame, Operation operation, Subject subject, long size, int answer) {
        Agent agent = Agent.current;
        Operation seen = seen(agent, state, operation, subject);
        if (seen == null) {
            return false;
        }
        frame.size = size;
        frame.answer = answer;
        Call call = begin(agent, state, seen, subject, size, 0, frame.thing, false, isOfCaller(frame));
        return call != null && proceed(agent, state, frame, call);
    }

    /** What an operation is recorded as: itself or, below a logical one, as what moves its bytes; null: it is not. */
    static Operation seen(Agent agent, ThreadState state, Operation operation, Subject subject) {
        if (subject == null || state.busy || state.inside > 0 || agent == null || agent.off) {
            return null;
        }
        boolean isCovered = state.scope != null && state.scope.covers(operation.name, subject);
        if (!isCovered || hasLasting(agent, state)) {
            return operation;
        }
        return operation == Ops.send ? Ops.rawSend : operation == Ops.recv ? Ops.rawRecv : null;
    }

    /** While lasting faults are in force, what is part of a logical operation is seen, since they meet it. */
    private static boolean hasLasting(Agent agent, ThreadState state) {
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

    /** True if the woven method may itself be one of the target's: then the place is where it is called. */
    static boolean isOfCaller(Frame frame) {
        return frame.side != null && frame.side.isTargets;
    }

    /**
     * Record the beginning and decide; null if it could not be recorded.
     *
     * If it is of the caller, the target's innermost frame is the operation itself, and not where it is called.
     */
    static Call begin(Agent agent, ThreadState state, Operation operation, Subject subject, long size, long since,
            Object thing, boolean isNonBlocking, boolean isOfCaller) {
        Call call = null;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Stack stack = agent.sites.here(cursor);
            stack = isOfCaller ? caller(agent.sites, cursor, stack) : stack;
            call = write(agent, state, cursor, operation, subject, stack, size, since);
            call.nonBlocking = isNonBlocking;
            call.subjectOf = thing;
            if (operation.matchable && (operation.before.length > 0 || agent.lasting.any())) {
                agent.awaitGreeting();
                agent.faults.before(call);
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
        return call;
    }

    /** The stack without its innermost frame, if there is another one. */
    private static Stack caller(Sites sites, Cursor cursor, Stack stack) {
        Site[] frames = stack.outer();
        return frames.length == 0 ? stack : sites.stack(cursor, frames);
    }

    /** The agent must be at work in this thread. */
    static Call write(Agent agent, ThreadState state, Cursor cursor, Operation operation, Subject subject,
            Stack stack, long size, long since) {
        if (state.held.isDeferring()) {
            state.held.settle(agent, state, cursor, stack);
        }
        if (state.nameId == 0 || operation.nameId == 0 || !subject.isDefined) {
            define(agent, state, cursor, operation, subject, stack, since);
        }
        EventFile file = agent.file;
        int seq = file.nextSeq();
        file.begin(cursor, seq, since == 0 ? Clock.now() : since, operation.nameId, stack.id, subject.targetId,
                subject.resourceId, state.nameId, size);
        return new Call(operation, subject, stack, seq, cursor);
    }

    /**
     * Write down, as this cursor, what a thread that has recorded something before began at this time, and ended with 1 at that
     * one; 0: not yet.
     */
    static Call writeAt(Agent agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack,
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

    /** Define what a record names: the thread, the operation, and what it acts on. */
    private static void define(Agent agent, ThreadState state, Cursor cursor, Operation operation, Subject subject,
            Stack stack, long since) {
        EventFile file = agent.file;
        if (state.nameId == 0) {
            Thread current = Thread.currentThread();
            boolean isUnique = ThreadNames.isNumbered(current);
            state.name = agent.threadNames.take(current);
            state.nameId = isUnique ? file.define(cursor, state.name) : file.string(cursor, state.name);
            Subject begun = Ops.take == null ? null : ThreadHooks.begun(current);
            if (begun != null) { // the first that the thread does
                recordBeginning(agent, state, cursor, begun, stack, since);
            }
        }
        if (operation.nameId == 0) {
            operation.nameId = file.string(cursor, operation.name);
        }
        if (!subject.isDefined) {
            subject.targetId = file.string(cursor, subject.target);
            String resource = subject.resource;
            subject.resourceId = subject.isUnique ? file.define(cursor, resource) : file.string(cursor, resource);
            subject.isDefined = true;
        }
    }

    /** A thread took what was given by its start: before the first that it does, without duration. */
    private static void recordBeginning(
            Agent agent, ThreadState state, Cursor cursor, Subject subject, Stack stack, long since) {
        long at = since == 0 ? Clock.now() : since;
        Call call = write(agent, state, cursor, Ops.take, subject, stack, 0, at);
        agent.file.end(cursor, call.seq, at, 0, 0);
    }

    /** Go on as was decided before the operation. */
    static boolean proceed(Agent agent, ThreadState state, Frame frame, Call call) {
        if (call.error != null) {
            return refuse(agent, state, frame, call);
        }
        if (call.wouldBlock) {
            leave(agent, state, call, 0, "EAGAIN");
            if (call.error != null) { // asked for after it
                Core.<RuntimeException>raise(raised(frame, call));
            }
            state.pop();
            return true;
        }
        if (call.isLost) {
            return lose(agent, state, frame, call);
        }
        frame.call = call;
        state.inside++;
        return false;
    }

    /** The sender is told that all of it, or the first of several datagrams, was sent. */
    private static boolean lose(Agent agent, ThreadState state, Frame frame, Call call) {
        leave(agent, state, call, 0, "LOST");
        if (call.error != null) {
            Core.<RuntimeException>raise(raised(frame, call));
        }
        state.answer = Math.max(1, frame.size);
        state.pop();
        return true;
    }

    private static boolean refuse(Agent agent, ThreadState state, Frame frame, Call call) {
        Throwable error = raised(frame, call);
        leave(agent, state, call, 0, Errors.nameOf(call.error));
        if (frame.answer == Frame.RAISE_AT_END) {
            frame.atEnd = error;
            state.inside++;
            return false;
        }
        if (frame.answer != Frame.ANSWER) {
            Core.<RuntimeException>raise(error);
        }
        state.pop();
        return true;
    }

    /** The error as the method raises it. */
    private static Throwable raised(Frame frame, Call call) {
        if (frame.side != null) {
            return frame.side.raised(call);
        }
        if (frame.answer == Frame.RAISE_SYNC) {
            return Errors.bare(new SyncFailedException("sync failed"));
        }
        if (frame.answer != Frame.RAISE_NIO) {
            return call.error;
        }
        String path = call.subject.resource;
        int arrow = path.indexOf(" -> ");
        return arrow < 0 ? Errors.ofFileSystem(call.error, path, null)
                : Errors.ofFileSystem(call.error, path.substring(0, arrow), path.substring(arrow + 4));
    }

    /**
     * The method ends, by an exception or with this number. True: answer with nothing instead.
     *
     * Throws what was decided to be raised instead. The frame is popped.
     */
    static boolean exit(ThreadState state, Frame frame, long result, Throwable error) {
        boolean isAnswer = frame.answer == Frame.ANSWER;
        Throwable instead;
        try {
            instead = ended(Agent.current, state, frame, result, error);
        } finally {
            state.pop();
        }
        if (instead != null && !isAnswer) {
            Core.<RuntimeException>raise(instead);
        }
        return instead != null;
    }

    /** What is to be raised instead, or null. */
    private static Throwable ended(Agent agent, ThreadState state, Frame frame, long result, Throwable error) {
        if (frame.isPoll) {
            state.polls--;
        }
        if (frame.given != null && (error != null || result <= 0)) {
            HandoverHooks.refused(frame);
        }
        if (frame.late != null) {
            recordLate(agent, state, frame, result, error);
        }
        if (frame.call != null && !frame.isTaking || frame.atEnd != null) {
            state.inside--;
        }
        Call call = frame.call;
        if (call == null) {
            return frame.atEnd;
        }
        leave(agent, state, call, error == null ? bytes(frame, result) : 0, error == null ? null : nameOf(error));
        if (call.error == null) {
            return null;
        }
        if (error == null && frame.thing != null) {
            undo(agent, state, call.operation, frame.isDescriptor ? frame.side.accepted((int) result) : frame.thing);
        }
        return raised(frame, call);
    }

    /** The name of an error that the method ended with; what java.nio.file has before it makes its own exceptions of it. */
    private static String nameOf(Throwable error) {
        boolean isBare = error.getClass().getName().equals("sun.nio.fs.UnixException");
        return Errors.nameOf(isBare ? new IOException(error.getMessage()) : error);
    }

    /** The bytes that the method's number stands for. */
    private static long bytes(Frame frame, long result) {
        if (frame.isValue) {
            return frame.size;
        }
        if (frame.isPoll) {
            return Math.max(0, frame.isPacked ? result >> 32 : result);
        }
        return result < 0 ? 0 : frame.isOneByte ? 1 : frame.datagram != null ? frame.received(result) : result;
    }

    /** What a channel that does not block was asked for, and was not in vain. */
    private static void recordLate(Agent agent, ThreadState state, Frame frame, long result, Throwable error) {
        boolean isInVain = frame.isDescriptor ? result < 0 : result == 0;
        if (isInVain && error == null || agent == null || agent.off) {
            return;
        }
        Call call = begin(agent, state, frame.late, frame.subject, frame.size, frame.since, frame.thing, true,
                isOfCaller(frame));
        if (call != null) {
            frame.call = call;
            state.inside++;
        }
    }

    /** What was opened, accepted or connected is closed: the program was answered with an error. */
    static void undo(Agent agent, ThreadState state, Operation operation, Object thing) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Undo.of(operation.name, thing);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** Record the end of an operation; may set `call.error`. */
    static void leave(Agent agent, ThreadState state, Call call, long result, String error) {
        boolean wasBusy = state.busy;
        state.busy = true;
        call.error = null;
        try {
            Cursor cursor = agent.cursor(state);
            call.cursor = cursor;
            agent.file.end(cursor, call.seq, Clock.now(), result, error == null ? 0 : agent.file.string(cursor, error));
            if (call.operation.after.length > 0 && !agent.off) {
                agent.awaitGreeting();
                agent.faults.after(call);
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** Record something that has no duration, also while the agent is at work in this thread. */
    static void record(Operation operation, Subject subject, Throwable at) {
        Agent agent = Agent.current;
        if (agent == null || agent.off) {
            return;
        }
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Cursor cursor = agent.cursor(state);
            Stack stack = at == null ? agent.sites.here(cursor) : agent.sites.of(cursor, at);
            recordAt(agent, state, cursor, operation, subject, stack, 0, 0, 0);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /**
     * The same, at a place that is known. If it was begun at a time that is known, it ends now; else it has no duration. The
     * agent must be at work in this thread.
     */
    static void recordAt(Agent agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack,
            long size, long since, long result) {
        long now = Clock.now();
        long begun = since == 0 ? now : since;
        if (state.held.isDeferring()) {
            state.held.settle(agent, state, cursor, stack);
        }
        put(agent, state, cursor, operation, subject, stack, size, begun, now, result);
    }

    /** Record something that has no duration and leaves deferred what is. The agent must be at work in this thread. */
    static void put(Agent agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack) {
        long now = Clock.now();
        put(agent, state, cursor, operation, subject, stack, 0, now, now, 0);
    }

    private static void put(Agent agent, ThreadState state, Cursor cursor, Operation operation, Subject subject, Stack stack,
            long size, long begun, long ended, long result) {
        if (state.nameId == 0 || operation.nameId == 0 || !subject.isDefined) {
            define(agent, state, cursor, operation, subject, stack, begun);
        }
        EventFile file = agent.file;
        file.whole(cursor, file.nextSeq(), begun, operation.nameId, stack.id, subject.targetId, subject.resourceId,
                state.nameId, size, ended, result);
    }

    /** Raise what the method may not declare. */
    @SuppressWarnings("unchecked")
    static <T extends Throwable> void raise(Throwable error) throws T {
        throw (T) error;
    }
}
