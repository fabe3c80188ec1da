package undermine.agent.net;

import java.lang.reflect.Method;

/** Reads memory that a library has outside the heap. OpenedPackages makes the JDK's own methods accessible. */
final class NativeMemory {
    /** A piece of memory is described by its address and its size, with eight bytes each (struct iovec). */
    private static final int PIECE_SIZE = 16;
    private static final int SIZE_AT = 8;

    private NativeMemory() {
    }

    /** The sum of the sizes of `count` pieces of memory that are described at this address; 1 if it is unknown. */
    static long sizeOf(long pieces, int count) {
        try {
            Class<?> type = Class.forName("jdk.internal.misc.Unsafe", true, null);
            Method get = type.getDeclaredMethod("getUnsafe");
            get.setAccessible(true);
            Object unsafe = get.invoke(null);
            Method read = type.getDeclaredMethod("getLong", long.class);
            read.setAccessible(true);
            long sum = 0;
            for (int i = 0; i < count; i++) {
                sum += (Long) read.invoke(unsafe, pieces + (long) i * PIECE_SIZE + SIZE_AT);
            }
            return sum;
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            return 1;
        }
    }
}
