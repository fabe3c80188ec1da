package undermine.agent.lib;

import java.nio.Buffer;
import java.nio.ByteBuffer;

/** Sizes of the data that is passed to methods of the JDK. */
public final class Buffers {
    private Buffers() {
    }

    /** The bytes of an array, the bytes left in a buffer, or the characters of a text; 0 for anything else. */
    public static long length(Object data) {
        if (data instanceof byte[]) {
            return ((byte[]) data).length;
        }
        if (data instanceof ByteBuffer) {
            return ((ByteBuffer) data).remaining();
        }
        return data instanceof String ? ((String) data).length() : 0;
    }

    /** Move a buffer to its end, as if all of it had been written. */
    public static void take(Object buffer) {
        ((Buffer) buffer).position(((Buffer) buffer).limit());
    }

    /** The same for `length` buffers, starting at `offset`. */
    public static void take(Object buffers, int offset, int length) {
        for (int i = offset; i < offset + length; i++) {
            take(((Object[]) buffers)[i]);
        }
    }

    /** The bytes left in `length` buffers, starting at `offset`. */
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
