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
 * The monitors that a thread is in: how it first entered each, and how often it entered it again.
 *
 * An uncontended monitor is recorded only when its thread records something else inside it, or another thread comes. If
 * the thread leaves it before that, it held nobody up and did nothing under it, and it is forgotten. Only the thread
 * itself enters and leaves. The frame that entered the monitor is still on the stack when it is recorded, so the stack at
 * the entry is part of the current one; for a recursive method the outermost frame is used.
 */
public final class HeldMonitors {
    private static final int COUNT_MAX = 1000;
    private Entry[] entries = new Entry[0];
    private int count;
    /** The number of last entries that are not recorded. */
    private volatile int deferred;

    /** One monitor. Entries are reused. */
    static final class Entry {
        Object monitor;
        /** The count of threads at this monitor. */
        MonitorUsers users;
        /** The recorded entry into the monitor; null if it isn't recorded. */
        Call call;
        int again;
        long begun;
        /** The time at which it was entered; 0 before that. */
        long ended;
        /** The call site at which it is entered. */
        Site site;

        private void clear() {
            monitor = null;
            call = null;
            site = null;
            again = 0;
        }
    }

    /** Add a monitor whose entry is recorded. */
    public synchronized void push(Object monitor, MonitorUsers users, Call call) {
        add(monitor, users).call = call;
    }

    /** Add a monitor whose entry begins now and may be recorded later. */
    public synchronized void defer(Object monitor, MonitorUsers users, Site site) {
        Entry entry = add(monitor, users);
        entry.site = site;
        entry.ended = 0;
        deferred++;
        entry.begun = Clock.now();
    }

    private Entry add(Object monitor, MonitorUsers users) {
        if (count >= COUNT_MAX) {
            clear(); // some were left without a hook
        }
        if (count == entries.length) {
            entries = Arrays.copyOf(entries, count + 8);
            for (int i = count; i < entries.length; i++) {
                entries[i] = new Entry();
            }
        }
        Entry entry = entries[count++];
        entry.monitor = monitor;
        entry.users = users;
        return entry;
    }

    /** The last monitor has been entered at this time; returns the recorded entry, or null. */
    public synchronized Call entered(long now) {
        Entry entry = entries[count - 1];
        entry.ended = now;
        return entry.call;
    }

    /** How long the thread waited for the last monitor. */
    public long waited() {
        Entry entry = entries[count - 1];
        return entry.ended - entry.begun;
    }

    /** True if there is a monitor to be recorded before anything else of this thread. */
    public boolean isDeferring() {
        return deferred > 0;
    }

    /** True if this thread is in the monitor already and enters it once more. */
    public boolean enterAgain(Object monitor) {
        int at = find(monitor);
        if (at < 0) {
            return false;
        }
        if (!Thread.holdsLock(monitor)) { // it was left without a hook
            remove(at);
            return false;
        }
        entries[at].again++;
        return true;
    }

    /** True if the thread leaves a monitor that it had entered more than once. */
    public boolean leaveAgain(Object monitor) {
        int at = find(monitor);
        if (at < 0 || entries[at].again == 0) {
            return false;
        }
        entries[at].again--;
        return true;
    }

    /** Leave a monitor without an event; true if its entry was not recorded and nobody else is there. */
    public synchronized boolean drop(Object monitor) {
        if (deferred == 0 || entries[count - 1].monitor != monitor || !entries[count - 1].users.isOne()) {
            return false;
        }
        remove(count - 1);
        return true;
    }

    /** Leave a monitor; returns its recorded entry, or null. */
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
        entry.users.leave();
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
     * Record the deferred entries. `now` is the thread's current stack; null if another thread does it because this one
     * is stuck. If the stack is unknown or was cut off, only the call site is recorded.
     */
    synchronized void settle(AgentCore agent, ThreadState state, Cursor cursor, Stack now) {
        boolean isWhole = now != null && now.depth() < Sites.DEPTH_MAX;
        int first = count - deferred;
        deferred = 0;
        int outside = isWhole ? now.depth() : 0;
        for (int at = first; at < count; at++) {
            Entry entry = entries[at];
            int frame = isWhole ? now.find(entry.site, outside) : -1;
            if (frame >= 0) { // the next one was entered inside this frame: at another site, unless the method is recursive
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
