package undermine.agent.lib;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes the JSON of the protocol: objects keep their order, integers are Long, all other numbers are Double. */
public final class Json {
    private static final int DEPTH_MAX = 200;
    private static final int LONG_DIGITS_MAX = 20; // with a sign
    private static final String HEX = "0123456789abcdef";

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** Return the value of a JSON text. Throws IllegalArgumentException if the text isn't JSON. */
    public static Object read(String text) {
        Json reader = new Json(text);
        Object value = reader.value();
        if (reader.next() != 0) {
            throw reader.wrong();
        }
        return value;
    }

    /** Return the value as JSON in ASCII, without spaces. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        put(out, value);
        return out.toString();
    }

    private Object value() {
        char first = next();
        if (first == '{') {
            return object();
        }
        if (first == '[') {
            return list();
        }
        if (first == '"') {
            return string();
        }
        if (first == '-' || first >= '0' && first <= '9') {
            return number();
        }
        return word();
    }

    private Map<String, Object> object() {
        enter();
        Map<String, Object> found = new LinkedHashMap<String, Object>();
        while (next() != '}') {
            if (!found.isEmpty()) {
                expect(',');
                next();
            }
            String key = string();
            next();
            expect(':');
            found.put(key, value());
        }
        leave();
        return found;
    }

    private List<Object> list() {
        enter();
        List<Object> found = new ArrayList<Object>();
        while (next() != ']') {
            if (!found.isEmpty()) {
                expect(',');
            }
            found.add(value());
        }
        leave();
        return found;
    }

    private void enter() {
        at++;
        if (++depth > DEPTH_MAX) {
            throw wrong();
        }
    }

    private void leave() {
        at++;
        depth--;
    }

    private String string() {
        expect('"');
        int start = at;
        while (at < text.length() && text.charAt(at) != '"' && text.charAt(at) != '\\') {
            at++;
        }
        if (at < text.length() && text.charAt(at) == '"') {
            return text.substring(start, at++);
        }
        return escaped(new StringBuilder(text.substring(start, at)));
    }

    private String escaped(StringBuilder found) {
        while (at < text.length()) {
            char character = text.charAt(at++);
            if (character == '"') {
                return found.toString();
            }
            found.append(character == '\\' ? escape() : character);
        }
        throw wrong();
    }

    private char escape() {
        char character = at < text.length() ? text.charAt(at++) : 0;
        switch (character) {
            case '"':
            case '\\':
            case '/':
                return character;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                return unicode();
            default:
                throw wrong();
        }
    }

    private char unicode() {
        int code = 0;
        for (int end = at + 4; at < end; at++) {
            int digit = at < text.length() ? Character.digit(text.charAt(at), 16) : -1;
            if (digit < 0) {
                throw wrong();
            }
            code = code << 4 | digit;
        }
        return (char) code;
    }

    private Object number() {
        int start = at;
        boolean whole = true;
        while (at < text.length() && "+-0123456789.eE".indexOf(text.charAt(at)) >= 0) {
            char character = text.charAt(at++);
            whole &= character == '-' || character >= '0' && character <= '9';
        }
        String digits = text.substring(start, at);
        try {
            if (whole && digits.length() <= LONG_DIGITS_MAX) {
                return Long.valueOf(digits);
            }
        } catch (NumberFormatException tooLong) {
            whole = false;
        }
        try {
            return Double.valueOf(digits);
        } catch (NumberFormatException error) {
            throw wrong();
        }
    }

    private Object word() {
        if (text.startsWith("true", at)) {
            at += 4;
            return Boolean.TRUE;
        }
        if (text.startsWith("false", at)) {
            at += 5;
            return Boolean.FALSE;
        }
        if (text.startsWith("null", at)) {
            at += 4;
            return null;
        }
        throw wrong();
    }

    /** Skip spaces and return the next character without consuming it; 0 at the end. */
    private char next() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private void expect(char character) {
        if (at >= text.length() || text.charAt(at) != character) {
            throw wrong();
        }
        at++;
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON at " + at);
    }

    private static void put(StringBuilder out, Object value) {
        if (value instanceof Map) {
            putObject(out, (Map<?, ?>) value);
        } else if (value instanceof Iterable) {
            putList(out, (Iterable<?>) value);
        } else if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(isFinite(value) ? String.valueOf(value) : "null");
        } else {
            putString(out, value.toString());
        }
    }

    private static boolean isFinite(Object value) {
        double number = value instanceof Double || value instanceof Float ? ((Number) value).doubleValue() : 0;
        return !Double.isNaN(number) && !Double.isInfinite(number);
    }

    private static void putObject(StringBuilder out, Map<?, ?> map) {
        char before = '{';
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            out.append(before);
            putString(out, String.valueOf(entry.getKey()));
            out.append(':');
            put(out, entry.getValue());
            before = ',';
        }
        out.append(before == '{' ? "{}" : "}");
    }

    private static void putList(StringBuilder out, Iterable<?> list) {
        char before = '[';
        for (Object item : list) {
            out.append(before);
            put(out, item);
            before = ',';
        }
        out.append(before == '[' ? "[]" : "]");
    }

    private static void putString(StringBuilder out, String string) {
        out.append('"');
        for (int i = 0; i < string.length(); i++) {
            char character = string.charAt(i);
            int escape = "\"\\\b\f\n\r\t".indexOf(character);
            if (escape >= 0) {
                out.append('\\').append("\"\\bfnrt".charAt(escape));
            } else if (character >= ' ' && character <= '~') {
                out.append(character);
            } else {
                putEscaped(out, character);
            }
        }
        out.append('"');
    }

    private static void putEscaped(StringBuilder out, char character) {
        out.append("\\u");
        for (int shift = 12; shift >= 0; shift -= 4) {
            out.append(HEX.charAt(character >> shift & 15));
        }
    }
}
