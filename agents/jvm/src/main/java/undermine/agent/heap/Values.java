package undermine.agent.heap;

import java.net.InetAddress;
import java.net.SocketAddress;
import java.util.UUID;
import undermine.agent.operations.Subject;

/** Texts of small values. Only methods of the JDK's final classes, and of enums, are called. */
final class Values {
    private static final long NUMBER_MAX = 1_000_000;
    private static final int TEXT_MAX = 40;
    /** The place of an unknown key. */
    static final String ANY = "[*]";

    private Values() {
    }

    /** The value as a content: empty unless it is small. */
    static String content(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof String) {
            String text = (String) value;
            return text.length() > TEXT_MAX ? "" : text.replace(Subject.CONTENT_MARK, " ");
        }
        if (value instanceof Integer || value instanceof Long || value instanceof Short || value instanceof Byte) {
            long number = ((Number) value).longValue();
            return Math.abs(number) < NUMBER_MAX ? String.valueOf(number) : "";
        }
        return value instanceof Boolean || value instanceof Character ? value.toString()
                : value instanceof Enum ? ((Enum<?>) value).name() : "";
    }

    /** The place of a key: `['a']`, `[7]`, or `[*]` for objects. */
    static String place(Object key) {
        if (key instanceof String) {
            String text = (String) key;
            return "['" + (text.length() > Subject.CONTENT_MAX ? text.substring(0, Subject.CONTENT_MAX) : text) + "']";
        }
        if (key instanceof Enum) {
            return "[" + ((Enum<?>) key).name() + "]";
        }
        return isPlain(key) ? "[" + key + "]" : ANY;
    }

    private static boolean isPlain(Object key) {
        return key instanceof Integer || key instanceof Long || key instanceof Short || key instanceof Byte
                || key instanceof Boolean || key instanceof Character || key instanceof UUID || key instanceof InetAddress
                || key instanceof SocketAddress && key.getClass().getClassLoader() == null;
    }

    /** A hash that tells keys with different places apart. */
    static int hash(Object key) {
        return key instanceof Enum ? System.identityHashCode(key) : key instanceof String || isPlain(key) ? key.hashCode() : 0;
    }
}
