package undermine.agent.record;

import java.util.Arrays;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.stacks.Site;
import undermine.agent.stacks.Sites;
import undermine.agent.stacks.Stack;
import undermine.agent.wire.Cursor;

/**
 * The monitors that a thread is in, how it entered each first, and how often again.
 *
 * One that nobody else is at is recorded only when the thread does something in it that is, or somebody comes: who leaves it
 * before that has held nobody up, and did nothing under it. Only its thread enters and leaves. The frame that entered it is still
 * there when it is recorded, so its stack is part of that one; of a method that calls itself, the outermost frame is taken.
 */
public final class HeldMonitors {
    private static final int COUNT_MAX = 1000;
    private Entry[] entries = new Entry[0];
    private int count;
    /** So many of the last ones are not recorded. */
    private volatile int deferred;

    /** One monitor. Used again for others. */
    static final class Entry {
        Object monitor;
        /** Who is at it. */
        MonitorUsers crowd;
        /** Its entering; null while that is not recorded. */
        Call call;
        int again;
        long begun;
        /** 0 until it is entered. */
        long ended;
        /** Where it is entered. */
        Site site;

        private void clear() {
            monitor = null;
            call = null;
            site = null;
            again = 0;
        }
    }

    /** Its entering is recorded. */
    public synchronized void push(Object monitor, MonitorUsers crowd, Call call) {
        add(monitor, crowd).call = call;
    }

    /** Its entering begins now, and may be recorded later. */
    public synchronized void defer(Object monitor, MonitorUsers crowd, Site site) {
        Entry entry = add(monitor, crowd);
        entry.site = site;
        entry.ended = 0;
        deferred++;
        entry.begun = Clock.now();
    }

    private Entry add(Object monitor, MonitorUsers crowd) {
        if (count >= COUNT_MAX) {
            clear(); // some were left unseen
        }
        if (count == entries.length) {
            entries = Arrays.copyOf(entries, count + 8);
            for (int i = count; i < entries.length; i++) {
                entries[i] = new Entry();
            }
        }
        Entry entry = entries[count++];
        entry.monitor = monitor;
        entry.crowd = crowd;
        return entry;
    }

    /** The last one is entered at this time: how, if that is recorded; else null. */
    public synchronized Call entered(long now) {
        Entry entry = entries[count - 1];
        entry.ended = now;
        return entry.call;
    }

    /** How long the last one was waited for. */
    public long waited() {
        Entry entry = entries[count - 1];
        return entry.ended - entry.begun;
    }

    /** True if there is something to be recorded before anything else of this thread. */
    public boolean isDeferring() {
        return deferred > 0;
    }

    /** True if this thread is in it: then it is about to be entered once more. */
    public boolean enterAgain(Object monitor) {
        int at = find(monitor);
        if (at < 0) {
            return false;
        }
        if (!Thread.holdsLock(monitor)) { // it was left unseen
            remove(at);
            return false;
        }
        entries[at].again++;
        return true;
    }

    /** True if it was entered once more, and only this is over. */
    public boolean leaveAgain(Object monitor) {
        int at = find(monitor);
        if (at < 0 || entries[at].again == 0) {
            return false;
        }
        entries[at].again--;
        return true;
    }

    /** It is left, and nobody has to know of it: true if it was not recorded. */
    public synchronized boolean drop(Object monitor) {
        if (deferred == 0 || entries[count - 1].monitor != monitor || !entries[count - 1].crowd.isOne()) {
            return false;
        }
        remove(count - 1);
        return true;
    }

    /** The entering of this one, which is over; null if it was not seen. */
    public Call pop(Object monitor) {
        int at = find(monitor);
        return at < 0 ? null : remove(at);
    }

    private int find(Object monitor) {
        int at = count - 1;
        while (at >= 0 && entries[at].monitor != monitor) {
            at--;
        }
        return at;
    }

    private synchronized Call remove(int at) {
        Entry entry = entries[at];
        entry.crowd.leave();
        Call found = entry.call;
        if (found == null && deferred > 0) {
            deferred--;
        }
        count--;
        System.arraycopy(entries, at + 1, entries, at, count - at);
        entries[count] = entry;
        entry.clear();
        return found;
    }

    private void clear() {
        while (count > 0) {
            remove(count - 1);
        }
    }

    /**
     * Record what is not. Its own thread does it, whose stack is this one or, for one that does not go on, another: then the stack is
     * null. Where the stack is not known, or not all of it, the place alone is recorded.
     */
    synchronized void settle(AgentCore agent, ThreadState state, Cursor cursor, Stack now) {
        boolean isWhole = now != null && now.depth() < Sites.DEPTH_MAX;
        int first = count - deferred;
        deferred = 0;
        int outside = isWhole ? now.depth() : 0;
        for (int at = first; at < count; at++) {
            Entry entry = entries[at];
            int frame = isWhole ? now.find(entry.site, outside) : -1;
            if (frame >= 0) { // the next one is entered within it: not at the same site, unless the method calls itself
                boolean isAgain = at + 1 < count && entries[at + 1].site == entry.site;
                outside = isAgain ? frame : frame + 1;
            }
            Stack stack = isWhole ? agent.sites.stack(cursor, now.since(entry.site, frame))
                    : agent.sites.only(cursor, entry.site);
            Subject subject = ObjectNames.of("monitor", entry.monitor);
            entry.call = Recorder.writeAt(agent, state, cursor, Ops.acquire, subject, stack, entry.begun, entry.ended);
        }
    }
}
