package undermine.agent.stacks;

/** Sites by method and place, or by a class and a place in it, as numbers. Read without a lock; whoever finds nothing here asks with one. */
final class SiteTable {
    private static final int START = 4096;
    private static final int COUNT_MAX = 100_000;

    private volatile Slots table = new Slots(START);
    private int count;

    /** Keys and sites beside each other. 0 is no key: no method has this number. */
    private static final class Slots {
        final long[] keys;
        final Site[] sites;

        Slots(int size) {
            keys = new long[size];
            sites = new Site[size];
        }

        /** Where this key is, or the free place for it. */
        int place(long key) {
            int mask = keys.length - 1;
            int at = (int) (key * 0x9E3779B97F4A7C15L >>> 40) & mask;
            while (keys[at] != key && keys[at] != 0) {
                at = at + 1 & mask;
            }
            return at;
        }
    }

    /** Methods are numbered by addresses of 47 bits, or from 1 on; places have 16 bits. */
    private static long key(long method, long bci) {
        return method << 16 | bci & 0xffff;
    }

    /** Null if it was not met yet. */
    Site get(long method, long bci) {
        Slots found = table;
        long key = key(method, bci);
        int at = found.place(key);
        return found.keys[at] == key ? found.sites[at] : null;
    }

    synchronized void put(long method, long bci, Site site) {
        if (count >= COUNT_MAX) { // a target that makes code without end
            count = 0;
            table = new Slots(START);
        } else if (2 * count >= table.keys.length) {
            grow();
        }
        count++;
        put(table, key(method, bci), site);
    }

    private static void put(Slots into, long key, Site site) {
        int at = into.place(key);
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
