package undermine.agent.operations;

import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import undermine.agent.lib.Blake2b;
import undermine.agent.lib.Json;
import undermine.agent.lib.Utf8;

/**
 * One operation on an external store as a text: its keys and values, and the answer. The text is the resource of the
 * operation. protocol/README.md describes the format. A long value is replaced by a digest, which identifies it when it
 * comes back.
 */
public final class StoreCall {
    static final int ENTRIES_MAX = 20;
    static final int VALUES_MAX = 40;
    static final int PLAIN_MAX = 64;
    static final int BYTES_MAX = 3500;
    static final int DIGEST_SIZE = 6;
    private static final int DEPTH_MAX = 4;
    private static final String HEX = "0123456789abcdef";

    private final String store;
    private final String name;
    private final List<String> keys;
    private final List<String> values;

    public StoreCall(String store, String name, List<String> keys, List<String> values) {
        this.store = store;
        this.name = name;
        this.keys = keys;
        this.values = values;
    }

    /** The request, as the resource of the operation. */
    public String text() {
        return bounded("do", Collections.singletonList(Arrays.<Object>asList(name, keys, values)));
    }

    /** The keys in one text, if they have digits, which the target masks; else nothing. */
    public String content() {
        String text = String.join(" ", keys);
        for (int i = 0; i < text.length(); i++) {
            if (Character.isDigit(text.charAt(i))) {
                return text;
            }
        }
        return "";
    }

    /** The answer, as the resource of the event that follows. Keys and values are paired if there are as many of both. */
    public String textOf(List<String> got) {
        boolean arePairs = keys.size() == got.size() && got.size() > 1;
        List<List<Object>> entries = new ArrayList<List<Object>>();
        for (int i = 0; i < keys.size(); i++) {
            entries.add(Arrays.<Object>asList(keys.get(i), arePairs ? got.subList(i, i + 1) : got));
        }
        return bounded("got", entries);
    }

    /** The JSON text with as many entries as there is room for; `more` if some are left out. */
    private String bounded(String what, List<List<Object>> entries) {
        String begin = "{\"store\":" + Json.write(store);
        int room = BYTES_MAX - begin.length() - 30;
        boolean more = entries.size() > ENTRIES_MAX;
        StringBuilder kept = new StringBuilder();
        for (List<Object> entry : entries.subList(0, Math.min(entries.size(), ENTRIES_MAX))) {
            List<Object> parts = new ArrayList<Object>();
            for (Object part : entry) {
                boolean isCut = part instanceof List && ((List<?>) part).size() > VALUES_MAX;
                more |= isCut;
                parts.add(isCut ? ((List<?>) part).subList(0, VALUES_MAX) : part);
            }
            String text = Json.write(parts);
            room -= text.length() + 1;
            if (room < 0) {
                more = true;
                break;
            }
            kept.append(kept.length() == 0 ? "" : ",").append(text);
        }
        return begin + ",\"" + what + "\":[" + kept + "]" + (more ? ",\"more\":true}" : "}");
    }

    /** Texts of values, also in collections, maps and arrays; at most one more than are kept. */
    public static List<String> shown(Object value) {
        List<String> found = new ArrayList<String>();
        collect(value, found, 0);
        return found;
    }

    private static void collect(Object value, List<String> found, int depth) {
        if (value == null || found.size() > VALUES_MAX || depth > DEPTH_MAX) {
            return;
        }
        if (value instanceof Map) {
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                collect(entry.getKey(), found, depth + 1);
                collect(entry.getValue(), found, depth + 1);
            }
        } else if (value instanceof Collection) {
            for (Object part : (Collection<?>) value) {
                collect(part, found, depth + 1);
            }
        } else if (value.getClass().isArray() && !(value instanceof byte[])) {
            for (int i = 0; i < Array.getLength(value) && found.size() <= VALUES_MAX; i++) {
                collect(Array.get(value, i), found, depth + 1);
            }
        } else {
            found.add(shortened(value));
        }
    }

    /** A key or value as text; a digest of its bytes if it is long. */
    private static String shortened(Object value) {
        byte[] data;
        if (value instanceof byte[]) {
            data = (byte[]) value;
        } else if (value instanceof ByteBuffer) {
            ByteBuffer left = ((ByteBuffer) value).duplicate();
            data = new byte[left.remaining()];
            left.get(data);
        } else {
            data = Utf8.bytes(textOf(value));
        }
        return data.length <= PLAIN_MAX ? decoded(data) : "#" + Blake2b.hex(data, DIGEST_SIZE);
    }

    /** The text of an object; the name of its class if the text would be its identity, which differs in each run. */
    private static String textOf(Object value) {
        if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        try {
            boolean hasText = value.getClass().getMethod("toString").getDeclaringClass() != Object.class;
            return hasText ? value.toString() : value.getClass().getSimpleName();
        } catch (NoSuchMethodException impossible) {
            return value.getClass().getSimpleName();
        }
    }

    /** The text of UTF-8; bytes that are not part of any become `\xNN`. */
    private static String decoded(byte[] data) {
        CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
        ByteBuffer left = ByteBuffer.wrap(data);
        CharBuffer found = CharBuffer.allocate(4 * data.length);
        CoderResult stop = decoder.decode(left, found, true);
        while (stop.isError()) {
            for (int i = 0; i < stop.length(); i++) {
                int wrong = left.get();
                found.put("\\x").put(HEX.charAt(wrong >> 4 & 15)).put(HEX.charAt(wrong & 15));
            }
            stop = decoder.decode(left, found, true);
        }
        found.flip();
        return found.toString();
    }
}
