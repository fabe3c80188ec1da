package undermine.agent.lib;

import java.util.Collections;
import java.util.List;
import java.util.Map;

/** Reads values that came from JSON as the type that is expected there. */
public final class JsonValues {
    private JsonValues() {
    }

    /** An object; empty if the value isn't one. */
    @SuppressWarnings("unchecked")
    public static Map<String, Object> map(Object value) {
        return value instanceof Map ? (Map<String, Object>) value : Collections.<String, Object>emptyMap();
    }

    /** A list; empty if the value isn't one. */
    public static List<?> list(Object value) {
        return value instanceof List ? (List<?>) value : Collections.emptyList();
    }

    /** A text; null if the value isn't one. */
    public static String text(Object value) {
        return value instanceof String ? (String) value : null;
    }

    /** An integer. Throws IllegalArgumentException if the value isn't a number. */
    public static int number(Object value) {
        if (!(value instanceof Number)) {
            throw new IllegalArgumentException("not a number: " + value);
        }
        return ((Number) value).intValue();
    }
}
