package undermine.agent.record;

/**
 * The latest clock reads of a thread, by the number of their call site: the time, and the number of operations with
 * possible faults before. Also the limits of deadlines. An entry may be replaced by one of another site.
 */
public final class ClockReads {
    private static final int SIZE = 32;
    private final long[] numbers = new long[SIZE];
    private final long[] values = new long[SIZE];
    private final long[] acts = new long[SIZE];

    public void put(long number, long value, long actsBefore) {
        int at = slot(number);
        numbers[at] = number;
        values[at] = value;
        acts[at] = actsBefore;
    }

    /** The value; 0 if it is unknown. */
    public long at(long number) {
        int at = slot(number);
        return numbers[at] == number ? values[at] : 0;
    }

    /** The number of operations before; -1 if it is unknown. */
    public long actsAt(long number) {
        int at = slot(number);
        return numbers[at] == number ? acts[at] : -1;
    }

    private static int slot(long number) {
        return (int) (number ^ number >>> 16) & SIZE - 1;
    }
}
