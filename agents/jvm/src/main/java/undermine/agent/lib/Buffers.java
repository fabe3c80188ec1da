package undermine.agent.lib;

import java.nio.ByteBuffer;

/** Sizes of the data that methods of the JDK are given. */
public final class Buffers {
    private Buffers() {
    }

    /** The bytes in an array, the bytes left in a buffer, the characters of a text; 0 for all else. */
    public static long length(Object data) {
        if (data instanceof byte[]) {
            return ((byte[]) data).length;
        }
        if (data instanceof ByteBuffer) {
            return ((ByteBuffer) data).remaining();
        }
        return data instanceof String ? ((String) data).length() : 0;
    }

    /** The bytes left in `length` buffers from `offset` on. */
    public static long remaining(Object buffers, int offset, int length) {
        if (!(buffers instanceof ByteBuffer[])) {
            return 0;
        }
        ByteBuffer[] all = (ByteBuffer[]) buffers;
        long sum = 0;
        for (int i = Math.max(offset, 0); i < all.length && i - offset < length; i++) {
            sum += all[i] == null ? 0 : all[i].remaining();
        }
        return sum;
    }
}
