package undermine.agent.wire;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * The mapped file that the tool and all agents of a run share.
 *
 * protocol/wire.toml has the same numbers. The compiler could reuse an earlier read from a buffer; reading the volatile field first forbids that.
 */
public final class SharedState {
    public static final int STEPS = 64;
    public static final int STEP_SIZE = 16;
    public static final int ARMED = 1;
    public static final int FIRED = 2;
    public static final int OVER = 3;

    private static final int MAGIC = 0x32534D55; // UMS2
    private static final int GENERATION = 8;
    private static final int HEALED = 12;
    private static final int STACKS = 13;
    private static final int PORTS_OFFSET = 16;
    private static final int VARIABLES_OFFSET = 20;
    private static final int FIRSTS_OFFSET = 24;
    private static final int BOUND = 4;
    private static final int PORTS = 65536;
    private static final int PORT_FACTOR = 40503;
    private static final int SLOT_SIZE = 128;
    private static final int SLOT_TEXT = 6;
    private static final int ABSENT = 0xFFFF;
    private static final int READS_MAX = 1000;

    private final ByteBuffer view;
    private volatile int fence;

    public SharedState(ByteBuffer mapped) {
        view = mapped.duplicate().order(ByteOrder.LITTLE_ENDIAN);
        if (view.capacity() < STEPS || view.getInt(0) != MAGIC) {
            throw new IllegalArgumentException("not a state file");
        }
    }

    public int generation() {
        return word(GENERATION);
    }

    public boolean healed() {
        return one(HEALED) == 1;
    }

    /** How often the tool has asked for stacks, modulo 256. */
    public int stacksAsked() {
        return one(STACKS);
    }

    public boolean hasStep(int step) {
        return step >= 0 && STEPS + STEP_SIZE * (step + 1) <= view.capacity();
    }

    public int stepState(int step) {
        return one(STEPS + STEP_SIZE * step);
    }

    /** True if the effect of this step has ended: its `until` was reached, or everything is healed. */
    public boolean over(int step) {
        return healed() || stepState(step) == OVER;
    }

    /** The process id, or 1 + the index of the node, to which the tool has bound a step; 0: none yet. */
    public int boundTo(int step) {
        return word(STEPS + STEP_SIZE * step + BOUND);
    }

    /** The offset of the flag for the first half of a step's trigger or of its `until`. */
    public int firstAt(int step, boolean isUntil) {
        return STEPS + STEP_SIZE * step + (isUntil ? 2 : 1);
    }

    /** The offset of the same flag for one node alone. */
    public int firstOfNodeAt(int step, boolean isUntil, int node, int nodes) {
        int firsts = word(FIRSTS_OFFSET);
        if (firsts == 0 || node < 0) {
            throw new IllegalArgumentException("the state file has no flags of this node");
        }
        return firsts + (2 * step + (isUntil ? 1 : 0)) * nodes + node;
    }

    /** True if the flag at this offset is set. */
    public boolean flag(int at) {
        return one(at) == 1;
    }

    public void raise(int at) {
        view.put(at, (byte) 1);
        fence = 0;
    }

    // --- which node opened a connection, on a shared loopback

    /** The slot of a connection between two ports: for one caller, each called port has another slot. */
    public static int slotOf(int caller, int called) {
        return caller + called * PORT_FACTOR & PORTS - 1;
    }

    /** The index + 1 of the node that connected from this port, if it owns this slot; else 0. */
    public int callerAt(int slot, int port) {
        int ports = word(PORTS_OFFSET);
        if (ports == 0) {
            return 0;
        }
        int number = one(ports + slot);
        return number != 0 && half(ports + PORTS + 2 * slot) == port ? number : 0;
    }

    public void putCallerAt(int slot, int port, int number) {
        int ports = word(PORTS_OFFSET);
        if (ports != 0) {
            view.putShort(ports + PORTS + 2 * slot, (short) port);
            fence = 0;
            view.put(ports + slot, (byte) number);
            fence = 0;
        }
    }

    // --- variables

    /** The text in a slot, read again until no writer interferes; null if absent. */
    public String text(int slot) {
        int start = word(VARIABLES_OFFSET) + SLOT_SIZE * slot;
        byte[] data = new byte[SLOT_SIZE - SLOT_TEXT];
        for (int i = 0; i < READS_MAX; i++) {
            int version = word(start);
            int length = half(start + 4);
            for (int at = 0; at < Math.min(length, data.length); at++) {
                data[at] = view.get(start + SLOT_TEXT + at);
            }
            if (version == word(start) && (version & 1) == 0) {
                boolean isAbsent = length == ABSENT || version == 0;
                return isAbsent ? null : new String(data, 0, Math.min(length, data.length), StandardCharsets.UTF_8);
            }
        }
        return null;
    }

    /** Write a slot; null: absent. One writer at a time. */
    public void publish(int slot, String text) {
        int start = word(VARIABLES_OFFSET) + SLOT_SIZE * slot;
        byte[] data = text == null ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
        if (data.length > SLOT_SIZE - SLOT_TEXT) {
            throw new IllegalArgumentException("too long for a slot");
        }
        int version = word(start) | 1;
        putWord(start, version);
        view.putShort(start + 4, (short) (text == null ? ABSENT : data.length));
        for (int at = 0; at < data.length; at++) {
            view.put(start + SLOT_TEXT + at, data[at]);
        }
        fence = 0;
        putWord(start, version + 1 == 0 ? 2 : version + 1);
    }

    // --- numbers

    private int one(int at) {
        int now = fence;
        return (view.get(at) & 0xFF) | now;
    }

    private int half(int at) {
        int now = fence;
        return (view.getShort(at) & 0xFFFF) | now;
    }

    private int word(int at) {
        int now = fence;
        return view.getInt(at) | now;
    }

    private void putWord(int at, int value) {
        view.putInt(at, value);
        fence = 0;
    }
}
