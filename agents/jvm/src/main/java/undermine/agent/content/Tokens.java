package undermine.agent.content;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32;

/**
 * Digests of the tokens of bytes: texts, and numbers as decimal or hexadecimal text or in binary. protocol/README.md
 * defines them, and tests/conformance/tokens.json has examples.
 *
 * Buffers may have thousands of binary numbers. So only the digests that are kept become texts.
 */
public final class Tokens {
    /** Only this many bytes at both ends of a buffer are looked at, if it has more than twice as many. */
    static final int EDGE_BYTES = 4096;
    static final int TEXT_MIN = 6;
    static final int TEXT_MAX = 128;
    static final int NUMBER_MIN = 65536;
    static final int DECIMAL_MAX = 19;
    static final int HEX_MIN = 5;
    static final int HEX_MAX = 16;
    /** Binary numbers are looked for only in this many bytes. */
    static final int BINARY_BYTES = 1024;
    static final int DIGESTS_MAX = 64;

    private static final byte[] DIGITS = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final int TEXT_DIGEST = 10;
    private static final int DIGEST_CHARS_MAX = 17;
    /** The value of each byte as a hexadecimal digit; WORD if it is another byte of a run, NOTHING if it ends one. */
    private static final byte[] KINDS = new byte[256];
    private static final byte WORD = 16;
    private static final byte NOTHING = 17;

    static {
        for (int i = 0; i < KINDS.length; i++) {
            boolean isWord = i == '_' || i == '-' || i >= '0' && i <= '9' || i >= 'A' && i <= 'Z' || i >= 'a' && i <= 'z';
            int digit = i < 128 ? Character.digit(i, 16) : -1;
            KINDS[i] = digit >= 0 ? (byte) digit : isWord ? WORD : NOTHING;
        }
    }

    private final CRC32 sum = new CRC32();
    private final byte[] digest = new byte[DIGEST_CHARS_MAX];
    /** The kept digests and the CRC-32 of each, in the order of the latter. */
    private final byte[][] kept = new byte[DIGESTS_MAX][];
    private final long[] ranks = new long[DIGESTS_MAX];
    private int count;

    /** Add the tokens of these bytes; `isStart`: they are the first ones of a buffer. */
    public void add(byte[] bytes, boolean isStart) {
        addRuns(bytes);
        if (isStart) {
            addBinary(bytes, Math.min(bytes.length, BINARY_BYTES));
        }
    }

    /** The digests in ascending order, separated by a space. */
    public String digests() {
        String[] sorted = new String[count];
        for (int i = 0; i < count; i++) {
            sorted[i] = new String(kept[i], StandardCharsets.US_ASCII);
        }
        Arrays.sort(sorted);
        StringBuilder text = new StringBuilder(count * (DIGEST_CHARS_MAX + 1));
        for (String each : sorted) {
            text.append(text.length() == 0 ? "" : " ").append(each);
        }
        return text.toString();
    }

    // --- runs

    private void addRuns(byte[] bytes) {
        int start = 0;
        for (int i = 0; i < bytes.length; i++) {
            if (KINDS[bytes[i] & 0xFF] == NOTHING) {
                if (i - start >= HEX_MIN) {
                    addRun(bytes, start, i);
                }
                start = i + 1;
            }
        }
        if (bytes.length - start >= HEX_MIN) {
            addRun(bytes, start, bytes.length);
        }
    }

    private void addRun(byte[] bytes, int from, int to) {
        int length = to - from;
        if (length >= TEXT_MIN && length <= TEXT_MAX) {
            sum.reset();
            sum.update(bytes, from, length);
            long value = sum.getValue() << 8 | length;
            for (int i = 0; i < TEXT_DIGEST; i++) {
                digest[i] = DIGITS[(int) (value >>> 4 * (TEXT_DIGEST - 1 - i)) & 15];
            }
            keep(TEXT_DIGEST);
        }
        if (length <= DECIMAL_MAX) {
            addDecimal(bytes, from, to);
            boolean isMarked = bytes[from] == '0' && bytes[from + 1] == 'x';
            addHex(bytes, isMarked ? from + 2 : from, to);
        }
    }

    private void addDecimal(byte[] bytes, int from, int to) {
        long number = 0;
        for (int i = from; i < to; i++) {
            int digit = KINDS[bytes[i] & 0xFF];
            if (digit > 9) {
                return;
            }
            number = number * 10 + digit; // 19 digits never reach 2^64: a number of 2^63 or more is negative here
        }
        addNumber(number);
    }

    private void addHex(byte[] bytes, int from, int to) {
        if (to - from < HEX_MIN || to - from > HEX_MAX) {
            return;
        }
        long number = 0;
        boolean hasDigit = false;
        for (int i = from; i < to; i++) {
            int digit = KINDS[bytes[i] & 0xFF];
            if (digit > 15) {
                return;
            }
            hasDigit |= digit <= 9;
            number = number << 4 | digit;
        }
        if (hasDigit) {
            addNumber(number);
        }
    }

    // --- binary numbers

    /** All 4 and 8 successive bytes, big and little endian, whose highest byte is zero and whose two lowest ones aren't text. */
    private void addBinary(byte[] bytes, int size) {
        long last = 0;
        for (int i = 0; i < size; i++) {
            last = last << 8 | bytes[i] & 0xFF;
            boolean endsInZero = bytes[i] == 0;
            if (i >= 3) {
                int four = (int) last;
                if (four >>> 24 == 0) {
                    addBinaryNumber(four);
                }
                if (endsInZero) {
                    addBinaryNumber(Integer.reverseBytes(four));
                }
            }
            if (i >= 7) {
                if (last >>> 56 == 0) {
                    addBinaryNumber(last);
                }
                if (endsInZero) {
                    addBinaryNumber(Long.reverseBytes(last));
                }
            }
        }
    }

    private void addBinaryNumber(long number) {
        if (!isText(number) || !isText(number >> 8)) {
            addNumber(number);
        }
    }

    private static boolean isText(long number) {
        long lowest = number & 0xFF;
        return lowest >= ' ' && lowest <= '~';
    }

    // --- digests

    private void addNumber(long number) {
        if (number < NUMBER_MIN) {
            return;
        }
        int length = (67 - Long.numberOfLeadingZeros(number)) / 4;
        digest[0] = 'n';
        for (int i = 1; i <= length; i++) {
            digest[i] = DIGITS[(int) (number >>> 4 * (length - i)) & 15];
        }
        keep(length + 1);
    }

    /** Keep the digest that was just written if it is among those with the lowest CRC-32, then the lowest text. */
    private void keep(int length) {
        sum.reset();
        sum.update(digest, 0, length);
        long rank = sum.getValue();
        if (count == DIGESTS_MAX && rank > ranks[count - 1]) {
            return;
        }
        int at = count;
        while (at > 0 && (rank < ranks[at - 1] || rank == ranks[at - 1] && order(length, kept[at - 1]) < 0)) {
            at--;
        }
        if (at == DIGESTS_MAX || at > 0 && rank == ranks[at - 1] && order(length, kept[at - 1]) == 0) {
            return;
        }
        int moved = Math.min(count, DIGESTS_MAX - 1) - at;
        System.arraycopy(ranks, at, ranks, at + 1, moved);
        System.arraycopy(kept, at, kept, at + 1, moved);
        ranks[at] = rank;
        kept[at] = Arrays.copyOf(digest, length);
        count = Math.min(count + 1, DIGESTS_MAX);
    }

    /** Compare the digest that was just written with another one. */
    private int order(int length, byte[] other) {
        for (int i = 0; i < Math.min(length, other.length); i++) {
            if (digest[i] != other[i]) {
                return digest[i] - other[i];
            }
        }
        return length - other.length;
    }
}
