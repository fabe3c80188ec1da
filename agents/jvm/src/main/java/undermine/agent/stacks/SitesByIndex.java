package undermine.agent.stacks;

/** Sites by the index of their instruction. Immutable, so readers need no lock. */
final class SitesByIndex {
    static final SitesByIndex NONE = new SitesByIndex(new int[2], new Site[2], 0);

    private final int[] keys; // the index + 2, since it is -1 in a native method; 0: free
    private final Site[] frames;
    private final int count;

    private SitesByIndex(int[] keys, Site[] frames, int count) {
        this.keys = keys;
        this.frames = frames;
        this.count = count;
    }

    Site get(int bci) {
        int key = bci + 2;
        int mask = keys.length - 1;
        for (int at = key * 31 & mask;; at = at + 1 & mask) {
            int found = keys[at];
            if (found == key) {
                return frames[at];
            }
            if (found == 0) {
                return null;
            }
        }
    }

    /** A copy with one more site. */
    SitesByIndex with(int bci, Site frame) {
        int size = keys.length < 2 * (count + 1) ? 2 * keys.length : keys.length;
        SitesByIndex grown = new SitesByIndex(new int[size], new Site[size], count + 1);
        for (int i = 0; i < keys.length; i++) {
            if (keys[i] != 0) {
                grown.put(keys[i], frames[i]);
            }
        }
        grown.put(bci + 2, frame);
        return grown;
    }

    private void put(int key, Site frame) {
        int at = key * 31 & keys.length - 1;
        while (keys[at] != 0 && keys[at] != key) {
            at = at + 1 & keys.length - 1;
        }
        keys[at] = key;
        frames[at] = frame;
    }
}
