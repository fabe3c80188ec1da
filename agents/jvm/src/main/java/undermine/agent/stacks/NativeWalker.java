package undermine.agent.stacks;

import undermine.agent.process.NativeHelper;
import undermine.agent.wire.Cursor;

/**
 * Walks stacks by the native helper: several times faster than a StackWalker, since no object is made for a frame. The
 * JVM never gives the number of a method to another one, also if the first one's class is gone.
 */
final class NativeWalker extends Walker {
    private static final int FRAMES = 40;
    private static final Site NOT_OWN = new Site(0, "");
    private static final Site AGENTS = new Site(0, "");
    /** In place of a place: of methods that are not the target's, one place is like the other. */
    private static final long ALL = -1;

    private final SiteTable methods = new SiteTable();
    /** Where the innermost frame that is not the agent's is one of these, and none is the target's, the stack has this one. */
    private final SiteTable alone = new SiteTable();
    /** Walks where no frame is the target's. */
    private final Walker otherwise;

    private NativeWalker(Walker otherwise) {
        this.otherwise = otherwise;
    }

    /** A walker, or null if the helper is not there. Loading it pays after some hundred walks. */
    static Walker make(Walker otherwise) {
        try {
            if (NativeHelper.whyNot().isEmpty()) {
                NativeHelper.load();
            }
            return NativeHelper.isLoaded() && open() == 0 ? new NativeWalker(otherwise) : null;
        } catch (LinkageError older) { // a helper that cannot do this
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
        long place = 0;
        for (int from = 0; got == FRAMES && from < Sites.WALK_MAX && count < Sites.DEPTH_MAX; from += FRAMES) {
            got = walk(found, from, FRAMES);
            for (int i = 0; i < got && count < Sites.DEPTH_MAX; i++) {
                Site site = site(sites, cursor, found[2 * i], found[2 * i + 1]);
                if (site.id != 0) {
                    room.frames[count++] = site;
                    hash = Sites.mix(hash, site.id);
                } else if (site == NOT_OWN && method == 0) {
                    method = found[2 * i];
                    place = found[2 * i + 1];
                }
            }
        }
        return count == 0 ? alone(sites, cursor, method, place) : sites.stack(cursor, room.frames, count, hash);
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
            ClassSites code = type == null ? null : sites.code(type);
            if (code != null && code.isOwn) {
                return own(sites, cursor, type, code.calls(type), method, bci);
            }
            // the other walker does not show the frames of hidden classes
            known = code == null || code.isAgents || type.getName().indexOf('/') >= 0 ? AGENTS : NOT_OWN;
            methods.put(method, ALL, known);
        }
        methods.put(method, bci, known);
        return known;
    }

    /** Two threads that come to a place at the same time find the same. */
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

    /** Fills in the numbers of methods and places by turns; returns how many frames there were, or less than 0. */
    private static native int walk(long[] into, int from, int max);

    private static native Class<?> owner(long method);

    /** The method's name and descriptor in one. */
    private static native String name(long method);
}
