package undermine.agent;

import java.util.Arrays;

/** The monitors that a thread is in, how it entered each first, and how often again. */
final class Held {
    private static final int COUNT_MAX = 1000;
    private Object[] monitors = new Object[8];
    private Call[] calls = new Call[8];
    private int[] again = new int[8];
    private int count;

    void push(Object monitor, Call call) {
        if (count >= COUNT_MAX) {
            clear(); // some were left unseen
        }
        if (count == monitors.length) {
            monitors = Arrays.copyOf(monitors, 2 * count);
            calls = Arrays.copyOf(calls, 2 * count);
            again = Arrays.copyOf(again, 2 * count);
        }
        monitors[count] = monitor;
        again[count] = 0;
        calls[count++] = call;
    }

    /** True if this thread is in it: then it is about to be entered once more. */
    boolean enterAgain(Object monitor) {
        int at = count == 0 ? -1 : find(monitor);
        if (at < 0) {
            return false;
        }
        if (!Thread.holdsLock(monitor)) { // it was left unseen
            remove(at);
            return false;
        }
        again[at]++;
        return true;
    }

    /** True if it was entered once more, and only this is over. */
    boolean leaveAgain(Object monitor) {
        int at = find(monitor);
        if (at < 0 || again[at] == 0) {
            return false;
        }
        again[at]--;
        return true;
    }

    /** The entering of this one, which is over; null if it was not seen. */
    Call pop(Object monitor) {
        int at = find(monitor);
        return at < 0 ? null : remove(at);
    }

    private int find(Object monitor) {
        int at = count - 1;
        while (at >= 0 && monitors[at] != monitor) {
            at--;
        }
        return at;
    }

    private Call remove(int at) {
        Call found = calls[at];
        int behind = count - at - 1;
        if (behind > 0) {
            System.arraycopy(monitors, at + 1, monitors, at, behind);
            System.arraycopy(calls, at + 1, calls, at, behind);
            System.arraycopy(again, at + 1, again, at, behind);
        }
        count--;
        monitors[count] = null;
        calls[count] = null;
        return found;
    }

    private void clear() {
        Arrays.fill(monitors, null);
        Arrays.fill(calls, null);
        count = 0;
    }
}
