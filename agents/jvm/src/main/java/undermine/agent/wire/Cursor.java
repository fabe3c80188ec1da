package undermine.agent.wire;

import java.lang.ref.WeakReference;
import undermine.agent.process.Threads;

/** A thread's place in the event file. Created by the thread itself. */
public final class Cursor {
    private final EventFile file;
    final Chunk place;
    private final WeakReference<Thread> thread;
    /** The thread's events that wait to be written; null if it has none. */
    public UnwrittenEvents unwritten;
    /** The thread's WalkRoom, which this package knows nothing of; or null. */
    public Object walkRoom;

    public Cursor(EventFile file) {
        Thread current = Thread.currentThread();
        this.file = file;
        thread = new WeakReference<Thread>(current);
        place = file.take(this, Threads.isVirtual(current));
    }

    /** The thread ends: what is left of its chunk goes to another one. Also found out later, if this is not called. */
    public void done() {
        file.giveBack(this);
    }

    boolean isDead() {
        Thread owner = thread.get();
        return owner == null || owner.getState() == Thread.State.TERMINATED;
    }
}
