package undermine.agent.stacks;

import undermine.agent.process.NativeHelper;
import undermine.agent.wire.Cursor;

/**
 * Walks stacks with the native helper, several times faster than a StackWalker, since no object is created for a frame.
 *
 * The JVM never reuses the id of a method, even if its class is unloaded.
 */
final class NativeWalker extends Walker {
    private static final int FRAMES = 40;
    private static final Site NOT_OWN = new Site(0, "");
    private static final Site AGENTS = new Site(0, "");
    /** Stands for any index: all frames of a method outside the target are alike. */
    private static final long ALL = -1;

    private final SiteTable methods = new SiteTable();
    /** Stacks without any frame of the target, by the innermost frame outside the agent. */
    private final SiteTable alone = new SiteTable();
    /** Used for stacks without a frame of the target. */
    private final Walker otherwise;

    private NativeWalker(Walker otherwise) {
        this.otherwise = otherwise;
    }

    /** A walker, or null if there is no helper. Loading it pays off after some hundred walks. */
    static Walker make(Walker otherwise) {
        try {
            if (NativeHelper.whyNot().isEmpty()) {
                NativeHelper.load();
            }
            return NativeHelper.isLoaded() && open() == 0 ? new NativeWalker(otherwise) : null;
        } catch (LinkageError older) { // an older helper without this function
            return null;
        }
    }

    @Override
    Stack here(Sites sites, Cursor cursor) {
        WalkRoom room = WalkRoom.of(cursor);
        long[] found = room.numbers;
        if (found == null) {
            found = new long[2 * FRAMES];
            room.numbers = found;
        }
        int count = 0;
        int hash = Sites.HASH_START;
        int got = FRAMES;
        long method = 0;
        long index = 0;
        for (int from = 0; got == FRAMES && from < Sites.WALK_MAX && count < Sites.DEPTH_MAX; from += FRAMES) {
            got = walk(found, from, FRAMES);
            for (int i = 0; i < got && count < Sites.DEPTH_MAX; i++) {
                Site site = site(sites, cursor, found[2 * i], found[2 * i + 1]);
                if (site.id != 0) {
                    room.frames[count++] = site;
                    hash = Sites.mix(hash, site.id);
                } else if (site == NOT_OWN && method == 0) {
                    method = found[2 * i];
                    index = found[2 * i + 1];
                }
            }
        }
        return count == 0 ? alone(sites, cursor, method, index) : sites.stack(cursor, room.frames, count, hash);
    }

    private Stack alone(Sites sites, Cursor cursor, long method, long bci) {
        Site known = method == 0 ? null : alone.get(method, bci);
        if (known != null) {
            return sites.alone(cursor, known);
        }
        Stack found = otherwise.here(sites, cursor);
        if (method != 0 && found.isAlone) {
            alone.put(method, bci, found.innermost());
        }
        return found;
    }

    private Site site(Sites sites, Cursor cursor, long method, long bci) {
        Site known = methods.get(method, bci);
        return known != null ? known : define(sites, cursor, method, bci);
    }

    private Site define(Sites sites, Cursor cursor, long method, long bci) {
        Site known = methods.get(method, ALL);
        if (known == null) {
            Class<?> type = owner(method);
            ClassSites code = type == null ? null : sites.ofClass(type);
            if (code != null && code.isOfTarget) {
                return own(sites, cursor, type, code.calls(type), method, bci);
            }
            // the other walker doesn't show frames of hidden classes
            known = code == null || code.isOfAgent || type.getName().indexOf('/') >= 0 ? AGENTS : NOT_OWN;
            methods.put(method, ALL, known);
        }
        methods.put(method, bci, known);
        return known;
    }

    /** Define a site of the target. Two threads that reach it at the same time get the same one. */
    private Site own(Sites sites, Cursor cursor, Class<?> type, CallCounter calls, long method, long bci) {
        synchronized (methods) {
            Site known = methods.get(method, bci);
            if (known != null) {
                return known;
            }
            String text = String.valueOf(name(method));
            int end = text.indexOf('(');
            String name = end < 0 ? text : text.substring(0, end);
            String descriptor = end < 0 ? "" : text.substring(end);
            CallCounter.Method found = calls == null ? null : calls.method(name, descriptor);
            String whole = Locs.of(type.getName(), name, descriptor, calls);
            Site site = sites.made(cursor, whole, found, (int) bci, found == null ? 0 : found.line((int) bci));
            methods.put(method, bci, site);
            return site;
        }
    }

    private static native int open();

    /** Store pairs of method id and index; returns the number of frames, or less than 0. */
    private static native int walk(long[] into, int from, int max);

    private static native Class<?> owner(long method);

    /** The method's name followed by its descriptor. */
    private static native String name(long method);
}
