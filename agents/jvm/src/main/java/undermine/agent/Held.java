package undermine.agent;

import java.util.Arrays;

/** The monitors that a thread is in, and how it entered them. */
final class Held {
    private static final int COUNT_MAX = 1000;
    private Object[] monitors = new Object[8];
    private Call[] calls = new Call[8];
    private int count;

    void push(Object monitor, Call call) {
        if (count >= COUNT_MAX) {
            clear(); // some were left unseen
        }
        if (count == monitors.length) {
            monitors = Arrays.copyOf(monitors, 2 * count);
            calls = Arrays.copyOf(calls, 2 * count);
        }
        monitors[count] = monitor;
        calls[count++] = call;
    }

    /** The last entering of this one, which is over; null if it was not seen. */
    Call pop(Object monitor) {
        for (int i = count - 1; i >= 0; i--) {
            if (monitors[i] == monitor) {
                Call found = calls[i];
                System.arraycopy(monitors, i + 1, monitors, i, count - i - 1);
                System.arraycopy(calls, i + 1, calls, i, count - i - 1);
                count--;
                monitors[count] = null;
                calls[count] = null;
                return found;
            }
        }
        return null;
    }

    private void clear() {
        Arrays.fill(monitors, null);
        Arrays.fill(calls, null);
        count = 0;
    }
}
