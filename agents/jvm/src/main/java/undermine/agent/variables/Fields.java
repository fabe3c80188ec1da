package undermine.agent.variables;

import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import undermine.agent.process.ClosedPackages;

/** Finds fields by name, also private and inherited ones. They are stored with their class, so that it can be unloaded. */
final class Fields {
    private static final ClassValue<ConcurrentMap<String, Found>> BY_CLASS = new ClassValue<ConcurrentMap<String, Found>>() {
        @Override
        protected ConcurrentMap<String, Found> computeValue(Class<?> type) {
            return new ConcurrentHashMap<String, Found>();
        }
    };

    private static final ClassValue<Field[]> ALL = new ClassValue<Field[]>() {
        @Override
        protected Field[] computeValue(Class<?> type) {
            return listed(type);
        }
    };

    private Fields() {
    }

    /** All fields of a class and of those above it that may be read, but not those that the compiler has added. */
    static Field[] all(Class<?> type) {
        return ALL.get(type);
    }

    private static Field[] listed(Class<?> type) {
        Map<String, Field> found = new LinkedHashMap<String, Field>();
        for (Class<?> each = type; each != null && each.getClassLoader() != null; each = each.getSuperclass()) {
            for (Field field : declared(each)) {
                boolean isHidden = found.containsKey(field.getName());
                if (!field.isSynthetic() && !isHidden && find(type, field.getName()) != null) {
                    found.put(field.getName(), find(type, field.getName()));
                }
            }
        }
        return found.values().toArray(new Field[0]);
    }

    /** The fields of one class; none if the class of one of them is missing. */
    private static Field[] declared(Class<?> type) {
        try {
            return type.getDeclaredFields();
        } catch (LinkageError missing) {
            return new Field[0];
        }
    }

    /** The field of this name in the class or the nearest one above it; null if there is none, or it may not be read. */
    static Field find(Class<?> type, String name) {
        ConcurrentMap<String, Found> known = BY_CLASS.get(type);
        Found found = known.get(name);
        if (found == null) {
            found = new Found(look(type, name));
            known.put(name, found);
        }
        return found.field;
    }

    private static Field look(Class<?> type, String name) {
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            try {
                return opened(each.getDeclaredField(name));
            } catch (NoSuchFieldException inherited) {
                continue;
            }
        }
        return null;
    }

    /** The field, made readable; null if its module allows that to nobody. */
    private static Field opened(Field field) {
        for (int i = 0; i < 2; i++) {
            try {
                field.setAccessible(true);
                return field;
            } catch (RuntimeException notOpen) {
                if (!ClosedPackages.open(field.getDeclaringClass())) {
                    return null;
                }
            }
        }
        return null;
    }

    /** A field, or that there is none. */
    private static final class Found {
        final Field field;

        Found(Field field) {
            this.field = field;
        }
    }
}
