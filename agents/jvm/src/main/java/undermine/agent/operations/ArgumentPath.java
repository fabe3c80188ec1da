package undermine.agent.operations;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** A path to a value in a method's call: `message.type`, `0`, `this.peer[host]`, `return.size`; or a fixed text. */
public final class ArgumentPath {
    static final String RETURNED = "return";
    private static final String THIS = "this";

    private final String text;
    public final String root;
    private final List<String> way;

    private ArgumentPath(String text, String root, List<String> way) {
        this.text = text;
        this.root = root;
        this.way = way;
    }

    /** Parse a JSON description: a text or an argument; null if it is neither. */
    static ArgumentPath of(Object description) {
        if (!(description instanceof Map)) {
            return null;
        }
        Object text = ((Map<?, ?>) description).get("text");
        if (text instanceof String) {
            return new ArgumentPath((String) text, "", Collections.<String>emptyList());
        }
        Object argument = ((Map<?, ?>) description).get("argument");
        return argument instanceof String ? parse((String) argument) : null;
    }

    /** Parse a list of such descriptions; null is an empty list. */
    static List<ArgumentPath> all(Object descriptions) {
        List<ArgumentPath> found = new ArrayList<ArgumentPath>();
        for (Object each : descriptions instanceof List ? (List<?>) descriptions : Collections.emptyList()) {
            found.add(of(each));
        }
        return found;
    }

    /** Keys in brackets keep their `[`, to tell them from member names. */
    static ArgumentPath parse(String argument) {
        List<String> parts = new ArrayList<String>();
        int at = next(argument, 0);
        String root = argument.substring(0, at);
        while (at < argument.length()) {
            boolean isKey = argument.charAt(at) == '[';
            int stop = isKey ? argument.indexOf(']', at) : next(argument, at + 1);
            if (stop < 0) {
                throw new IllegalArgumentException(argument + " lacks a ]");
            }
            parts.add(isKey ? "[" + unquoted(argument.substring(at + 1, stop)) : argument.substring(at + 1, stop));
            at = isKey ? stop + 1 : stop;
        }
        return new ArgumentPath(null, root, parts);
    }

    private static int next(String text, int from) {
        for (int i = from; i < text.length(); i++) {
            if (text.charAt(i) == '.' || text.charAt(i) == '[') {
                return i;
            }
        }
        return text.length();
    }

    private static String unquoted(String key) {
        boolean isQuoted = key.length() >= 2 && (key.charAt(0) == '"' || key.charAt(0) == '\'');
        return isQuoted ? key.substring(1, key.length() - 1) : key;
    }

    /** The value, or null. `names` are the names of the method's parameters. */
    public Object find(List<String> names, Object self, Object[] arguments, Object result) {
        if (text != null) {
            return text;
        }
        Object value = start(names, self, arguments, result);
        for (int i = 0; i < way.size() && value != null; i++) {
            String step = way.get(i);
            value = step.startsWith("[") ? keyOf(value, step.substring(1)) : memberOf(value, step);
        }
        return value;
    }

    private Object start(List<String> names, Object self, Object[] arguments, Object result) {
        if (root.equals(RETURNED)) {
            return result;
        }
        if (root.equals(THIS)) {
            return self;
        }
        int position = isNumber(root) ? Integer.parseInt(root) : names.indexOf(root);
        return position >= 0 && position < arguments.length ? arguments[position] : null;
    }

    /** True if the method has the argument at which the path starts. */
    public boolean startsIn(List<String> names, int count) {
        if (text != null || root.equals(RETURNED) || root.equals(THIS)) {
            return true;
        }
        return isNumber(root) ? Integer.parseInt(root) < count : names.contains(root);
    }

    private static boolean isNumber(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (text.charAt(i) < '0' || text.charAt(i) > '9') {
                return false;
            }
        }
        return !text.isEmpty() && text.length() < 4;
    }

    private static Object keyOf(Object value, String key) {
        if (value instanceof Map) {
            Object found = ((Map<?, ?>) value).get(key);
            return found == null && isNumber(key) ? ((Map<?, ?>) value).get(Integer.valueOf(key)) : found;
        }
        if (!isNumber(key)) {
            return null;
        }
        int at = Integer.parseInt(key);
        if (value instanceof List) {
            return at < ((List<?>) value).size() ? ((List<?>) value).get(at) : null;
        }
        return value.getClass().isArray() && at < Array.getLength(value) ? Array.get(value, at) : null;
    }

    /** The field of this name, else the result of a method without parameters: `name`, `getName` or `isName`. */
    private static Object memberOf(Object value, String name) {
        for (Class<?> type = value.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(value);
            } catch (NoSuchFieldException next) {
                continue;
            } catch (Exception closed) {
                break; // its module isn't open; its methods may be
            }
        }
        String capital = Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (String candidate : new String[] {name, "get" + capital, "is" + capital}) {
            for (Class<?> type = value.getClass(); type != null; type = type.getSuperclass()) {
                try {
                    Method method = type.getDeclaredMethod(candidate);
                    method.setAccessible(true);
                    return method.invoke(value);
                } catch (Exception next) {
                    continue;
                }
            }
        }
        return null;
    }
}
