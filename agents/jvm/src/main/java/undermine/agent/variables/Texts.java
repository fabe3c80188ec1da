package undermine.agent.variables;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import undermine.agent.lib.Blake2b;
import undermine.agent.operations.Subject;

/** The texts of values, short enough for a slot. No method of the target's classes is called. */
final class Texts {
    static final int BYTES_MAX = 120;
    static final int SHOWN_MAX = 32;
    private static final int HASH_BYTES = 4;

    /** The names of nodes by address, the longest addresses first. */
    private static volatile List<Map.Entry<String, String>> nodes = Collections.emptyList();

    private Texts() {
    }

    /** Write these addresses of nodes as their names from now on: addresses may differ from run to run. */
    static void nameNodes(Map<String, String> addresses) {
        List<Map.Entry<String, String>> found = new ArrayList<Map.Entry<String, String>>(addresses.entrySet());
        Collections.sort(found, (one, other) -> other.getKey().length() - one.getKey().length());
        nodes = found;
    }

    static String of(Object value) throws ReflectiveOperationException {
        return fitting(of(value, 2));
    }

    /** The text of a value; containers are opened this many levels deep. */
    private static String of(Object value, int depth) throws ReflectiveOperationException {
        Object inner = Items.unwrapped(value);
        String plain = plain(inner);
        if (plain != null) {
            return plain;
        }
        if (inner instanceof byte[]) {
            return ofBytes((byte[]) inner);
        }
        Items items = depth == 0 ? null : Items.of(inner);
        return items == null ? ofClass(inner) : ofItems(items, depth - 1);
    }

    /** The text of null, a text, number, truth value, enum, UUID or address; null for other values. */
    static String plain(Object value) {
        if (value == null || value instanceof String || value instanceof Boolean || value instanceof Character
                || value.getClass() == AtomicBoolean.class || value instanceof UUID) {
            return String.valueOf(value);
        }
        if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        if (value instanceof InetAddress) {
            return ((InetAddress) value).getHostAddress();
        }
        if (value.getClass() == InetSocketAddress.class) {
            InetSocketAddress place = (InetSocketAddress) value;
            InetAddress address = place.getAddress();
            return (address == null ? place.getHostString() : address.getHostAddress()) + ":" + place.getPort();
        }
        boolean isNumber = value instanceof Number && value.getClass().getName().startsWith("java.");
        return isNumber ? value.toString() : null;
    }

    private static String ofBytes(byte[] bytes) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException binary) {
            StringBuilder text = new StringBuilder("0x");
            for (byte each : bytes) {
                text.append(Character.forDigit(each >> 4 & 15, 16)).append(Character.forDigit(each & 15, 16));
            }
            return text.toString();
        }
    }

    /** `[a, b]` for lists, `{a, b}` in order of their texts for sets and the keys of maps. */
    private static String ofItems(Items items, int depth) throws ReflectiveOperationException {
        List<String> texts = new ArrayList<String>();
        int wanted = !items.isUnordered ? SHOWN_MAX : items.isLarge() ? 0 : Items.ITEMS_MAX;
        while (texts.size() < wanted && items.next()) {
            texts.add(of(items.isMap ? items.key : items.value, depth));
        }
        if (items.isUnordered) {
            Collections.sort(texts);
        }
        int shown = Math.min(texts.size(), SHOWN_MAX);
        StringBuilder text = new StringBuilder(items.isUnordered ? "{" : "[");
        for (int i = 0; i < shown; i++) {
            text.append(i == 0 ? "" : ", ").append(texts.get(i));
        }
        if (items.size > SHOWN_MAX) {
            text.append(shown == 0 ? "" : ", ").append('…').append(items.size);
        }
        return text.append(items.isUnordered ? '}' : ']').toString();
    }

    private static String ofClass(Object value) {
        return "<" + className(value.getClass()) + ">";
    }

    /** The name of a class, without package and outer classes. The number of a lambda varies from run to run. */
    static String className(Class<?> type) {
        String name = type.getName();
        int generated = name.indexOf("$$");
        name = generated < 0 ? name : name.substring(0, generated);
        String bare = name.substring(name.lastIndexOf('.') + 1);
        String inner = bare.substring(bare.lastIndexOf('$') + 1);
        boolean isNamed = !inner.isEmpty() && Character.isJavaIdentifierStart(inner.charAt(0));
        return isNamed ? inner : bare.replace('$', '.');
    }

    /** The text with names of nodes, cut between characters if it is too long; then a hash of the whole text follows. */
    static String fitting(String text) {
        String clean = named(text).replace(Subject.CONTENT_MARK, " ");
        byte[] data = clean.length() * 3 <= BYTES_MAX ? null : clean.getBytes(StandardCharsets.UTF_8);
        if (data == null || data.length <= BYTES_MAX) {
            return clean;
        }
        int end = BYTES_MAX - 1 - 2 * HASH_BYTES;
        while ((data[end] & 0xC0) == 0x80) { // not within a character
            end--;
        }
        return new String(data, 0, end, StandardCharsets.UTF_8) + "~" + Blake2b.hex(data, HASH_BYTES);
    }

    /** An address that continues with another digit isn't that node's. */
    private static String named(String text) {
        String found = text;
        for (Map.Entry<String, String> node : text.indexOf(':') < 0 ? Collections.<Map.Entry<String, String>>emptyList() : nodes) {
            int at = found.indexOf(node.getKey());
            while (at >= 0) {
                int end = at + node.getKey().length();
                if (end == found.length() || !Character.isDigit(found.charAt(end))) {
                    found = found.substring(0, at) + node.getValue() + found.substring(end);
                    end = at + node.getValue().length();
                }
                at = found.indexOf(node.getKey(), end);
            }
        }
        return found;
    }
}
