package undermine.agent.stacks;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import undermine.agent.classfiles.ConstantPool;
import undermine.agent.lib.Utf8;

/**
 * Reads the methods of a class file, and where their calls are.
 *
 * A call site is named by the ordinal of the call in its method, which changes less often than a line number. A method's
 * code is read when a site in it is first asked for; most methods are never asked for.
 */
public final class CallCounter {
    private static final byte[] AGENT = Utf8.bytes("undermine/agent/");
    /** The package whose methods replace calls of the target; they are counted like those. */
    private static final byte[] INSTEAD = Utf8.bytes("instead/");
    private static final byte[] CODE = Utf8.bytes("Code");
    private static final byte[] LINES = Utf8.bytes("LineNumberTable");
    private static final int SYNTHETIC = 0x1000;
    private static final int WIDE = 0xc4;
    private static final int TABLE_SWITCH = 0xaa;
    private static final int LOOKUP_SWITCH = 0xab;
    private static final int IINC = 0x84;
    /** The size of each instruction in bytes; `?` for those of variable size. */
    private static final String SIZES = ""
        + "11111111111111112323322222111111"
        + "11111111111111111111112222211111"
        + "11111111111111111111111111111111"
        + "11111111111111111111111111111111"
        + "11113111111111111111111113333333"
        + "3333333332??11111133333335532311"
        + "3311?43355";

    private final byte[] bytes;
    private final ConstantPool constants;
    private int at;
    public final List<Method> methods = new ArrayList<Method>();

    /** A method that has code. */
    public static final class Method {
        public final String name;
        public final String descriptor;
        final boolean isSynthetic;
        private final CallCounter owner;
        /** The offset of its code in the class file. */
        private int codeAt;
        private volatile boolean isRead;
        /** The indexes of calls, and of other instructions that may run code: calls of the agent, and those that load a class. */
        private final Ints calls = new Ints();
        private final Ints others = new Ints();
        /** Pairs of the index at which a line's code begins, and the line number. */
        private final Ints lines = new Ints();

        Method(CallCounter owner, String name, String descriptor, boolean isSynthetic) {
            this.owner = owner;
            this.name = name;
            this.descriptor = descriptor;
            this.isSynthetic = isSynthetic;
        }

        private void read() {
            if (!isRead) {
                owner.readCode(this);
            }
        }

        /** The number of calls before this index. */
        public int ordinal(int bci) {
            read();
            int count = 0;
            while (count < calls.size && calls.items[count] < bci) {
                count++;
            }
            return count;
        }

        boolean mayCallAt(int bci) {
            read();
            return calls.has(bci) || others.has(bci);
        }

        /** The index of the line's first call, else of its first instruction; -1 if the line isn't in this method. */
        int bciOfLine(int line) {
            read();
            int found = -1;
            for (int i = 0; i < lines.size; i += 2) {
                if (lines.items[i + 1] == line) {
                    int call = firstCall(lines.items[i], i + 2 < lines.size ? lines.items[i + 2] : Integer.MAX_VALUE);
                    if (call >= 0) {
                        return call;
                    }
                    found = found < 0 ? lines.items[i] : found;
                }
            }
            return found;
        }

        /** The line number at this index; 0 if unknown. */
        public int line(int bci) {
            read();
            int found = 0;
            int start = -1;
            for (int i = 0; i < lines.size; i += 2) {
                if (lines.items[i] <= bci && lines.items[i] >= start) {
                    start = lines.items[i];
                    found = lines.items[i + 1];
                }
            }
            return found;
        }

        private int firstCall(int from, int to) {
            for (int i = 0; i < calls.size && calls.items[i] < to; i++) {
                if (calls.items[i] >= from) {
                    return calls.items[i];
                }
            }
            return -1;
        }
    }

    /** A growing list of integers. */
    private static final class Ints {
        int[] items = new int[8];
        int size;

        void add(int item) {
            if (size == items.length) {
                items = Arrays.copyOf(items, 2 * size);
            }
            items[size++] = item;
        }

        boolean has(int item) {
            for (int i = 0; i < size; i++) {
                if (items[i] == item) {
                    return true;
                }
            }
            return false;
        }
    }

    /** Throws IllegalArgumentException or IndexOutOfBoundsException if this isn't a class file. */
    public CallCounter(byte[] classFile) {
        bytes = classFile;
        constants = new ConstantPool(classFile);
        at = constants.end + 6;
        skip(2 * half());
        skipMembers();
        for (int left = half(); left > 0; left--) {
            readMethod();
        }
    }

    /** The method, or null. */
    public Method method(String name, String descriptor) {
        for (Method method : methods) {
            if (method.name.equals(name) && method.descriptor.equals(descriptor)) {
                return method;
            }
        }
        return null;
    }

    /** The number of methods that may call something at this index; only those with this name, unless it is null. */
    int callersAt(String name, int bci) {
        int count = 0;
        for (Method method : methods) {
            count += (name == null || method.name.equals(name)) && method.mayCallAt(bci) ? 1 : 0;
        }
        return count;
    }

    /** True if the source has several methods of this name. */
    boolean isOverloaded(String name) {
        int count = 0;
        for (Method method : methods) {
            count += method.name.equals(name) && !method.isSynthetic ? 1 : 0;
        }
        return count > 1;
    }

    /** The method of this name that contains this line, or null. */
    Method atLine(String name, int line) {
        for (Method method : methods) {
            if (method.name.equals(name) && method.bciOfLine(line) >= 0) {
                return method;
            }
        }
        return null;
    }

    private void skipMembers() {
        for (int left = half(); left > 0; left--) {
            at += 6;
            for (int attributes = half(); attributes > 0; attributes--) {
                at += 2;
                skip(word());
            }
        }
    }

    private void readMethod() {
        int flags = half();
        Method method = new Method(this, text(half()), text(half()), (flags & SYNTHETIC) != 0);
        for (int left = half(); left > 0; left--) {
            boolean isCode = constants.isText(half(), CODE);
            int size = word();
            int end = at + size;
            if (isCode) {
                method.codeAt = at;
                methods.add(method);
            }
            at = end;
        }
    }

    private synchronized void readCode(Method method) {
        if (method.isRead) {
            return;
        }
        try {
            readCodeAt(method, method.codeAt);
        } catch (IndexOutOfBoundsException broken) { // the JVM would have rejected it
            return;
        } finally {
            method.isRead = true;
        }
    }

    private void readCodeAt(Method method, int codeAt) {
        at = codeAt + 4;
        int size = word();
        int start = at;
        for (int bci = 0; bci < size; bci += sizeAt(start, bci)) {
            note(method, start, bci);
        }
        at = start + size;
        skip(8 * half());
        for (int left = half(); left > 0; left--) {
            boolean isLines = constants.isText(half(), LINES);
            int length = word();
            int end = at + length;
            if (isLines) {
                readLines(method);
            }
            at = end;
        }
    }

    private void readLines(Method method) {
        for (int left = half(); left > 0; left--) {
            method.lines.add(half());
            method.lines.add(half());
        }
    }

    private void note(Method method, int start, int bci) {
        int code = bytes[start + bci] & 0xff;
        if (code >= 0xb6 && code <= 0xba) { // invokevirtual, -special, -static, -interface, -dynamic
            (code == 0xba || !isOfAgent(start + bci + 1) ? method.calls : method.others).add(bci);
        } else if (mayLoad(code)) {
            method.others.add(bci);
        }
    }

    /**
     * True for loads of constants and static fields, creation of objects and arrays, and casts: each may load a class and
     * run its code.
     */
    private static boolean mayLoad(int code) {
        return code >= 0x12 && code <= 0x14
            || code == 0xb2
            || code == 0xb3
            || code == 0xbb
            || code == 0xbd
            || code == 0xc0
            || code == 0xc1
            || code == 0xc5;
    }

    /** True if the weaver added this call: the agent's own calls are not counted. */
    private boolean isOfAgent(int operand) {
        int reference = constants.offset(halfAt(operand));
        int owner = halfAt(constants.offset(halfAt(reference)));
        int name = constants.offset(owner);
        return constants.begins(name, 0, AGENT) && !constants.begins(name, AGENT.length, INSTEAD);
    }

    private int sizeAt(int start, int bci) {
        int code = bytes[start + bci] & 0xff;
        if (code == WIDE) {
            return (bytes[start + bci + 1] & 0xff) == IINC ? 6 : 4;
        }
        if (code != TABLE_SWITCH && code != LOOKUP_SWITCH) {
            return SIZES.charAt(code) - '0';
        }
        int operands = (bci & ~3) + 4; // operands are aligned within the code
        int from = start + operands;
        int entries = code == LOOKUP_SWITCH ? 8 + 8 * wordAt(from + 4) : 12 + 4 * (wordAt(from + 8) - wordAt(from + 4) + 1);
        return operands + entries - bci;
    }

    private String text(int index) {
        int from = constants.offset(index);
        return new String(bytes, from + 2, halfAt(from), StandardCharsets.UTF_8);
    }

    private void skip(int size) {
        at += size;
    }

    private int half() {
        at += 2;
        return halfAt(at - 2);
    }

    private int word() {
        at += 4;
        return wordAt(at - 4);
    }

    private int halfAt(int from) {
        return constants.half(from);
    }

    private int wordAt(int from) {
        return halfAt(from) << 16 | halfAt(from + 2);
    }
}
