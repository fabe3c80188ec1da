package undermine.agent.lib;

/** The hash BLAKE2b without a key (RFC 7693). The tool identifies stacks by it. */
public final class Blake2b {
    private static final int BLOCK = 128;
    private static final long[] START = {
        0x6a09e667f3bcc908L, 0xbb67ae8584caa73bL, 0x3c6ef372fe94f82bL, 0xa54ff53a5f1d36f1L,
        0x510e527fade682d1L, 0x9b05688c2b3e6c1fL, 0x1f83d9abfb41bd6bL, 0x5be0cd19137e2179L,
    };
    private static final String[] ORDER = {
        "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8",
        "905724afe1bc683d", "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a",
        "6fe9b308c2d714a5", "a2847615fb9e3cd0",
    };

    private final long[] state = START.clone();
    private final long[] work = new long[16];
    private final long[] words = new long[16];

    private Blake2b(int digestSize) {
        state[0] ^= 0x01010000L ^ digestSize;
    }

    /** Return the digest as hexadecimal digits: two for each of its `digestSize` bytes (1 to 64). */
    public static String hex(byte[] data, int digestSize) {
        Blake2b hash = new Blake2b(digestSize);
        int at = 0;
        for (; data.length - at > BLOCK; at += BLOCK) {
            hash.compress(data, at, BLOCK, at + BLOCK, false);
        }
        hash.compress(data, at, data.length - at, data.length, true);
        return hash.digest(digestSize);
    }

    private void compress(byte[] data, int from, int size, long total, boolean last) {
        for (int i = 0; i < 16; i++) {
            words[i] = word(data, from + 8 * i, from + size);
            work[i] = i < 8 ? state[i] : START[i - 8];
        }
        work[12] ^= total;
        work[14] = last ? ~work[14] : work[14];
        for (int round = 0; round < 12; round++) {
            round(ORDER[round % 10]);
        }
        for (int i = 0; i < 8; i++) {
            state[i] ^= work[i] ^ work[i + 8];
        }
    }

    private void round(String order) {
        for (int i = 0; i < 4; i++) {
            mix(i, 4 + i, 8 + i, 12 + i, order, 2 * i);
        }
        for (int i = 0; i < 4; i++) {
            mix(i, 4 + (i + 1 & 3), 8 + (i + 2 & 3), 12 + (i + 3 & 3), order, 8 + 2 * i);
        }
    }

    private void mix(int a, int b, int c, int d, String order, int at) {
        work[a] += work[b] + words[Character.digit(order.charAt(at), 16)];
        work[d] = Long.rotateRight(work[d] ^ work[a], 32);
        work[c] += work[d];
        work[b] = Long.rotateRight(work[b] ^ work[c], 24);
        work[a] += work[b] + words[Character.digit(order.charAt(at + 1), 16)];
        work[d] = Long.rotateRight(work[d] ^ work[a], 16);
        work[c] += work[d];
        work[b] = Long.rotateRight(work[b] ^ work[c], 63);
    }

    /** Eight bytes, little-endian; bytes after the end count as zero. */
    private static long word(byte[] data, int from, int end) {
        long word = 0;
        for (int i = Math.min(from + 8, end) - 1; i >= from; i--) {
            word = word << 8 | data[i] & 0xff;
        }
        return word;
    }

    private String digest(int size) {
        StringBuilder digits = new StringBuilder(2 * size);
        for (int i = 0; i < size; i++) {
            int value = (int) (state[i / 8] >>> 8 * (i % 8));
            digits.append(Character.forDigit(value >> 4 & 15, 16)).append(Character.forDigit(value & 15, 16));
        }
        return digits.toString();
    }
}
