package undermine.agent.classfiles;

/** The constant pool of a class file: the offset and the kind of each constant. */
public final class ConstantPool {
    private static final int START = 10;
    private static final int TEXT = 1;

    private final byte[] bytes;
    private final int[] offsets;
    private final byte[] kinds;
    /** The offset of the rest of the class file. */
    public final int end;

    /** Throws IllegalArgumentException or IndexOutOfBoundsException if this isn't a class file. */
    public ConstantPool(byte[] classFile) {
        bytes = classFile;
        if (half(0) != 0xCAFE || half(2) != 0xBABE) {
            throw new IllegalArgumentException("not a class file");
        }
        int count = half(START - 2);
        offsets = new int[count];
        kinds = new byte[count];
        int at = START;
        for (int i = 1; i < count; i++) {
            byte kind = bytes[at++];
            offsets[i] = at;
            kinds[i] = kind;
            if (kind == TEXT) {
                at += 2 + half(at);
            } else if (kind == 5 || kind == 6) {
                at += 8;
                i++; // these take two entries
            } else if (kind == 15) {
                at += 3;
            } else {
                at += kind == 7 || kind == 8 || kind == 16 || kind == 19 || kind == 20 ? 2 : 4;
            }
        }
        end = at;
    }

    /** The offset of the constant with this number. */
    public int offset(int number) {
        return offsets[number];
    }

    public boolean isText(int number, byte[] expected) {
        return kinds[number] == TEXT && half(offsets[number]) == expected.length && begins(offsets[number] + 2, expected);
    }

    /** True if one of the constants is this text. */
    public boolean has(byte[] expected) {
        for (int number = 1; number < kinds.length; number++) {
            if (isText(number, expected)) {
                return true;
            }
        }
        return false;
    }

    /** True if the text at `offset`, without its first `behind` bytes, begins with `expected`. */
    public boolean begins(int offset, int behind, byte[] expected) {
        return half(offset) - behind >= expected.length && begins(offset + 2 + behind, expected);
    }

    private boolean begins(int from, byte[] expected) {
        for (int i = 0; i < expected.length; i++) {
            if (bytes[from + i] != expected[i]) {
                return false;
            }
        }
        return true;
    }

    public int half(int from) {
        return (bytes[from] & 0xff) << 8 | bytes[from + 1] & 0xff;
    }
}
