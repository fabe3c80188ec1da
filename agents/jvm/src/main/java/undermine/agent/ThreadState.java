package undermine.agent;

import java.lang.ref.WeakReference;
import java.util.Arrays;

/** What the agent keeps for each thread. */
final class ThreadState {
    private static final ThreadLocal<ThreadState> CURRENT = new ThreadLocal<ThreadState>();
    /** Those that were asked for last, by hash: a ThreadLocal asks the JVM whether a reference is still the one it was. */
    private static final ThreadState[] LATEST = new ThreadState[256];

    private final WeakReference<Thread> thread;

    /** The agent is at work in this thread: its own operations pass straight through. */
    boolean busy;
    /** It is about to enter a monitor, and what becomes of that is to be told. */
    boolean isEntering;
    /** The thread's name in events; null until it is known. */
    String name;
    int nameId;
    Cursor cursor;
    /** How many recorded operations of the raw layer are under way: all that they do is part of them. */
    int inside;
    /** The logical operation under way, or null. */
    Scope scope;
    /** The number that a woven method is to answer at once; 0 if no hook says otherwise. */
    long answer;
    /** How many waits for channels are under way, one in another. */
    int polls;
    /** How many calls of the target's are under way for which the JDK's own code waits: see InsteadPools. */
    int asking;
    /** The future that the target itself is setting or waiting for, or null. */
    Object setting;
    final Held held = new Held();
    private Frame[] frames = new Frame[0];
    private int depth;

    private ThreadState(Thread thread) {
        this.thread = new WeakReference<Thread>(thread);
    }

    /** That of this thread. Others may see it in the table, but only a thread that finds itself in it uses it. */
    static ThreadState get() {
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
    static void forget(Thread ending) {
        LATEST[System.identityHashCode(ending) & LATEST.length - 1] = null; // who else was there is found again
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
    Frame push() {
        if (depth == frames.length) {
            grow();
        }
        return frames[depth++];
    }

    /** The innermost woven method: it is about to be left. */
    Frame top() {
        return depth > 0 ? frames[depth - 1] : push();
    }

    /** It is left. Not before the agent is done with it: what the agent does itself is woven too. */
    void pop() {
        if (depth > 0) {
            frames[--depth].clear();
        }
    }

    private void grow() {
        int old = frames.length;
        frames = Arrays.copyOf(frames, old + 8);
        for (int i = old; i < frames.length; i++) {
            frames[i] = new Frame();
        }
    }
}
