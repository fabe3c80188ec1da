package undermine.agent.variables;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A path `package:Class.Inner.field.field[key]`. It starts at a static field, once its class is initialised, or at a
 * field of the newest instance of the class; then follow fields, map keys and indexes. `[*]` follows every key, and
 * `[*.id]` names each key by the field `id` of the key or, in a list or set, of the item.
 *
 * After the first class, a word names a nested class if it begins with a capital and isn't all capitals.
 */
final class VariablePath {
    static final int KEYS_MAX = 256;
    private static final String ALL = "*";

    final String className;
    /** The class as the path names it, without the package. */
    final String start;
    /** True if it is one variable for each key. */
    final boolean hasKeys;
    final List<Step> steps = new ArrayList<Step>();

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
                steps.add(keyed(word));
            } else if (steps.isEmpty() && isNestedClass(word)) {
                name.append('$').append(word);
            } else {
                steps.add(new Step(Step.Kind.FIELD, word));
            }
            at = isKey ? end + 1 : end;
        }
        start = name.toString().replace('$', '.');
        className = packageName.isEmpty() ? name.toString() : packageName + "." + name;
        hasKeys = markOwners();
    }

    private static Step keyed(String word) {
        boolean isAll = word.equals(ALL) || word.startsWith(ALL + ".");
        return isAll ? new Step(Step.Kind.ALL, word.substring(Math.min(2, word.length())))
                : new Step(Step.Kind.KEY, unquoted(word));
    }

    /** The owners are the objects that have the last field, and those with a container whose keys are all followed. Returns whether there are such. */
    private boolean markOwners() {
        boolean isNext = true;
        boolean hasAll = false;
        for (int i = steps.size() - 1; i >= 0; i--) {
            if (steps.get(i).kind == Step.Kind.ALL) {
                isNext = true;
                hasAll = true;
            } else if (steps.get(i).kind == Step.Kind.FIELD) {
                steps.get(i).isOfOwner = isNext;
                isNext = false;
            }
        }
        return hasAll;
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

    /** True if this word, right after a class, names a class nested in it. */
    static boolean isNestedClass(String word) {
        boolean hasSmall = false;
        for (int i = 0; i < word.length(); i++) {
            hasSmall |= Character.isLowerCase(word.charAt(i));
        }
        return hasSmall && Character.isUpperCase(word.charAt(0));
    }

    /** Read the texts at the end of the path. They are unknown if the class at which it starts isn't loaded. */
    Reading read(VariableRoot root) throws ReflectiveOperationException {
        Object instance = root.newest();
        Class<?> type = instance == null ? root.type() : instance.getClass();
        if (type == null) {
            return Reading.unknown(hasKeys);
        }
        Reading reading = new Reading(hasKeys);
        Field field = steps.isEmpty() || steps.get(0).kind != Step.Kind.FIELD ? null : Fields.find(type, steps.get(0).name);
        if (field == null) {
            return reading;
        }
        boolean isStatic = Modifier.isStatic(field.getModifiers());
        if (isStatic ? InitialisedClasses.is(field.getDeclaringClass()) : instance != null) {
            Object owner = isStatic ? null : instance;
            reading.look(steps.get(0).isOfOwner, field.getDeclaringClass(), owner);
            walk(field.get(owner), 1, "", reading);
        }
        return reading;
    }

    private void walk(Object value, int at, String key, Reading reading) throws ReflectiveOperationException {
        if (at == steps.size()) {
            reading.put(key, Texts.of(value));
            return;
        }
        Object inner = Items.unwrapped(value);
        if (inner == null) {
            return;
        }
        Step step = steps.get(at);
        if (step.kind == Step.Kind.ALL) {
            for (Map.Entry<String, Object> each : all(inner, step.name).entrySet()) {
                walk(each.getValue(), at + 1, key.isEmpty() ? each.getKey() : key + "," + each.getKey(), reading);
            }
            return;
        }
        if (step.kind == Step.Kind.KEY) {
            Items items = Items.of(inner);
            if (items != null && !(items.isUnordered && items.isLarge()) && items.find(step.name)) {
                walk(items.value, at + 1, key, reading);
            }
            return;
        }
        Field field = Fields.find(inner.getClass(), step.name);
        if (field != null && (!Modifier.isStatic(field.getModifiers()) || InitialisedClasses.is(field.getDeclaringClass()))) {
            reading.look(step.isOfOwner, inner.getClass(), inner);
            walk(field.get(inner), at + 1, key, reading);
        }
    }

    /** The items of a container by the texts of their keys: the first ones, if there are many. */
    static Map<String, Object> all(Object container, String names) throws ReflectiveOperationException {
        TreeMap<String, Object> found = new TreeMap<String, Object>();
        Items items = Items.of(container);
        while (items != null && !items.isLarge() && items.next()) {
            Object named = names.isEmpty() ? items.key : field(items.isMap ? items.key : items.value, names);
            String text = named == null ? null : Texts.plain(Items.unwrapped(named));
            if (text != null) {
                found.put(Texts.fitting(text), items.value);
            }
            if (found.size() > KEYS_MAX) {
                found.pollLastEntry();
            }
        }
        return found;
    }

    /** The field of an object, or of an object in it: `id`, `address.port`; null if there is none. */
    private static Object field(Object object, String names) throws ReflectiveOperationException {
        Object value = object;
        for (String name : names.split("\\.")) {
            value = Items.unwrapped(value);
            Field field = value == null ? null : Fields.find(value.getClass(), name);
            value = field == null || Modifier.isStatic(field.getModifiers()) ? null : field.get(value);
        }
        return value;
    }

    static final class Step {
        enum Kind { FIELD, KEY, ALL }

        final Kind kind;
        /** The field, the key, or the field that names keys (empty: the key itself). */
        final String name;
        /** True if the object with this field owns the variable. */
        boolean isOfOwner;

        Step(Kind kind, String name) {
            this.kind = kind;
            this.name = name;
        }
    }
}
