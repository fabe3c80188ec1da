package undermine.agent;

import java.util.Arrays;

/** What the agent keeps for each thread. */
final class ThreadState {
    private static final ThreadLocal<ThreadState> CURRENT = new ThreadLocal<ThreadState>();

    /** The agent is at work in this thread: its own operations pass straight through. */
    boolean busy;
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
    /** The future that the target itself is setting or waiting for, or null. */
    Object setting;
    final Held held = new Held();
    private Frame[] frames = new Frame[0];
    private int depth;

    static ThreadState get() {
        ThreadState state = CURRENT.get();
        if (state == null) {
            state = new ThreadState();
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
