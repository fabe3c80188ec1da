package undermine.agent;

import java.util.concurrent.atomic.AtomicInteger;

/** How many threads are in a monitor or about to enter it; those whose hashes are alike are counted together. */
@SuppressWarnings("serial")
final class Crowd extends AtomicInteger {
    private static final int SIZE = 2048;
    private static final Crowd[] ALL = new Crowd[SIZE];

    static {
        for (int i = 0; i < SIZE; i++) {
            ALL[i] = new Crowd();
        }
    }

    private Crowd() {
    }

    static Crowd at(Object monitor) {
        int hash = System.identityHashCode(monitor);
        return ALL[(hash ^ hash >>> 15) & SIZE - 1];
    }

    /** True if nobody else is there. */
    boolean enter() {
        return getAndIncrement() == 0;
    }

    /** True for one who is there, if nobody else is. */
    boolean isOne() {
        return get() == 1;
    }

    void leave() {
        getAndDecrement();
    }
}
