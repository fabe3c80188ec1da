package undermine.agent.names;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import undermine.agent.process.Threads;

/**
 * Names threads in events and stacks. A thread keeps the first name it is seen with; a number is added if another living
 * thread has that name.
 *
 * Most virtual threads have no name, and there may be very many. Each gets a unique number, and nothing about it is kept
 * here: only the thread itself needs it.
 */
public final class ThreadNames {
    private static final String NAMELESS = "?";
    private static final int SWEEP_MIN = 256;

    private final Map<Thread, Taken> byThread = new IdentityHashMap<Thread, Taken>();
    private final Map<String, Thread> holders = new HashMap<String, Thread>();
    /** For each name, the number at which the search for a free one begins, if not 2. */
    private final Map<String, Integer> free = new HashMap<String, Integer>();
    private final AtomicLong nameless = new AtomicLong();
    private int sweepAt = SWEEP_MIN;

    /** A thread's own name, its number, and the name made of both. */
    private static final class Taken {
        final String name;
        final int number;
        final String called;

        Taken(String name, int number, String called) {
            this.name = name;
            this.number = number;
            this.called = called;
        }
    }

    /** True for a virtual thread without a name, which only gets a number. */
    public static boolean isNumbered(Thread thread) {
        return isNameless(thread) && Threads.isVirtual(thread);
    }

    private static boolean isNameless(Thread thread) {
        String name = thread.getName();
        return name == null || name.isEmpty();
    }

    /** Choose the name of a thread that has just begun, or is seen for the first time. */
    public String take(Thread thread) {
        return isNumbered(thread) ? number() : keep(thread);
    }

    /** The name of the next thread without one. Takes no lock, since a lock pins virtual threads. */
    private String number() {
        return NAMELESS + "#" + nameless.incrementAndGet();
    }

    private synchronized String keep(Thread thread) {
        Taken before = byThread.get(thread);
        if (before != null) {
            return before.called;
        }
        if (byThread.size() >= sweepAt) {
            sweep();
        }
        String name = thread.getName();
        Taken taken = isNameless(thread) ? new Taken(NAMELESS, 1, number()) : find(thread, name);
        byThread.put(thread, taken);
        holders.put(taken.called, thread);
        if (taken.number > 1) {
            free.put(name, taken.number + 1);
        }
        return taken.called;
    }

    private Taken find(Thread thread, String name) {
        String called = name;
        int number = 1;
        while (isHeld(called)) {
            Integer next = free.get(name);
            number = number > 1 ? number + 1 : next == null ? 2 : next;
            called = name + "#" + number;
        }
        return new Taken(name, number, called);
    }

    /** True if a living thread has this name. Threads whose end was not seen are removed here. */
    private boolean isHeld(String called) {
        Thread holder = holders.get(called);
        if (holder != null && holder.getState() == Thread.State.TERMINATED) {
            forget(holder);
            return false;
        }
        return holder != null;
    }

    private void sweep() {
        List<Thread> all = new ArrayList<Thread>(byThread.keySet());
        for (Thread thread : all) {
            if (thread.getState() == Thread.State.TERMINATED) {
                forget(thread);
            }
        }
        sweepAt = Math.max(SWEEP_MIN, 2 * byThread.size());
    }

    /** The thread has ended, and its name is free again. */
    public void giveBack(Thread thread) {
        if (!isNumbered(thread)) {
            forget(thread);
        }
    }

    private synchronized void forget(Thread thread) {
        Taken taken = byThread.remove(thread);
        if (taken == null) {
            return;
        }
        holders.remove(taken.called);
        Integer next = free.get(taken.name);
        if (taken.number == 2) {
            free.remove(taken.name);
        } else if (taken.number > 2 && next != null && taken.number < next) {
            free.put(taken.name, taken.number);
        }
    }

    /** The name of this thread; null if it hasn't been seen. */
    public synchronized String get(Thread thread) {
        Taken taken = byThread.get(thread);
        return taken == null ? null : taken.called;
    }
}
