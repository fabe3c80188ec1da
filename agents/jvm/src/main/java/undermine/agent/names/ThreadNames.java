package undermine.agent.names;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import undermine.agent.process.Threads;

/**
 * What threads are called in events and stacks: by their names, with a number where a living thread has the name
 * already. A thread keeps what it was called first, also if it is renamed.
 *
 * Most virtual threads have no name, and there may be very many: each gets a number that no other one ever has, and nothing
 * is kept of it here. Nobody asks for it but the thread itself, which keeps it.
 */
public final class ThreadNames {
    private static final String NAMELESS = "?";
    private static final int SWEEP_MIN = 256;

    private final Map<Thread, Taken> byThread = new IdentityHashMap<Thread, Taken>();
    private final Map<String, Thread> holders = new HashMap<String, Thread>();
    /** A name: where to look for a number that is free, if not at 2. */
    private final Map<String, Integer> free = new HashMap<String, Integer>();
    private final AtomicLong nameless = new AtomicLong();
    private int sweepAt = SWEEP_MIN;

    /** A thread's name and number, and what it is called by both. */
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

    /** True for one that is only numbered. */
    public static boolean isNumbered(Thread thread) {
        return isNameless(thread) && Threads.isVirtual(thread);
    }

    private static boolean isNameless(Thread thread) {
        String name = thread.getName();
        return name == null || name.isEmpty();
    }

    /** What a thread is called from now on that has just begun, or was not known. */
    public String take(Thread thread) {
        return isNumbered(thread) ? number() : keep(thread);
    }

    /** What the next one without a name is called. Takes no lock: virtual threads are pinned by those. */
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

    /** True if a living thread is called so. Threads whose end was not seen are forgotten here. */
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

    /** The thread has ended: another one may be called so. */
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

    /** What this thread is called; null if it has not been seen. */
    public synchronized String get(Thread thread) {
        Taken taken = byThread.get(thread);
        return taken == null ? null : taken.called;
    }
}
