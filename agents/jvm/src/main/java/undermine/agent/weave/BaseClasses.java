package undermine.agent.weave;

import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.objectweb.asm.ClassReader;
import undermine.agent.stacks.ClassBytes;

/** Which class of the JDK a class of the target is made from: as its class file says, for it may not be loaded yet. */
public final class BaseClasses {
    private static final int DEPTH_MAX = 20;
    private static final String UNKNOWN = "";
    private final Map<ClassLoader, Map<String, String>> known = new WeakHashMap<ClassLoader, Map<String, String>>();
    private final Map<String, Boolean> serialized = new ConcurrentHashMap<String, Boolean>();

    /** `a/b/C`; nothing if it cannot be found out. */
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
     * Whether what is made from this type may be written to streams. Only of the JDK's own types it is known; they are not loaded for
     * it: what is loaded while another class is woven is never woven itself.
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
