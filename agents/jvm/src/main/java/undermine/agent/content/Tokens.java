package undermine.agent.content;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
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
    /** Of texts, and of numbers that are texts. */
    private final Sample texts = new Sample(DIGESTS_MAX);
    private final Sample binary = new Sample(DIGESTS_MAX);

    /** Add the tokens of these bytes; `isStart`: they are the first ones of a buffer. */
    public void add(byte[] bytes, boolean isStart) {
        addRuns(bytes);
        if (isStart) {
            addBinary(bytes, Math.min(bytes.length, BINARY_BYTES));
        }
    }

    /** The digests in ascending order, separated by a space; those of binary numbers only as far as there is room. */
    public String digests() {
        Set<String> sorted = new TreeSet<>(texts.digests());
        for (String each : binary.digests()) {
            if (sorted.size() == DIGESTS_MAX) {
                break;
            }
            sorted.add(each);
        }
        return String.join(" ", sorted);
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
            texts.add(digest, TEXT_DIGEST);
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
        addNumber(number, texts);
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
            addNumber(number, texts);
        }
    }

    // --- binary numbers

    private void addBinary(byte[] bytes, int size) {
        byte[] looked = Arrays.copyOf(bytes, size);
        addBigEndian(looked);
        for (int i = 0, j = size - 1; i < j; i++, j--) {
            byte first = looked[i];
            looked[i] = looked[j];
            looked[j] = first;
        }
        addBigEndian(looked); // read from its end, a little-endian number is a big-endian one
    }

    private void addBigEndian(byte[] bytes) {
        int first = 0;
        for (int i = 0; i < bytes.length; i++) {
            if (bytes[i] != 0) {
                if (first < i) {
                    addBehindZeros(bytes, i, i - first);
                }
                first = i + 1;
            }
        }
    }

    /** Add the numbers that begin in a run of zeros, by the bytes behind it that they end with. */
    private void addBehindZeros(byte[] bytes, int at, int zeros) {
        // 8 bytes from the first zero, or from the last one that is a multiple of 4 bytes after it
        int leading = (zeros - 1) % 4 + 1;
        addBinaryNumber(bytes, at, 8 - leading);
        if (leading == 1) {
            // 4 bytes from the same zero; 8 bytes from an earlier zero are the same number, or too small
            addBinaryNumber(bytes, at, 3);
        }
        if (zeros >= 3 && leading != 3) {
            addBinaryNumber(bytes, at, 5); // 8 bytes from the third-last zero
        }
    }

    private void addBinaryNumber(byte[] bytes, int from, int size) {
        if (bytes.length - from < size) {
            return;
        }
        long number = 0;
        for (int i = from; i < from + size; i++) {
            number = number << 8 | bytes[i] & 0xFF;
        }
        if ((number & 0xFF) != 0 && !(isText(number) && isText(number >> 8))) {
            addNumber(number, binary);
        }
    }

    private static boolean isText(long number) {
        long lowest = number & 0xFF;
        return lowest >= ' ' && lowest <= '~';
    }

    // --- digests

    private void addNumber(long number, Sample sample) {
        if (number < NUMBER_MIN) {
            return;
        }
        int length = (67 - Long.numberOfLeadingZeros(number)) / 4;
        digest[0] = 'n';
        for (int i = 1; i <= length; i++) {
            digest[i] = DIGITS[(int) (number >>> 4 * (length - i)) & 15];
        }
        sample.add(digest, length + 1);
    }
}
