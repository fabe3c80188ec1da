package undermine.agent.process;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import java.util.Set;

/**
 * The native helper in C: a way to die at once, and a clock that no library can fake.
 *
 * It is optional. Without it the agent kills by a private method of the JDK, for which it opens the package `java.lang`
 * to itself.
 */
public final class NativeHelper {
    private static final String FILE = "undermine_jvm.so";
    /** From this version on, System.load prints a warning. */
    private static final int WARNS = 24;
    private static volatile boolean loaded;
    private static volatile Method kill;
    private static volatile String folder = "";
    private static volatile Instrumentation instrumentation;

    private NativeHelper() {
    }

    /** True if the native methods may be called. */
    public static boolean isLoaded() {
        return loaded;
    }

    /**
     * Remember where the helper is. Loading it takes time, so that happens now only if a library fakes the clock;
     * otherwise it happens before this process may have to die.
     */
    public static void prepare(String acceleratorFolder, Instrumentation ofAgent) {
        folder = acceleratorFolder;
        instrumentation = ofAgent;
        String preloaded = System.getenv("LD_PRELOAD");
        if (preloaded != null && preloaded.contains("faketime")) {
            load();
        }
    }

    /**
     * Load the helper, or else find the JDK's way to kill. Returns why an existing helper can't be loaded, or an empty
     * text.
     */
    public static synchronized String load() {
        if (loaded || kill != null || instrumentation == null) {
            return "";
        }
        String trouble = tryToLoad();
        if (!loaded) {
            findKill();
        }
        return trouble;
    }

    /** Why there is no helper; an empty text if there is one. Doesn't load it. */
    public static String whyNot() {
        return isBuilt() ? "" : "the native helper was not built";
    }

    private static boolean isBuilt() {
        return !folder.isEmpty() && new File(folder, FILE).isFile();
    }

    private static String tryToLoad() {
        if (!isBuilt()) {
            return "";
        }
        String path = folder + "/" + FILE;
        try {
            if (version() < WARNS) {
                System.load(path);
            } else {
                loadUnseen(path);
            }
            loaded = clock() > 0;
            return loaded ? "" : "the native helper has no clock";
        } catch (InvocationTargetException trouble) {
            return "the native helper cannot be loaded: " + trouble.getCause();
        } catch (ReflectiveOperationException | RuntimeException | LinkageError trouble) {
            return "the native helper cannot be loaded: " + trouble;
        }
    }

    /** Load the helper with the private method behind System.load, which prints no warning. */
    private static void loadUnseen(String path) throws ReflectiveOperationException {
        open();
        Method load = Runtime.class.getDeclaredMethod("load0", Class.class, String.class);
        load.setAccessible(true);
        load.invoke(Runtime.getRuntime(), NativeHelper.class, path);
    }

    /** Open `java.lang` to the agent's own module only. By reflection: Java 8 has no modules. */
    private static void open() throws ReflectiveOperationException {
        Method moduleOf = Class.class.getMethod("getModule");
        Object base = moduleOf.invoke(Object.class);
        Set<?> own = Collections.singleton(moduleOf.invoke(NativeHelper.class));
        Method redefine = Instrumentation.class.getMethod("redefineModule",
                Class.forName("java.lang.Module"), Set.class, Map.class, Map.class, Set.class, Map.class);
        redefine.invoke(instrumentation, base, Collections.emptySet(), Collections.emptyMap(),
                Collections.singletonMap("java.lang", own), Collections.emptySet(), Collections.emptyMap());
    }

    private static void findKill() {
        try {
            open();
            Method found = Class.forName("java.lang.ProcessHandleImpl")
                    .getDeclaredMethod("destroy0", long.class, long.class, boolean.class);
            found.setAccessible(true);
            found.invoke(null, (long) Integer.MAX_VALUE, 1L, true); // a pid that nobody has: the first call is slow
            kill = found;
        } catch (ReflectiveOperationException | RuntimeException | LinkageError absent) {
            kill = null;
        }
    }

    /**
     * Send SIGKILL to a process or, if `pid` is negative, to a process group. Does nothing if the JDK has no such method.
     */
    static void kill(long pid) {
        Method found = kill;
        try {
            if (found != null) {
                found.invoke(null, pid, 0L, true);
            }
        } catch (ReflectiveOperationException | RuntimeException impossible) {
            kill = null;
        }
    }

    /** The version of the JDK; 8 for 1.8. */
    public static int version() {
        String text = System.getProperty("java.specification.version", "8");
        try {
            return Integer.parseInt(text.startsWith("1.") ? text.substring(2) : text);
        } catch (NumberFormatException unknown) {
            return WARNS;
        }
    }

    /** CLOCK_MONOTONIC in nanoseconds, from the kernel. */
    static native long clock();

    /**
     * Send SIGUSR1 to the keeper, write `1` to the cgroup's kill file, then send SIGKILL to our process group and to
     * ourselves.
     */
    static native void die(int keeper, int group, byte[] killFile);
}
