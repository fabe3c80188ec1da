package undermine.agent.names;

import java.util.concurrent.atomic.AtomicInteger;
import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.operations.Subject;

/** Names locks, queues and similar objects by their kind, their identity hash and a unique number. */
public final class ObjectNames {
    private static final int SIZE = 16_384;
    private static final WeakIdentityMap<Subject> NAMES = new WeakIdentityMap<Subject>(SIZE);
    /** Read-write locks, which have two sides. */
    private static final WeakIdentityMap<Subject> WHOLES = new WeakIdentityMap<Subject>();
    /** The read sides of locks that have no object for them. */
    private static final WeakIdentityMap<Subject> READINGS = new WeakIdentityMap<Subject>();
    /** Each object is both a lock and a condition. */
    private static final WeakIdentityMap<Subject> CONDITIONS = new WeakIdentityMap<Subject>();
    /** A thread may be a lock too, apart from its park permit. */
    private static final WeakIdentityMap<Subject> PERMITS = new WeakIdentityMap<Subject>();
    private static final AtomicInteger NUMBER = new AtomicInteger();

    private ObjectNames() {
    }

    /** The subject of an object; null for null: the method that uses it will throw. */
    public static Subject of(String kind, Object object) {
        return object == null ? null : find(NAMES, kind, object);
    }

    /** The subject of one side of a lock. Both sides have the lock's name but different kinds. */
    public static Subject side(String kind, Object side, Object whole) {
        return NAMES.putIfAbsent(side, new Subject(kind, find(WHOLES, "lock", whole).resource, false));
    }

    /** The subject of the shared side of a lock, with the lock's own name. */
    public static Subject reading(String kind, Object lock) {
        if (lock == null) {
            return null;
        }
        Subject known = READINGS.get(lock);
        return known != null ? known : READINGS.putIfAbsent(lock, new Subject("readlock", of(kind, lock).resource, false));
    }

    public static Subject condition(Object object) {
        return object == null ? null : find(CONDITIONS, "condition", object);
    }

    /** The subject of the permit that a thread waits for when it parks. */
    public static Subject permit(Thread thread) {
        return thread == null ? null : find(PERMITS, "permit", thread);
    }

    /** The subject of an object that has one already; else null. */
    public static Subject known(Object object) {
        return NAMES.get(object);
    }

    private static Subject find(WeakIdentityMap<Subject> names, String kind, Object object) {
        Subject found = names.get(object);
        if (found == null) {
            String hash = Integer.toHexString(System.identityHashCode(object));
            String name = kind + "@" + hash + "-" + NUMBER.incrementAndGet();
            found = names.putIfAbsent(object, Subject.unique(kind, name));
        }
        return found;
    }

    /** A unique name. */
    public static String unique(String kind) {
        return kind + "-" + NUMBER.incrementAndGet();
    }
}
