package undermine.agent;

import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.objectweb.asm.ClassReader;

/** Which class of the JDK a class of the target is made from: as its class file says, for it may not be loaded yet. */
final class Bases {
    private static final int DEPTH_MAX = 20;
    private static final String UNKNOWN = "";
    private final Map<ClassLoader, Map<String, String>> known = new WeakHashMap<ClassLoader, Map<String, String>>();

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
