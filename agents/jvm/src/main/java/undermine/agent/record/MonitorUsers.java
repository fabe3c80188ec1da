package undermine.agent.record;

import java.util.concurrent.atomic.AtomicInteger;

/** Counts the threads that are in a monitor or about to enter it. Monitors with the same hash share a counter. */
@SuppressWarnings("serial")
public final class MonitorUsers extends AtomicInteger {
    private static final int SIZE = 2048;
    private static final MonitorUsers[] ALL = new MonitorUsers[SIZE];

    static {
        for (int i = 0; i < SIZE; i++) {
            ALL[i] = new MonitorUsers();
        }
    }

    private MonitorUsers() {
    }

    public static MonitorUsers at(Object monitor) {
        int hash = System.identityHashCode(monitor);
        return ALL[(hash ^ hash >>> 15) & SIZE - 1];
    }

    /** Add this thread; true if no other thread is there. */
    public boolean enter() {
        return getAndIncrement() == 0;
    }

    /** True if this thread, which is there, is the only one. */
    boolean isOne() {
        return get() == 1;
    }

    public void leave() {
        getAndDecrement();
    }
}
