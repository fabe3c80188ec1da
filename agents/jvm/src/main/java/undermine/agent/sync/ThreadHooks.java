package undermine.agent.sync;

import java.util.concurrent.atomic.AtomicLong;
import undermine.agent.names.Masks;
import undermine.agent.operations.Subject;
import undermine.agent.process.Threads;
import undermine.agent.record.AgentCore;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.StartedThreads;
import undermine.agent.record.ThreadState;

/** Entries of the JDK's methods of threads. These operations have no duration. */
public final class ThreadHooks {
    private static final int TEXT_MAX = 500;
    /** A chain may be a ring. */
    private static final int CAUSES_MAX = 20;
    private static final AtomicLong NUMBER = new AtomicLong();

    private ThreadHooks() {
    }

    public static void start(Object thread) {
        AgentCore agent = AgentCore.current;
        if (agent == null || agent.off || ThreadState.get().busy) {
            return;
        }
        try {
            String name = ((Thread) thread).getName();
            Subject subject = Subject.unique(Masks.mask(name), name + "@" + NUMBER.incrementAndGet());
            StartedThreads.add(thread, subject);
            Recorder.record(Ops.threadStart, subject, null);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }

    /** The last hook of a thread. */
    public static void end(Object thread) {
        AgentCore agent = AgentCore.current;
        if (agent == null || agent.off) {
            return;
        }
        try {
            ThreadState state = ThreadState.get();
            Subject started = StartedThreads.subjectOf(thread);
            if (started != null && !state.busy) {
                Recorder.record(Ops.threadEnd, started, null);
            }
            state.busy = true;
            agent.threadNames.giveBack((Thread) thread);
            if (state.cursor != null) {
                state.cursor.done();
                state.cursor = null;
            }
            ThreadState.forget((Thread) thread);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }

    /** The same for virtual threads, which end in another method. */
    public static void endVirtual() {
        Thread thread = Thread.currentThread();
        if (Threads.isVirtual(thread)) {
            end(thread);
        }
    }

    /** A thread dies of an exception. This may fail if memory is short; the exception must still reach its handler. */
    public static void die(Object thread, Object error) {
        AgentCore agent = AgentCore.current;
        if (agent == null || agent.off) {
            return;
        }
        try {
            Throwable last = (Throwable) error;
            Recorder.record(Ops.threadDie, new Subject(last.getClass().getSimpleName(), text(last) + caused(last), false), last);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }

    /** The innermost exception that caused this one; "" if none did. */
    private static String caused(Throwable error) {
        Throwable cause = error;
        for (int i = 0; i < CAUSES_MAX && cause.getCause() != null; i++) {
            cause = cause.getCause();
        }
        return cause == error ? "" : "; caused by " + cause.getClass().getSimpleName() + ": " + text(cause);
    }

    private static String text(Throwable error) {
        try {
            String text = error.getMessage();
            return text == null ? "" : text.length() > TEXT_MAX ? text.substring(0, TEXT_MAX) : text;
        } catch (Throwable trouble) {
            return "";
        }
    }
}
