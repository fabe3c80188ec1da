package undermine.agent.stacks;

import java.lang.reflect.Field;
import java.util.Arrays;
import undermine.agent.wire.Cursor;

/**
 * Recognises stacks that have been walked before, from the data that the JVM stores in an exception: class, method number
 * and index of each frame. Filling an exception takes a third of the time of a walk.
 *
 * The JVM stores this data in undocumented arrays. If they don't look as expected, or the stack is very deep, the other
 * walker is used.
 *
 * Only stacks are kept whose classes can't be unloaded.
 */
final class TraceWalker extends Walker {
    private static final int STACKS_MAX = 20_000;
    /** The maximum number of arrays that are looked at; each has 32 frames. */
    private static final int PARTS_MAX = 4;
    private static final int FRAMES_MAX = 32 * PARTS_MAX;
    private static final ClassLoader SYSTEM = ClassLoader.getSystemClassLoader();

    private final Walker walker;
    private final Field backtrace;
    /** The index at which an array refers to the next one. */
    private final int next;
    /** A hash table with open addressing. Read without a lock, since its entries never change. */
    private volatile Trace[] traces = new Trace[1024];
    private int count;

    private TraceWalker(Walker walker, Field backtrace, int next) {
        this.walker = walker;
        this.backtrace = backtrace;
        this.next = next;
    }

    /** Wrap a walker; returns that walker itself if exceptions don't look as expected. */
    static Walker over(Walker walker) {
        try {
            Field field = Throwable.class.getDeclaredField("backtrace");
            field.setAccessible(true);
            int next = tried(field, FRAMES_MAX);
            return next > 0 ? new TraceWalker(walker, field, next) : walker;
        } catch (ReflectiveOperationException | RuntimeException | StackOverflowError other) {
            return walker;
        }
    }

    /**
     * Find the index of the reference to the next array, in a stack that is deep enough; 0 if the arrays are not as
     * expected.
     */
    private static int tried(Field field, int deeper) throws IllegalAccessException {
        if (deeper > 0) {
            return tried(field, deeper - 1);
        }
        Object[] first = (Object[]) field.get(new Throwable());
        for (int next = 4; first != null && next < first.length; next++) {
            if (isChain(first, next)) {
                return next;
            }
        }
        return 0;
    }

    private static boolean isChain(Object[] first, int next) {
        Object part = first;
        for (int i = 0; i < PARTS_MAX; i++) {
            if (!(part instanceof Object[]) || ((Object[]) part).length != first.length || !isPart((Object[]) part)) {
                return false;
            }
            part = ((Object[]) part)[next];
        }
        return part != null;
    }

    private static boolean isPart(Object[] part) {
        return part[0] instanceof short[] && part[1] instanceof int[] && part[2] instanceof Object[]
                && ((Object[]) part[2])[0] instanceof Class;
    }

    /** One stack that has been seen. */
    private static final class Trace {
        final int hash;
        final Stack stack;
        /** Triples of method numbers, indexes and classes. */
        final Object[] parts;

        Trace(int hash, Stack stack, Object[] parts) {
            this.hash = hash;
            this.stack = stack;
            this.parts = parts;
        }

        boolean is(Object[] first, int next) {
            Object[] part = first;
            for (int i = 0; i < parts.length; i += 3) {
                if (part == null || !Arrays.equals((int[]) parts[i + 1], (int[]) part[1])
                        || !Arrays.equals((short[]) parts[i], (short[]) part[0])
                        || !areSame((Object[]) parts[i + 2], (Object[]) part[2])) {
                    return false;
                }
                part = (Object[]) part[next];
            }
            return part == null;
        }

        private static boolean areSame(Object[] one, Object[] other) {
            for (int i = 0; i < one.length && one[i] != null; i++) {
                if (one[i] != other[i]) {
                    return false;
                }
            }
            return true;
        }
    }

    /** Uses as few methods as possible, since the JVM walks their frames too. */
    @Override
    Stack here(Sites sites, Cursor cursor) {
        WalkRoom room = WalkRoom.of(cursor);
        Throwable probe = room.probe;
        if (probe == null) {
            probe = new Throwable(); // created once and filled again: tools that count exceptions don't see it
            room.probe = probe;
        }
        probe.fillInStackTrace();
        Object[] first = taken(probe);
        int hash = first == null ? 0 : hash(first);
        if (hash == 0) {
            return walker.here(sites, cursor);
        }
        Trace[] table = traces;
        int mask = table.length - 1;
        for (int at = hash & mask;; at = at + 1 & mask) {
            Trace found = table[at];
            if (found == null) {
                return add(walker.here(sites, cursor), hash, first);
            }
            if (found.hash == hash && found.is(first, next)) {
                return found.stack;
            }
        }
    }

    /** Take the arrays out of the exception, since they refer to classes. */
    private Object[] taken(Throwable probe) {
        try {
            Object[] found = (Object[]) backtrace.get(probe);
            backtrace.set(probe, null);
            return found;
        } catch (IllegalAccessException never) {
            return null;
        }
    }

    /** The hash of a stack; 0 if it has too many frames. */
    private int hash(Object[] first) {
        int hash = Sites.HASH_START;
        Object[] part = first;
        for (int i = 0; part != null; i++) {
            if (i == PARTS_MAX) {
                return 0;
            }
            int[] places = (int[]) part[1];
            short[] methods = (short[]) part[0];
            for (int at = 0; at < places.length; at++) {
                hash = 31 * hash + (places[at] ^ methods[at] << 7);
            }
            part = (Object[]) part[next];
        }
        hash ^= hash >>> 15;
        return hash == 0 ? 1 : hash;
    }

    private synchronized Stack add(Stack stack, int hash, Object[] first) {
        Object[] parts = new Object[0];
        for (Object[] part = first; part != null; part = (Object[]) part[next]) {
            if (!stay((Object[]) part[2])) {
                return stack;
            }
            int end = parts.length;
            parts = Arrays.copyOf(parts, end + 3);
            System.arraycopy(part, 0, parts, end, 3);
        }
        Trace[] table = traces;
        if (count >= STACKS_MAX) { // a target with endless different stacks
            count = 0;
            table = new Trace[1024];
        } else if (2 * count >= table.length) {
            table = grown(table);
        }
        table[free(table, hash)] = new Trace(hash, stack, parts);
        count++;
        traces = table;
        return stack;
    }

    /** True if none of these classes can be unloaded before the program ends. */
    private static boolean stay(Object[] classes) {
        for (int i = 0; i < classes.length && classes[i] != null; i++) {
            Class<?> type = (Class<?>) classes[i];
            if (i > 0 && type == classes[i - 1]) {
                continue;
            }
            ClassLoader loader = type.getClassLoader();
            boolean isLasting = loader == null || loader == SYSTEM || loader == SYSTEM.getParent();
            if (!isLasting || loader != null && type.getName().indexOf('/') >= 0) {
                return false;
            }
        }
        return true;
    }

    private static int free(Trace[] table, int hash) {
        int at = hash & table.length - 1;
        while (table[at] != null) {
            at = at + 1 & table.length - 1;
        }
        return at;
    }

    private static Trace[] grown(Trace[] table) {
        Trace[] larger = new Trace[2 * table.length];
        for (Trace each : table) {
            if (each != null) {
                larger[free(larger, each.hash)] = each;
            }
        }
        return larger;
    }
}
