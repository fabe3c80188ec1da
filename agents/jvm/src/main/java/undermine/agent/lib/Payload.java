package undermine.agent.lib;

import java.net.DatagramPacket;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The bytes among the arguments of a method: those that it is given, or those that it has received.
 *
 * The program's own arrays and buffers are never changed by `replace`: the method gets copies. Afterwards `settle` moves
 * the positions of the program's buffers as the method has moved those of the copies.
 */
public final class Payload {
    private final Object[] arguments;
    private final int at;
    /** The data argument as the program gave it. */
    private final Object given;
    /** For a number or text that the method writes: its bytes; else 0. */
    private final int width;
    private final int[] starts;

    private Payload(Object[] arguments, int at, int width) {
        this.arguments = arguments;
        this.at = at;
        this.given = arguments[at];
        this.width = width;
        ByteBuffer[] buffers = buffers(given);
        starts = new int[buffers.length];
        for (int i = 0; i < starts.length; i++) {
            starts[i] = buffers[i] == null ? 0 : buffers[i].position();
        }
    }

    /** The last argument that consists of bytes; null if there is none. */
    public static Payload of(Object[] arguments) {
        for (int i = arguments.length - 1; i >= 0; i--) {
            Object each = arguments[i];
            if (each instanceof byte[] || each instanceof ByteBuffer || each instanceof ByteBuffer[]
                    || each instanceof DatagramPacket) {
                return new Payload(arguments, i, 0);
            }
        }
        return null;
    }

    /** The same; or the only argument, a number or text that the method writes as `size` bytes. */
    public static Payload of(Object[] arguments, long size) {
        Payload found = of(arguments);
        return found == null && arguments.length == 1 && arguments[0] != null ? new Payload(arguments, 0, (int) size) : found;
    }

    /** A copy of the bytes that the method is given. */
    public byte[] bytes() {
        if (given instanceof Number) {
            return ofNumber(((Number) given).longValue());
        }
        if (given instanceof String) {
            return ofText((String) given);
        }
        byte[] found = new byte[(int) room()];
        copy(found, 0, true);
        return found;
    }

    /** A copy of the first `count` bytes that the method has received. */
    public byte[] received(long count) {
        byte[] found = new byte[(int) count];
        copy(found, 0, true);
        return found;
    }

    /** A copy of `size` of the bytes that the method has moved, from number `from` on. */
    public byte[] part(long from, int size) {
        if (given instanceof Number || given instanceof String) {
            return Arrays.copyOfRange(bytes(), (int) from, (int) from + size);
        }
        byte[] found = new byte[size];
        copy(found, from, true);
        return found;
    }

    /** Put other bytes in the place of those that were received. */
    public void put(byte[] bytes) {
        copy(bytes, 0, false);
    }

    /** Let the method get these bytes instead, as many as before. */
    public void replace(byte[] bytes) {
        arguments[at] = instead(bytes);
    }

    private Object instead(byte[] bytes) {
        if (given instanceof Long) {
            return numberOf(bytes);
        }
        if (given instanceof Integer) {
            return (int) numberOf(bytes);
        }
        if (given instanceof String) {
            return textOf(bytes, width / ((String) given).length());
        }
        if (given instanceof byte[]) {
            byte[] copy = ((byte[]) given).clone();
            System.arraycopy(bytes, 0, copy, offset(), bytes.length);
            return copy;
        }
        if (given instanceof DatagramPacket) {
            DatagramPacket packet = (DatagramPacket) given;
            DatagramPacket copy = new DatagramPacket(bytes, bytes.length);
            if (packet.getAddress() != null) {
                copy.setAddress(packet.getAddress());
                copy.setPort(packet.getPort());
            }
            return copy;
        }
        return given instanceof ByteBuffer ? copyOf((ByteBuffer) given, bytes, 0) : copies(bytes);
    }

    private static ByteBuffer copyOf(ByteBuffer buffer, byte[] bytes, int from) {
        ByteBuffer copy = ByteBuffer.allocate(buffer.remaining()).order(buffer.order());
        copy.put(bytes, from, buffer.remaining());
        copy.flip();
        return copy;
    }

    private ByteBuffer[] copies(byte[] bytes) {
        ByteBuffer[] all = ((ByteBuffer[]) given).clone();
        int from = 0;
        for (int i = offset(); i < offset() + length(); i++) {
            ByteBuffer copy = copyOf(all[i], bytes, from);
            from += copy.remaining();
            all[i] = copy;
        }
        return all;
    }

    /** The method has ended. */
    public void settle() {
        if (arguments[at] == given) {
            return;
        }
        ByteBuffer[] own = buffers(given);
        ByteBuffer[] copies = buffers(arguments[at]);
        for (int i = isMany() ? offset() : 0; i < (isMany() ? offset() + length() : own.length); i++) {
            own[i].position(starts[i] + copies[i].position());
        }
    }

    // --- where the bytes are

    private boolean isMany() {
        return given instanceof ByteBuffer[];
    }

    private static ByteBuffer[] buffers(Object data) {
        return data instanceof ByteBuffer[] ? (ByteBuffer[]) data
                : data instanceof ByteBuffer ? new ByteBuffer[] {(ByteBuffer) data} : new ByteBuffer[0];
    }

    /** True if a position and a length follow, which say what part of the array is meant. */
    private boolean isPart() {
        return at + 2 < arguments.length && arguments[at + 1] instanceof Integer && arguments[at + 2] instanceof Integer;
    }

    private int offset() {
        return isPart() ? (Integer) arguments[at + 1] : 0;
    }

    private int length() {
        return isPart() ? (Integer) arguments[at + 2] : given instanceof byte[] ? ((byte[]) given).length : starts.length;
    }

    private long room() {
        if (given instanceof byte[]) {
            return length();
        }
        if (given instanceof DatagramPacket) {
            return ((DatagramPacket) given).getLength();
        }
        return isMany() ? Buffers.remaining(given, offset(), length()) : ((ByteBuffer) given).remaining();
    }

    /** Copy between the program's arrays or buffers, `skipped` bytes behind where the method began, and these bytes. */
    private void copy(byte[] bytes, long skipped, boolean isOut) {
        if (given instanceof byte[]) {
            copy((byte[]) given, offset() + (int) skipped, bytes, isOut);
        } else if (given instanceof DatagramPacket) {
            DatagramPacket packet = (DatagramPacket) given;
            copy(packet.getData(), packet.getOffset() + (int) skipped, bytes, isOut);
        } else {
            ByteBuffer[] own = buffers(given);
            int done = 0;
            long before = skipped;
            for (int i = isMany() ? offset() : 0; done < bytes.length; i++) {
                ByteBuffer view = own[i].duplicate();
                view.position(starts[i]);
                int passed = (int) Math.min(before, view.remaining());
                before -= passed;
                view.position(starts[i] + passed);
                int count = Math.min(bytes.length - done, view.remaining());
                if (isOut) {
                    view.get(bytes, done, count);
                } else {
                    view.put(bytes, done, count);
                }
                done += count;
            }
        }
    }

    private static void copy(byte[] own, int from, byte[] bytes, boolean isOut) {
        System.arraycopy(isOut ? own : bytes, isOut ? from : 0, isOut ? bytes : own, isOut ? 0 : from, bytes.length);
    }

    // --- numbers and texts, as RandomAccessFile writes them

    private byte[] ofNumber(long number) {
        byte[] bytes = new byte[width];
        for (int i = 0; i < width; i++) {
            bytes[i] = (byte) (number >>> 8 * (width - 1 - i));
        }
        return bytes;
    }

    private static long numberOf(byte[] bytes) {
        long number = 0;
        for (byte each : bytes) {
            number = number << 8 | each & 0xFF;
        }
        return number;
    }

    /** One or two bytes for each character. */
    private byte[] ofText(String text) {
        byte[] bytes = new byte[width];
        int each = text.isEmpty() ? 1 : width / text.length();
        for (int i = 0; i < width; i++) {
            bytes[i] = (byte) (text.charAt(i / each) >>> 8 * (each - 1 - i % each));
        }
        return bytes;
    }

    private static String textOf(byte[] bytes, int each) {
        char[] found = new char[bytes.length / each];
        for (int i = 0; i < bytes.length; i++) {
            found[i / each] = (char) (found[i / each] << 8 | bytes[i] & 0xFF);
        }
        return new String(found);
    }
}
