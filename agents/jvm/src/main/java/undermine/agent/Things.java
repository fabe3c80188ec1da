package undermine.agent;

import java.util.concurrent.atomic.AtomicInteger;

/** What locks, queues and the like are called: by their kind, their hash, and a number that no other one has. */
final class Things {
    private static final int SIZE = 16_384;
    private static final Known<Subject> NAMES = new Known<Subject>(SIZE);
    /** What has several sides. */
    private static final Known<Subject> WHOLES = new Known<Subject>();
    /** Locks without objects of their own for who reads. */
    private static final Known<Subject> READINGS = new Known<Subject>();
    /** Each object is a lock and a condition. */
    private static final Known<Subject> CONDITIONS = new Known<Subject>();
    /** A thread may be a lock too, beside the permit that it waits for. */
    private static final Known<Subject> PERMITS = new Known<Subject>();
    private static final AtomicInteger NUMBER = new AtomicInteger();

    private Things() {
    }

    /** The subject of an object; null if there is none: whoever uses it is told so. */
    static Subject of(String kind, Object thing) {
        return thing == null ? null : find(NAMES, kind, thing);
    }

    /** A side of something that has several: all have its name, each is of its own kind. */
    static Subject side(String kind, Object side, Object whole) {
        return NAMES.putIfAbsent(side, new Subject(kind, find(WHOLES, "lock", whole).resource, false));
    }

    /** The side of a lock that several may have at a time: it has the lock's own name. */
    static Subject reading(String kind, Object lock) {
        if (lock == null) {
            return null;
        }
        Subject known = READINGS.get(lock);
        return known != null ? known : READINGS.putIfAbsent(lock, new Subject("readlock", of(kind, lock).resource, false));
    }

    static Subject condition(Object thing) {
        return thing == null ? null : find(CONDITIONS, "condition", thing);
    }

    /** What a thread waits for when it parks. */
    static Subject permit(Thread thread) {
        return thread == null ? null : find(PERMITS, "permit", thread);
    }

    /** Null if nobody has asked for it yet. */
    static Subject known(Object thing) {
        return NAMES.get(thing);
    }

    private static Subject find(Known<Subject> names, String kind, Object thing) {
        Subject found = names.get(thing);
        if (found == null) {
            String hash = Integer.toHexString(System.identityHashCode(thing));
            String name = kind + "@" + hash + "-" + NUMBER.incrementAndGet();
            found = names.putIfAbsent(thing, Subject.unique(kind, name));
        }
        return found;
    }

    /** A name that no other thing has. */
    static String unique(String kind) {
        return kind + "-" + NUMBER.incrementAndGet();
    }
}
