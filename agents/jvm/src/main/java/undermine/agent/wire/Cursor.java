package undermine.agent.wire;

import java.lang.ref.WeakReference;
import undermine.agent.process.Threads;

/** A thread's position in the event file. Created by the thread itself. */
public final class Cursor {
    private final EventFile file;
    final Chunk chunk;
    private final WeakReference<Thread> thread;
    /** The thread's events that are not written yet; null if it never defers any. */
    public UnwrittenEvents unwritten;
    /** The thread's WalkRoom, or null. An Object, since this package knows nothing of stacks. */
    public Object walkRoom;

    public Cursor(EventFile file) {
        Thread current = Thread.currentThread();
        this.file = file;
        thread = new WeakReference<Thread>(current);
        chunk = file.take(this, Threads.isVirtual(current));
    }

    /** The thread ends, and another thread may use the rest of its chunk. If this isn't called, the file finds out later. */
    public void done() {
        file.giveBack(this);
    }

    boolean isDead() {
        Thread owner = thread.get();
        return owner == null || owner.getState() == Thread.State.TERMINATED;
    }
}
