package undermine.agent.variables;

import java.lang.reflect.Field;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/** Finds fields by name, also private and inherited ones. They are stored with their class, so that it can be unloaded. */
final class Fields {
    private static final ClassValue<ConcurrentMap<String, Found>> BY_CLASS = new ClassValue<ConcurrentMap<String, Found>>() {
        @Override
        protected ConcurrentMap<String, Found> computeValue(Class<?> type) {
            return new ConcurrentHashMap<String, Found>();
        }
    };

    private Fields() {
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
                Field field = each.getDeclaredField(name);
                field.setAccessible(true);
                return field;
            } catch (NoSuchFieldException inherited) {
                continue;
            } catch (RuntimeException notOpen) {
                return null;
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
