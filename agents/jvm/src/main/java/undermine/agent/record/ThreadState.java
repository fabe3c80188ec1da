package undermine.agent.record;

import java.lang.ref.WeakReference;
import java.util.Arrays;
import undermine.agent.operations.EnclosingOperation;
import undermine.agent.process.AgentThread;
import undermine.agent.wire.Cursor;
import undermine.agent.wire.UnwrittenEvents;

/** What the agent keeps for each thread. */
public final class ThreadState implements UnwrittenEvents {
    private static final ThreadLocal<ThreadState> CURRENT = new ThreadLocal<ThreadState>();
    /** Those that were asked for last, by hash: a ThreadLocal asks the JVM whether a reference is still the one it was. */
    private static final ThreadState[] LATEST = new ThreadState[256];

    private final WeakReference<Thread> thread;

    /** The agent is at work in this thread: its own operations pass straight through. */
    public boolean busy;
    /** It is about to enter a monitor, and what becomes of that is to be told. */
    public boolean isEntering;
    /** The thread's name in events; null until it is known. */
    String name;
    public int nameId;
    public Cursor cursor;
    /** How many recorded operations of the raw layer are under way: all that they do is part of them. */
    public int inside;
    /** The logical operation under way, or null. */
    public EnclosingOperation scope;
    /** The number that a woven method is to answer at once; 0 if no hook says otherwise. */
    public long answer;
    /** How many waits for channels are under way, one in another. */
    public int polls;
    /** How many calls of the target's are under way for which the JDK's own code waits: see PoolCalls. */
    public int asking;
    /** The future that the target itself is setting or waiting for, or null. */
    public Object setting;
    public final HeldMonitors held = new HeldMonitors();
    private WovenFrame[] frames = new WovenFrame[0];
    private int depth;

    private ThreadState(Thread thread) {
        this.thread = new WeakReference<Thread>(thread);
        busy = thread instanceof AgentThread;
    }

    /** That of this thread. Others may see it in the table, but only a thread that finds itself in it uses it. */
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

    /** The thread ends: nothing of it stays in the table. */
    public static void forget(Thread ending) {
        LATEST[System.identityHashCode(ending) & LATEST.length - 1] = null; // who else was there is found again
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

    /** The innermost woven method: it is about to be left. */
    public WovenFrame top() {
        return depth > 0 ? frames[depth - 1] : push();
    }

    /** It is left. Not before the agent is done with it: what the agent does itself is woven too. */
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
