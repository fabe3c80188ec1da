package undermine.agent.names;

import java.util.concurrent.atomic.AtomicInteger;
import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.operations.Subject;

/** What locks, queues and the like are called: by their kind, their hash, and a number that no other one has. */
public final class ObjectNames {
    private static final int SIZE = 16_384;
    private static final WeakIdentityMap<Subject> NAMES = new WeakIdentityMap<Subject>(SIZE);
    /** What has several sides. */
    private static final WeakIdentityMap<Subject> WHOLES = new WeakIdentityMap<Subject>();
    /** Locks without objects of their own for who reads. */
    private static final WeakIdentityMap<Subject> READINGS = new WeakIdentityMap<Subject>();
    /** Each object is a lock and a condition. */
    private static final WeakIdentityMap<Subject> CONDITIONS = new WeakIdentityMap<Subject>();
    /** A thread may be a lock too, beside the permit that it waits for. */
    private static final WeakIdentityMap<Subject> PERMITS = new WeakIdentityMap<Subject>();
    private static final AtomicInteger NUMBER = new AtomicInteger();

    private ObjectNames() {
    }

    /** The subject of an object; null if there is none: whoever uses it is told so. */
    public static Subject of(String kind, Object thing) {
        return thing == null ? null : find(NAMES, kind, thing);
    }

    /** A side of something that has several: all have its name, each is of its own kind. */
    public static Subject side(String kind, Object side, Object whole) {
        return NAMES.putIfAbsent(side, new Subject(kind, find(WHOLES, "lock", whole).resource, false));
    }

    /** The side of a lock that several may have at a time: it has the lock's own name. */
    public static Subject reading(String kind, Object lock) {
        if (lock == null) {
            return null;
        }
        Subject known = READINGS.get(lock);
        return known != null ? known : READINGS.putIfAbsent(lock, new Subject("readlock", of(kind, lock).resource, false));
    }

    public static Subject condition(Object thing) {
        return thing == null ? null : find(CONDITIONS, "condition", thing);
    }

    /** What a thread waits for when it parks. */
    public static Subject permit(Thread thread) {
        return thread == null ? null : find(PERMITS, "permit", thread);
    }

    /** Null if nobody has asked for it yet. */
    public static Subject known(Object thing) {
        return NAMES.get(thing);
    }

    private static Subject find(WeakIdentityMap<Subject> names, String kind, Object thing) {
        Subject found = names.get(thing);
        if (found == null) {
            String hash = Integer.toHexString(System.identityHashCode(thing));
            String name = kind + "@" + hash + "-" + NUMBER.incrementAndGet();
            found = names.putIfAbsent(thing, Subject.unique(kind, name));
        }
        return found;
    }

    /** A name that no other thing has. */
    public static String unique(String kind) {
        return kind + "-" + NUMBER.incrementAndGet();
    }
}
