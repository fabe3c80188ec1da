package undermine.agent.record;

import java.lang.ref.WeakReference;
import java.util.Arrays;
import undermine.agent.operations.EnclosingOperation;
import undermine.agent.process.AgentThread;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.UnwrittenEvents;

/** The agent's state of one thread. */
public final class ThreadState implements UnwrittenEvents {
    private static final ThreadLocal<ThreadState> CURRENT = new ThreadLocal<ThreadState>();
    /** The states used last, by hash. A ThreadLocal is slower: it asks the JVM about a weak reference. */
    private static final ThreadState[] LATEST = new ThreadState[256];

    private final WeakReference<Thread> thread;

    /** The agent is at work in this thread: its operations are not recorded. */
    public boolean busy;
    /** The thread is about to enter a monitor, and its entry is recorded. */
    public boolean isEntering;
    /** The thread's name in events; null until it is known. */
    String name;
    public int nameId;
    public Cursor cursor;
    /** The number of recorded operations under way. Whatever they do inside is part of them. */
    public int inside;
    /** The logical operation under way, or null. */
    public EnclosingOperation enclosing;
    /** The number that a woven method answers at once; 0 unless a hook sets it. */
    public long answer;
    /** True if a woven method has to show its arguments before it is run: see Hooks.changed. */
    public boolean wantsData;
    /** The number of nested waits for channels. */
    public int polls;
    /** The number of calls under way for which the JDK waits inside: see PoolCalls. */
    public int asking;
    /** The future that the target itself is setting or waiting for, or null. */
    public Object setting;
    /** The number of operations with possible faults so far. */
    public long acts;
    public final HeldMonitors held = new HeldMonitors();
    public final CurrentHandler handler = new CurrentHandler();
    public final ClockReads reads = new ClockReads();
    private WovenFrame[] frames = new WovenFrame[0];
    private int depth;

    private ThreadState(Thread thread) {
        this.thread = new WeakReference<Thread>(thread);
        busy = thread instanceof AgentThread;
    }

    /** The state of the current thread. Other threads may see it in the table, but don't use it. */
    public static ThreadState get() {
        Thread current = Thread.currentThread();
        int at = System.identityHashCode(current) & LATEST.length - 1;
        ThreadState state = LATEST[at];
        if (state == null || state.thread.get() != current) {
            state = find(current);
            LATEST[at] = state;
        }
        return state;
    }

    /** Remove the state of a thread that ends from the table. */
    public static void forget(Thread ending) {
        LATEST[System.identityHashCode(ending) & LATEST.length - 1] = null; // another thread's state in this slot is found again
    }

    @Override
    public void settle(Cursor by) {
        if (held.isDeferring()) {
            held.settle(AgentCore.current, this, by, null);
        }
    }

    private static ThreadState find(Thread current) {
        ThreadState state = CURRENT.get();
        if (state == null) {
            state = new ThreadState(current);
            CURRENT.set(state);
        }
        return state;
    }

    /** A woven method is entered. */
    public WovenFrame push() {
        if (depth == frames.length) {
            grow();
        }
        return frames[depth++];
    }

    /** The frame of the innermost woven method. */
    public WovenFrame top() {
        return depth > 0 ? frames[depth - 1] : push();
    }

    /** The woven method is left. Called when the agent is done with the frame, since the agent's own calls are woven too. */
    public void pop() {
        if (depth > 0) {
            frames[--depth].clear();
        }
    }

    private void grow() {
        int old = frames.length;
        frames = Arrays.copyOf(frames, old + 8);
        for (int i = old; i < frames.length; i++) {
            frames[i] = new WovenFrame();
        }
    }
}
