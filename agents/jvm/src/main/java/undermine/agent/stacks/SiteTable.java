package undermine.agent.stacks;

/**
 * Sites by two numbers: the id of a method or class, and an index in it. Readers take no lock; if they find nothing, they
 * look again with a lock.
 */
final class SiteTable {
    private static final int START = 4096;
    private static final int COUNT_MAX = 100_000;

    private volatile Slots table = new Slots(START);
    private int count;

    /** Parallel arrays of keys and sites. A key of 0 marks a free slot, since no method has the id 0. */
    private static final class Slots {
        final long[] keys;
        final Site[] sites;

        Slots(int size) {
            keys = new long[size];
            sites = new Site[size];
        }

        /** The slot of this key, or the free slot for it. */
        int slot(long key) {
            int mask = keys.length - 1;
            int at = (int) (key * 0x9E3779B97F4A7C15L >>> 40) & mask;
            while (keys[at] != key && keys[at] != 0) {
                at = at + 1 & mask;
            }
            return at;
        }
    }

    /** Method ids are addresses of 47 bits or count from 1; indexes have 16 bits. */
    private static long key(long method, long bci) {
        return method << 16 | bci & 0xffff;
    }

    /** The site, or null. */
    Site get(long method, long bci) {
        Slots found = table;
        long key = key(method, bci);
        int at = found.slot(key);
        return found.keys[at] == key ? found.sites[at] : null;
    }

    synchronized void put(long method, long bci, Site site) {
        if (count >= COUNT_MAX) { // a target that generates code without end
            count = 0;
            table = new Slots(START);
        } else if (2 * count >= table.keys.length) {
            grow();
        }
        count++;
        put(table, key(method, bci), site);
    }

    private static void put(Slots into, long key, Site site) {
        int at = into.slot(key);
        into.sites[at] = site;
        into.keys[at] = key;
    }

    private void grow() {
        Slots larger = new Slots(2 * table.keys.length);
        for (int i = 0; i < table.keys.length; i++) {
            if (table.keys[i] != 0) {
                put(larger, table.keys[i], table.sites[i]);
            }
        }
        table = larger;
    }
}
