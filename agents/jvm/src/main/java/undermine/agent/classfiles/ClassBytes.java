package undermine.agent.classfiles;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;

/** The class files of the target's classes, in which calls are counted. */
public final class ClassBytes {
    private static final byte[] AGENT = "undermine/agent/".getBytes(StandardCharsets.US_ASCII);
    private static final int KEPT_MAX = 8 << 20;

    private static final Map<ClassLoader, Map<String, byte[]>> KEPT = new WeakHashMap<ClassLoader, Map<String, byte[]>>();
    private static int keptBytes;

    private ClassBytes() {
    }

    /**
     * The weaver reports a class of the target that is being loaded, with its woven bytes. Woven class files are kept,
     * and others while there is room; a class file that isn't kept is read from the class's loader. `name` has slashes.
     */
    public static void loaded(ClassLoader loader, String name, byte[] bytes) {
        synchronized (KEPT) {
            if (loader == null || bytes.length > room() && !isWoven(bytes)) {
                return;
            }
            Map<String, byte[]> kept = KEPT.get(loader);
            if (kept == null) {
                kept = new HashMap<String, byte[]>();
                KEPT.put(loader, kept);
            }
            byte[] before = kept.put(name, bytes);
            keptBytes += bytes.length - (before == null ? 0 : before.length);
        }
    }

    /** True if it names the agent: its calls are at other indexes than in the loader's class file. */
    private static boolean isWoven(byte[] bytes) {
        for (int at = 0; at <= bytes.length - AGENT.length; at++) {
            int same = 0;
            while (same < AGENT.length && bytes[at + same] == AGENT[same]) {
                same++;
            }
            if (same == AGENT.length) {
                return true;
            }
        }
        return false;
    }

    private static int room() {
        if (keptBytes > KEPT_MAX / 2) { // class loaders may have been collected, with their class files
            keptBytes = 0;
            for (Map<String, byte[]> kept : KEPT.values()) {
                for (byte[] bytes : kept.values()) {
                    keptBytes += bytes.length;
                }
            }
        }
        return KEPT_MAX - keptBytes;
    }

    /** The class file of a class; null if none exists, because the class was generated at run time. */
    public static byte[] of(Class<?> type) {
        ClassLoader loader = type.getClassLoader();
        return loader == null ? null : of(loader, type.getName());
    }

    /** The class file that this loader has for the class of this name, or null. */
    public static byte[] of(ClassLoader loader, String className) {
        String name = className.replace('.', '/');
        byte[] kept = kept(loader, name);
        return kept != null ? kept : read(loader, name + ".class");
    }

    private static byte[] kept(ClassLoader loader, String name) {
        synchronized (KEPT) {
            Map<String, byte[]> kept = KEPT.get(loader);
            return kept == null ? null : kept.get(name);
        }
    }

    /** Drop a class file whose calls have been counted. */
    public static void forget(Class<?> type) {
        synchronized (KEPT) {
            Map<String, byte[]> kept = KEPT.get(type.getClassLoader());
            byte[] bytes = kept == null ? null : kept.remove(type.getName().replace('.', '/'));
            keptBytes -= bytes == null ? 0 : bytes.length;
        }
    }

    private static byte[] read(ClassLoader loader, String name) {
        try {
            InputStream stream = loader.getResourceAsStream(name);
            return stream == null ? null : readAll(stream);
        } catch (IOException error) {
            return null;
        } catch (RuntimeException error) { // the target's own loader may throw anything
            return null;
        }
    }

    private static byte[] readAll(InputStream stream) throws IOException {
        try {
            ByteArrayOutputStream found = new ByteArrayOutputStream(1 << 14);
            byte[] part = new byte[1 << 13];
            for (int size = stream.read(part); size >= 0; size = stream.read(part)) {
                found.write(part, 0, size);
            }
            return found.toByteArray();
        } finally {
            stream.close();
        }
    }
}
