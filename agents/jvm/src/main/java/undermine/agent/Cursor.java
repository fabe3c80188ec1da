package undermine.agent;

import java.lang.ref.WeakReference;

/** A thread's place in the event file, and its room for walking stacks. Made by the thread itself. */
final class Cursor {
    private final EventFile file;
    final Place place;
    private final WeakReference<Thread> thread;
    /** What is kept for the thread. */
    ThreadState state;
    /** The target's frames of the walk under way. */
    final Site[] frames = new Site[Sites.DEPTH_MAX];
    /** What the walkers keep for the thread. */
    Object walk;
    long[] numbers;
    Throwable probe;
    boolean walking;

    Cursor(EventFile file) {
        Thread current = Thread.currentThread();
        this.file = file;
        thread = new WeakReference<Thread>(current);
        place = file.take(this, isVirtual(current));
    }

    /** The thread ends: what is left of its chunk goes to another one. Also found out later, if this is not called. */
    void done() {
        file.giveBack(this);
    }

    boolean isDead() {
        Thread owner = thread.get();
        return owner == null || owner.getState() == Thread.State.TERMINATED;
    }

    static boolean isVirtual(Thread thread) {
        String name = thread.getClass().getName();
        return name.startsWith("java.lang.") && name.endsWith("VirtualThread");
    }
}
