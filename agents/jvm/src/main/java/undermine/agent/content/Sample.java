package undermine.agent.content;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;

/** Different digests, up to a limit: those whose own CRC-32 is lowest, then those that come first in order. */
final class Sample {
    private final int max;
    private final CRC32 sum = new CRC32();
    /** The kept digests and the CRC-32 of each, in the order of the latter. */
    private byte[][] kept = new byte[8][];
    private long[] ranks = new long[8];
    private int count;

    Sample(int max) {
        this.max = max;
    }

    /** The kept digests, lowest CRC-32 first. */
    List<String> digests() {
        List<String> all = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            all.add(new String(kept[i], StandardCharsets.US_ASCII));
        }
        return all;
    }

    /** Keep the first `length` bytes as a digest, if it is among the lowest ones. */
    void add(byte[] digest, int length) {
        sum.reset();
        sum.update(digest, 0, length);
        long rank = sum.getValue();
        if (count == max && rank > ranks[count - 1]) {
            return;
        }
        int at = count;
        while (at > 0 && (rank < ranks[at - 1] || rank == ranks[at - 1] && order(digest, length, kept[at - 1]) < 0)) {
            at--;
        }
        if (at == max || at > 0 && rank == ranks[at - 1] && order(digest, length, kept[at - 1]) == 0) {
            return;
        }
        insert(at, rank, Arrays.copyOf(digest, length));
    }

    private void insert(int at, long rank, byte[] digest) {
        if (count == ranks.length && count < max) {
            kept = Arrays.copyOf(kept, Math.min(2 * count, max));
            ranks = Arrays.copyOf(ranks, Math.min(2 * count, max));
        }
        int moved = Math.min(count, max - 1) - at;
        System.arraycopy(ranks, at, ranks, at + 1, moved);
        System.arraycopy(kept, at, kept, at + 1, moved);
        ranks[at] = rank;
        kept[at] = digest;
        count = Math.min(count + 1, max);
    }

    /** Compare a digest of `length` bytes with another one. */
    private static int order(byte[] digest, int length, byte[] other) {
        for (int i = 0; i < Math.min(length, other.length); i++) {
            if (digest[i] != other[i]) {
                return digest[i] - other[i];
            }
        }
        return length - other.length;
    }
}
