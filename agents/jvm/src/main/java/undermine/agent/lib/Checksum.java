package undermine.agent.lib;

import java.util.zip.CRC32;

/** A checksum of 32 bits. */
public final class Checksum {
    private Checksum() {
    }

    public static long of(byte[] bytes) {
        return of(bytes, 0);
    }

    public static long of(byte[] bytes, int from) {
        CRC32 sum = new CRC32();
        sum.update(bytes, from, bytes.length - from);
        return sum.getValue();
    }
}
