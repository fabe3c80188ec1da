package undermine.agent.weave;

import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.Set;
import org.objectweb.asm.Type;

/**
 * The fields of a JDK class that is being woven. JDKs differ, and woven code that reads a missing field would raise an
 * error in the program.
 */
final class JdkFields {
    private final String owner;
    private final String parent;
    private final Set<String> own = new HashSet<String>();

    JdkFields(String owner, String parent) {
        this.owner = owner;
        this.parent = parent;
    }

    void add(String name, String type) {
        own.add(name + " " + type);
    }

    /** The first field that these hooks need and that is missing; or null. */
    String missing(WovenMethod point) {
        String found = missing(point.entry);
        return found == null && point.end != null ? missing(point.end) : found;
    }

    private String missing(WovenMethod.Hook entry) {
        for (WovenMethod.Argument value : entry.values) {
            if (value.field != null && !has(value)) {
                return value.field;
            }
        }
        return null;
    }

    private boolean has(WovenMethod.Argument value) {
        if (value.owner != null && !value.owner.equals(owner)) {
            return isIn(value.owner, value);
        }
        return own.contains(value.field + " " + value.type) || isIn(parent, value);
    }

    private static boolean isIn(String className, WovenMethod.Argument value) {
        try {
            for (Class<?> type = Class.forName(className.replace('/', '.'), false, null); type != null;
                    type = type.getSuperclass()) {
                for (Field field : type.getDeclaredFields()) {
                    if (field.getName().equals(value.field)) {
                        return Type.getDescriptor(field.getType()).equals(value.type);
                    }
                }
            }
        } catch (ClassNotFoundException absent) {
            return false;
        } catch (LinkageError early) { // it needs the class that is being loaded: unknown for now
            return true;
        }
        return false;
    }
}
