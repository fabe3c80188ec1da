package undermine.agent;

/**
 * Walks stacks by the native helper: several times faster than a StackWalker, since no object is made for a frame. The
 * JVM never gives the number of a method to another one, also if the first one's class is gone.
 */
final class NativeWalker extends Walker {
    private static final int FRAMES = 40;
    private static final Site NOT_OWN = new Site(0, "");

    private final Methods methods = new Methods();
    /** Walks where no frame is the target's. */
    private final Walker otherwise;

    private NativeWalker(Walker otherwise) {
        this.otherwise = otherwise;
    }

    /** A walker, or null if the helper is not there. Loading it pays after some hundred walks. */
    static Walker make(Walker otherwise) {
        try {
            if (Native.whyNot().isEmpty()) {
                Native.load();
            }
            return Native.isLoaded() && open() == 0 ? new NativeWalker(otherwise) : null;
        } catch (LinkageError older) { // a helper that cannot do this
            return null;
        }
    }

    @Override
    Stack here(Sites sites, Cursor cursor) {
        long[] found = cursor.numbers;
        if (found == null) {
            found = new long[2 * FRAMES];
            cursor.numbers = found;
        }
        int count = 0;
        int hash = Sites.HASH_START;
        int got = FRAMES;
        for (int from = 0; got == FRAMES && from < Sites.WALK_MAX && count < Sites.DEPTH_MAX; from += FRAMES) {
            got = walk(found, from, FRAMES);
            for (int i = 0; i < got && count < Sites.DEPTH_MAX; i++) {
                Site site = site(sites, cursor, found[2 * i], found[2 * i + 1]);
                if (site != NOT_OWN) {
                    cursor.frames[count++] = site;
                    hash = Sites.mix(hash, site.id);
                }
            }
        }
        return count == 0 ? otherwise.here(sites, cursor) : sites.stack(cursor, cursor.frames, count, hash);
    }

    private Site site(Sites sites, Cursor cursor, long method, long bci) {
        Site known = methods.get(method, bci);
        return known != null ? known : define(sites, cursor, method, bci);
    }

    private Site define(Sites sites, Cursor cursor, long method, long bci) {
        Class<?> type = owner(method);
        Site site = NOT_OWN;
        if (type != null && sites.code(type).isOwn) {
            site = own(sites, cursor, type, String.valueOf(name(method)), (int) bci);
        }
        methods.put(method, bci, site);
        return site;
    }

    private static Site own(Sites sites, Cursor cursor, Class<?> type, String text, int bci) {
        int end = text.indexOf('(');
        String name = end < 0 ? text : text.substring(0, end);
        String descriptor = end < 0 ? "" : text.substring(end);
        CallCounter calls = sites.code(type).calls(type);
        CallCounter.Method method = calls == null ? null : calls.method(name, descriptor);
        return sites.define(cursor, type, name, descriptor, bci, method == null ? 0 : method.line(bci));
    }

    private static native int open();

    /** Fills in the numbers of methods and places by turns; returns how many frames there were, or less than 0. */
    private static native int walk(long[] into, int from, int max);

    private static native Class<?> owner(long method);

    /** The method's name and descriptor in one. */
    private static native String name(long method);
}
