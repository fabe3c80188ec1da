package undermine.agent.heap;

/**
 * Limits how often the same access is recorded in a process, since a busy server would reach the limit of all records soon.
 *
 * Recorded are the first occurrences, then those whose numbers are powers of two. Occurrences with another value than the one
 * before are counted apart in the same way: a loop that polls ends when its value changes, however often it was read before.
 * The tables are approximate: two accesses may share an entry by chance, and threads may miss each other's changes.
 */
final class Repetitions {
    private static final int SIZE = 1 << 16;
    private static final int OF_PLACE = 16;
    private static final int OF_TARGET = 64;

    private final long[] accesses = new long[SIZE];
    private final int[] counts = new int[SIZE];
    private final int[] values = new int[SIZE];
    private final int[] changes = new int[SIZE];
    private final int[] targets = new int[SIZE];

    /** Count an occurrence of this access, at this site and masked name; true if it has to be recorded. */
    boolean isWanted(long access, int target, String content) {
        int at = slot(access);
        if (accesses[at] != access) {
            accesses[at] = access;
            counts[at] = 0;
            changes[at] = 0;
            values[at] = content.hashCode();
        }
        int count = ++counts[at];
        int ofTarget = ++targets[slot(target)];
        boolean isOther = content.hashCode() != values[at];
        values[at] = content.hashCode();
        return isOther && isEarly(++changes[at], OF_PLACE) || isEarly(count, OF_PLACE) && isEarly(ofTarget, OF_TARGET);
    }

    private static boolean isEarly(int count, int most) {
        return count <= most || (count & count - 1) == 0;
    }

    private static int slot(long key) {
        long mixed = key * 0x9E3779B97F4A7C15L;
        return (int) (mixed >>> 40) & SIZE - 1;
    }
}
