package undermine.agent.variables;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Follows a path and says which part of it leads nowhere. */
final class Reasons {
    private static final int LENGTH_MAX = 400;
    private static final int NEAREST_MAX = 3;
    private static final int CONTAINED_MIN = 3;
    private static final int DISTANCE_MAX = 2;

    /** The part of the path that was followed, and the value that it leads to. */
    private String where;
    private Object value;

    private Reasons(String where) {
        this.where = where;
    }

    /** The first part of the path that leads nowhere; empty if the whole path leads somewhere. */
    static String whyNothing(VariablePath path, VariableRoot root) {
        try {
            String why = new Reasons(path.start).why(path, root);
            return why.length() <= LENGTH_MAX ? why : why.substring(0, LENGTH_MAX) + "…";
        } catch (ReflectiveOperationException | LinkageError | StackOverflowError trouble) {
            return "it cannot be read: " + Texts.className(trouble.getClass());
        } catch (RuntimeException changing) { // the next reading may say why
            return "";
        }
    }

    private String why(VariablePath path, VariableRoot root) throws ReflectiveOperationException {
        Object instance = root.newest();
        Class<?> type = instance == null ? root.type() : instance.getClass();
        if (type == null) {
            return "the class " + path.className.replace('$', '.') + " isn't loaded";
        }
        if (path.steps.isEmpty() || path.steps.get(0).kind != VariablePath.Step.Kind.FIELD) {
            return "the path names no field of the class " + where;
        }
        String why = throughField(type, instance, path.steps.get(0).name);
        for (int i = 1; i < path.steps.size() && why.isEmpty(); i++) {
            VariablePath.Step step = path.steps.get(i);
            Object owner = Items.unwrapped(value);
            why = owner == null ? where + " is null"
                    : step.kind == VariablePath.Step.Kind.FIELD ? throughField(owner.getClass(), owner, step.name)
                    : throughContainer(owner, step);
        }
        return why;
    }

    /** Go to the value of a field; returns why there is none, or an empty text. */
    private String throughField(Class<?> type, Object owner, String name) throws ReflectiveOperationException {
        Field field = Fields.find(type, name);
        if (field == null) {
            return noField(type, name);
        }
        boolean isStatic = Modifier.isStatic(field.getModifiers());
        if (isStatic && !InitialisedClasses.is(field.getDeclaringClass())) {
            return "the class " + Texts.className(field.getDeclaringClass()) + " isn't initialised";
        }
        if (!isStatic && owner == null) {
            return "the class " + where + " has no instance";
        }
        where += "." + name;
        value = field.get(owner);
        return "";
    }

    private String throughContainer(Object container, VariablePath.Step step) throws ReflectiveOperationException {
        boolean isAll = step.kind == VariablePath.Step.Kind.ALL;
        String called = called(container.getClass());
        Items items = Items.of(container);
        if (items == null) {
            boolean isClosed = container instanceof Map || container instanceof Collection;
            return called + (isClosed ? " is a container that is never opened" : " isn't a map, list or set");
        }
        if (items.isLarge() && (items.isUnordered || isAll)) {
            return called + " has more than " + Items.ITEMS_MAX + " elements";
        }
        if (!isAll) {
            boolean isThere = items.find(step.name);
            where += "[" + step.name + "]";
            value = items.value;
            return isThere ? "" : called + " has no key " + step.name;
        }
        Map<String, Object> all = VariablePath.all(container, step.name);
        if (all.isEmpty()) {
            return called + " has no element" + (items.size == 0 ? "" : " with a plain key");
        }
        Map.Entry<String, Object> one = all.entrySet().iterator().next();
        where += "[" + one.getKey() + "]";
        value = one.getValue();
        return "";
    }

    private String called(Class<?> type) {
        return where + " (" + Texts.className(type) + ")";
    }

    private String noField(Class<?> type, final String wanted) {
        List<String> near = new ArrayList<String>();
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (field.getName().equals(wanted)) {
                    return called(type) + " has the field " + wanted + ", but its module isn't open";
                }
                if (!field.isSynthetic() && isNear(field.getName(), wanted)) {
                    near.add(field.getName());
                }
            }
        }
        Collections.sort(near, new Comparator<String>() {
            @Override
            public int compare(String one, String other) {
                return distance(one, wanted) - distance(other, wanted);
            }
        });
        String nearest = String.join(", ", near.subList(0, Math.min(NEAREST_MAX, near.size())));
        return called(type) + " has no field " + wanted + (nearest.isEmpty() ? "" : " (but " + nearest + ")");
    }

    /** True if one name contains the other, or few letters differ. */
    private static boolean isNear(String one, String other) {
        String mine = one.toLowerCase(Locale.ROOT);
        String theirs = other.toLowerCase(Locale.ROOT);
        int shorter = Math.min(mine.length(), theirs.length());
        boolean isWithin = shorter >= CONTAINED_MIN && (mine.contains(theirs) || theirs.contains(mine));
        return isWithin || distance(mine, theirs) <= Math.min(DISTANCE_MAX, shorter / 3);
    }

    /** The number of letters that must be added, removed or changed. */
    private static int distance(String one, String other) {
        int[] row = new int[other.length() + 1];
        for (int j = 0; j < row.length; j++) {
            row[j] = j;
        }
        for (int i = 1; i <= one.length(); i++) {
            int corner = row[0];
            row[0] = i;
            for (int j = 1; j < row.length; j++) {
                int changed = corner + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
                corner = row[j];
                row[j] = Math.min(changed, 1 + Math.min(row[j], row[j - 1]));
            }
        }
        return row[other.length()];
    }
}
