package undermine.agent.own;

import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.objectweb.asm.ClassReader;
import undermine.agent.classfiles.ClassBytes;

/**
 * Finds the class of the JDK that a class of the target extends. It reads class files, since the class may not be loaded
 * yet.
 */
public final class BaseClasses {
    private static final int DEPTH_MAX = 20;
    private static final String UNKNOWN = "";
    private final Map<ClassLoader, Map<String, String>> known = new WeakHashMap<ClassLoader, Map<String, String>>();
    private final Map<String, Boolean> serialized = new ConcurrentHashMap<String, Boolean>();

    /** The base class as `a/b/C`; empty if unknown. */
    String of(ClassLoader loader, String name) {
        Map<String, String> mine = ofLoader(loader);
        synchronized (mine) {
            String found = mine.get(name);
            if (found != null) {
                return found;
            }
        }
        String found = search(loader, name);
        synchronized (mine) {
            mine.put(name, found);
        }
        return found;
    }

    private synchronized Map<String, String> ofLoader(ClassLoader loader) {
        Map<String, String> found = known.get(loader);
        if (found == null) {
            found = new HashMap<String, String>();
            known.put(loader, found);
        }
        return found;
    }

    /**
     * True if instances may be serialized; false is certain only for types of the JDK. Types are not loaded for this
     * question: a class that is loaded while another one is woven is never woven itself.
     */
    boolean maySerialize(ClassLoader loader, String type) {
        if (!type.startsWith("java/") || type.equals("java/io/Serializable")) {
            return true;
        }
        Boolean found = type.equals("java/lang/Object") ? Boolean.FALSE : serialized.get(type);
        if (found == null) {
            found = isSerializedAbove(loader, type);
            serialized.put(type, found);
        }
        return found;
    }

    private boolean isSerializedAbove(ClassLoader loader, String type) {
        byte[] bytes = ClassBytes.of(loader, type.replace('/', '.'));
        if (bytes == null) {
            return true;
        }
        ClassReader reader = new ClassReader(bytes);
        boolean found = reader.getSuperName() != null && maySerialize(loader, reader.getSuperName());
        for (String each : reader.getInterfaces()) {
            found |= maySerialize(loader, each);
        }
        return found;
    }

    private static String search(ClassLoader loader, String name) {
        String found = name;
        for (int depth = 0; depth < DEPTH_MAX && !found.startsWith("java/"); depth++) {
            byte[] bytes = found.startsWith("[") ? null : ClassBytes.of(loader, found.replace('/', '.'));
            String above = bytes == null ? null : new ClassReader(bytes).getSuperName();
            if (above == null) {
                return UNKNOWN;
            }
            found = above;
        }
        return found;
    }
}
