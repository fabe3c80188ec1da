package undermine.agent;

import java.util.concurrent.atomic.AtomicLong;

/** Entries of the JDK's methods of threads: recorded at once, they have no duration. */
public final class ThreadHooks {
    private static final int TEXT_MAX = 500;
    private static final AtomicLong NUMBER = new AtomicLong();
    private static final Known<Started> STARTED = new Known<Started>();

    private ThreadHooks() {
    }

    private static final class Started {
        final Subject subject;
        /** Only its own thread looks at this. */
        boolean hasBegun;

        Started(Subject subject) {
            this.subject = subject;
        }
    }

    public static void start(Object thread) {
        Agent agent = Agent.current;
        if (agent == null || agent.off || ThreadState.get().busy) {
            return;
        }
        try {
            String name = ((Thread) thread).getName();
            Subject subject = Subject.unique(Masks.mask(name), name + "@" + NUMBER.incrementAndGet());
            STARTED.put(thread, new Started(subject));
            Core.record(Ops.threadStart, subject, null);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }

    /** What its start was recorded as, or null. */
    static Subject subjectOf(Thread thread) {
        Started started = STARTED.get(thread);
        return started == null ? null : started.subject;
    }

    /** The same, once only: for the first that the thread does. Pools may clear what a thread knows of itself. */
    static Subject begun(Thread thread) {
        Started started = STARTED.get(thread);
        if (started == null || started.hasBegun) {
            return null;
        }
        started.hasBegun = true;
        return started.subject;
    }

    /** The last that a thread does. */
    public static void end(Object thread) {
        Agent agent = Agent.current;
        if (agent == null || agent.off) {
            return;
        }
        try {
            ThreadState state = ThreadState.get();
            Started started = STARTED.get(thread);
            if (started != null && !state.busy) {
                Core.record(Ops.threadEnd, started.subject, null);
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

    /** The same of one that the JDK does not end as others. */
    public static void endVirtual() {
        Thread thread = Thread.currentThread();
        if (Cursor.isVirtual(thread)) {
            end(thread);
        }
    }

    /** Most likely to fail where memory is short; and what dies of that must still reach its handler. */
    public static void die(Object thread, Object error) {
        Agent agent = Agent.current;
        if (agent == null || agent.off) {
            return;
        }
        try {
            Throwable cause = (Throwable) error;
            Core.record(Ops.threadDie, new Subject(cause.getClass().getSimpleName(), text(cause), false), cause);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
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
