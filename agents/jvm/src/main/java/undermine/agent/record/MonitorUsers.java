package undermine.agent.record;

import java.util.concurrent.atomic.AtomicInteger;

/** How many threads are in a monitor or about to enter it; those whose hashes are alike are counted together. */
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

    /** True if nobody else is there. */
    public boolean enter() {
        return getAndIncrement() == 0;
    }

    /** True for one who is there, if nobody else is. */
    boolean isOne() {
        return get() == 1;
    }

    public void leave() {
        getAndDecrement();
    }
}
