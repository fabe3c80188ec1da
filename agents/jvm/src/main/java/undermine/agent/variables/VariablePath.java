package undermine.agent.variables;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A path `package:Class.Inner.field.field[key]`. It starts at a static field, once its class is initialised, or at a
 * field of the newest instance of the class; then follow fields, map keys and indexes.
 *
 * After the first class, a word names a nested class if it begins with a capital and isn't all capitals.
 */
final class VariablePath {
    /** The variable doesn't exist now. */
    static final class Absent extends Exception {
        private static final long serialVersionUID = 1L;

        Absent() {
            super("absent", null, false, false);
        }
    }

    final String className;
    private final List<String> steps = new ArrayList<String>(); // a field's name, or `[` and a key

    VariablePath(String path) {
        int colon = path == null ? -1 : path.indexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("not a path of a variable: " + path);
        }
        String packageName = path.substring(0, colon);
        int at = wordEnd(path, colon + 1);
        StringBuilder name = new StringBuilder(path.substring(colon + 1, at));
        while (at < path.length()) {
            boolean isKey = path.charAt(at) == '[';
            int end = isKey ? path.indexOf(']', at) : wordEnd(path, at + 1);
            if (end < 0) {
                throw new IllegalArgumentException("not a path of a variable: " + path);
            }
            String word = path.substring(at + 1, end);
            if (isKey) {
                steps.add("[" + unquoted(word));
            } else if (steps.isEmpty() && isNestedClass(word)) {
                name.append('$').append(word);
            } else {
                steps.add(word);
            }
            at = isKey ? end + 1 : end;
        }
        className = packageName.isEmpty() ? name.toString() : packageName + "." + name;
    }

    private static int wordEnd(String path, int at) {
        int end = at;
        while (end < path.length() && path.charAt(end) != '.' && path.charAt(end) != '[') {
            end++;
        }
        if (end == at) {
            throw new IllegalArgumentException("not a path of a variable: " + path);
        }
        return end;
    }

    private static String unquoted(String key) {
        boolean isQuoted = key.length() > 1 && (key.charAt(0) == '"' || key.charAt(0) == '\'')
                && key.charAt(key.length() - 1) == key.charAt(0);
        return isQuoted ? key.substring(1, key.length() - 1) : key;
    }

    private static boolean isNestedClass(String word) {
        boolean hasSmall = false;
        for (int i = 0; i < word.length(); i++) {
            hasSmall |= Character.isLowerCase(word.charAt(i));
        }
        return hasSmall && Character.isUpperCase(word.charAt(0));
    }

    /** The value at the end of the path. */
    Object read(VariableRoot root) throws Absent, ReflectiveOperationException {
        if (steps.isEmpty()) {
            throw new Absent();
        }
        Object value = start(root, steps.get(0));
        for (int i = 1; i < steps.size(); i++) {
            value = step(unwrapped(value), steps.get(i));
        }
        return value;
    }

    private static Object start(VariableRoot root, String name) throws Absent, ReflectiveOperationException {
        Object instance = root.newest();
        Class<?> type = instance == null ? root.type() : instance.getClass();
        if (type == null) {
            throw new Absent();
        }
        Field field = field(type, name);
        boolean isStatic = Modifier.isStatic(field.getModifiers());
        if (isStatic ? !InitialisedClasses.is(field.getDeclaringClass()) : instance == null) {
            throw new Absent();
        }
        return field.get(isStatic ? null : instance);
    }

    private static Object step(Object value, String step) throws Absent, ReflectiveOperationException {
        if (value == null) {
            throw new Absent();
        }
        return step.startsWith("[") ? item(value, step.substring(1)) : field(value.getClass(), step).get(value);
    }

    private static Field field(Class<?> type, String name) throws Absent {
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            try {
                Field field = each.getDeclaredField(name);
                field.setAccessible(true);
                return field;
            } catch (NoSuchFieldException inherited) {
                continue;
            }
        }
        throw new Absent();
    }

    /** The item with this key as text or, if there is none, as a number. */
    private static Object item(Object value, String key) throws Absent {
        if (value instanceof Map) {
            return entry((Map<?, ?>) value, key);
        }
        int index;
        try {
            index = Integer.parseInt(key);
        } catch (NumberFormatException noIndex) {
            throw new Absent();
        }
        boolean isArray = value.getClass().isArray();
        int size = value instanceof List ? ((List<?>) value).size() : isArray ? Array.getLength(value) : 0;
        int at = index < 0 ? index + size : index;
        if (at < 0 || at >= size) {
            throw new Absent();
        }
        return value instanceof List ? ((List<?>) value).get(at) : Array.get(value, at);
    }

    private static Object entry(Map<?, ?> map, String key) throws Absent {
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            Object each = entry.getKey();
            boolean isNamed = each instanceof String || each instanceof Number || each instanceof Enum;
            if (isNamed && key.equals(each instanceof Enum ? ((Enum<?>) each).name() : each.toString())) {
                return entry.getValue();
            }
        }
        throw new Absent();
    }

    static Object unwrapped(Object value) {
        return value instanceof AtomicReference ? ((AtomicReference<?>) value).get() : value;
    }
}
