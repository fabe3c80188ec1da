package undermine.agent.record;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import undermine.agent.faults.DecisionTable;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.stacks.Stack;

/**
 * The handler that a thread is in, as far as the agent can tell, and the heap accesses that it has recorded there.
 *
 * A handler begins when a thread starts, receives, or takes an item or a task, and lasts until the next one begins. This is
 * more than the extents of docs/causality.md, which the tool finds after the run. A pause (a sleep or another wait) begins a
 * new round of the same handler, so that each round of a polling loop is recorded. In a thread without a handler, a pause with
 * a time limit begins one.
 */
public final class CurrentHandler {
    private static final AtomicInteger THREADS = new AtomicInteger();
    private static final int SIZE_MIN = 128;
    private static final int SIZE_MAX = 8192;
    private static final int PROBES = 8;

    /** The operations after which a thread does something else: it has received, or taken an item. */
    private static final List<String> OPENING = Arrays.asList(
            "net.accept", "net.recv", "raw.recv", "msg.recv", "db.read", "db.write", "queue.get", "poll");
    private static final List<String> PAUSING = Arrays.asList(
            "sleep", "cond.wait", "event.wait", "sem.acquire", "barrier.wait", "future.wait");

    /** The number of handlers that the thread has begun; 0: it is in none. */
    public int number;
    private final int thread = THREADS.incrementAndGet();
    private int round;
    /** Null until it is needed. */
    private String kind = "";
    private Operation operation;
    private Subject subject;
    private Stack stack;
    /** The accesses that were recorded, each with the round in which it was. */
    private long[] accesses;
    private int[] rounds;

    /** From now on, operations begin handlers. */
    static void find(DecisionTable table) {
        for (String name : OPENING) {
            table.operation(name).handling = Operation.Handling.OPENS;
        }
        for (String name : PAUSING) {
            table.operation(name).handling = Operation.Handling.PAUSES;
        }
        table.operation("handover.take").handling = Operation.Handling.SURROUNDS;
    }

    /** An operation begins a handler or a new round. */
    void begin(Operation by, Subject on, Stack at, long size) {
        boolean isPause = by.handling == Operation.Handling.PAUSES;
        round++;
        if (!isPause || number == 0 && size > 1) {
            number++;
            kind = null;
            operation = by;
            subject = on;
            stack = at;
        }
    }

    /** The identity of the thread and its handler. */
    public long id() {
        return (long) thread << 32 | number;
    }

    /** The kind of the handler, the same in every run: the operation that began it, and where. Empty: no handler. */
    public String kind() {
        if (kind == null) {
            kind = operation.name + " " + (stack.isAlone ? subject.target : stack.function());
        }
        return kind;
    }

    /** True if the access was recorded in this round before. */
    public boolean has(long access) {
        if (accesses == null) {
            return false;
        }
        int mask = accesses.length - 1;
        int at = slot(access);
        for (int i = 0; i < PROBES && rounds[at + i & mask] == round; i++) {
            if (accesses[at + i & mask] == access) {
                return true;
            }
        }
        return false; // a free entry would have been used
    }

    /** Remember an access. If there are too many in one round, another one is forgotten, and may be recorded again. */
    public void add(long access) {
        if (accesses == null) {
            accesses = new long[SIZE_MIN];
            rounds = new int[SIZE_MIN];
        }
        int at = free(access);
        while (at < 0 && accesses.length < SIZE_MAX) {
            grow();
            at = free(access);
        }
        put(at < 0 ? slot(access) : at, access, round);
    }

    private int free(long access) {
        int mask = accesses.length - 1;
        int at = slot(access);
        for (int i = 0; i < PROBES; i++) {
            if (rounds[at + i & mask] != round) {
                return at + i & mask;
            }
        }
        return -1;
    }

    private void put(int at, long access, int in) {
        accesses[at] = access;
        rounds[at] = in;
    }

    private void grow() {
        long[] old = accesses;
        int[] in = rounds;
        accesses = new long[2 * old.length];
        rounds = new int[2 * old.length];
        for (int i = 0; i < old.length; i++) {
            int at = in[i] == round ? free(old[i]) : -1;
            if (at >= 0) {
                put(at, old[i], round);
            }
        }
    }

    private int slot(long access) {
        long mixed = access * 0x9E3779B97F4A7C15L;
        return (int) (mixed >>> 40) & accesses.length - 1;
    }
}
