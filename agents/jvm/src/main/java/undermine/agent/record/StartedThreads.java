package undermine.agent.record;

import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.operations.Subject;

/** The threads whose start was recorded. Nothing here keeps a thread alive. */
public final class StartedThreads {
    private static final WeakIdentityMap<Started> STARTED = new WeakIdentityMap<Started>();

    private StartedThreads() {
    }

    private static final class Started {
        final Subject subject;
        /** Only the thread itself reads and writes this. */
        boolean hasBegun;

        Started(Subject subject) {
            this.subject = subject;
        }
    }

    public static void add(Object thread, Subject subject) {
        STARTED.put(thread, new Started(subject));
    }

    /** The subject with which the thread's start was recorded, or null. */
    public static Subject subjectOf(Object thread) {
        Started started = STARTED.get(thread);
        return started == null ? null : started.subject;
    }

    /** The same at the first call, null afterwards: for the thread's first event. Pools may clear a thread's own variables. */
    static Subject begun(Thread thread) {
        Started started = STARTED.get(thread);
        if (started == null || started.hasBegun) {
            return null;
        }
        started.hasBegun = true;
        return started.subject;
    }
}
