package undermine.agent.process;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import java.util.Set;

/**
 * The helper in C, where the tool could build it: dying at once, and a clock that no library fakes.
 *
 * Optional. Without it the JDK's own way to kill a process is used, which nobody but the JDK may call: the package
 * `java.lang` is opened to us alone.
 */
public final class NativeHelper {
    private static final String FILE = "undermine_jvm.so";
    /** From this version on the JDK prints a warning when code loads a library by the public method. */
    private static final int WARNS = 24;
    private static volatile boolean loaded;
    private static volatile Method kill;
    private static volatile String folder = "";
    private static volatile Instrumentation instrumentation;

    private NativeHelper() {
    }

    /** True if the methods in C may be called. */
    public static boolean isLoaded() {
        return loaded;
    }

    /**
     * Where the helper is. It is loaded when it is needed, for that costs time: now if a library fakes the clock, else
     * when this process may have to die.
     */
    public static void prepare(String acceleratorFolder, Instrumentation ofAgent) {
        folder = acceleratorFolder;
        instrumentation = ofAgent;
        String preloaded = System.getenv("LD_PRELOAD");
        if (preloaded != null && preloaded.contains("faketime")) {
            load();
        }
    }

    /** Make ready to kill. Returns what is wrong with a helper that is there, or an empty text. Prints nothing. */
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

    /** Why there is no helper, or an empty text: for the introduction, without loading it. */
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

    /** By the method behind System.load. */
    private static void loadUnseen(String path) throws ReflectiveOperationException {
        open();
        Method load = Runtime.class.getDeclaredMethod("load0", Class.class, String.class);
        load.setAccessible(true);
        load.invoke(Runtime.getRuntime(), NativeHelper.class, path);
    }

    /** Open `java.lang` to our own module, and to no other. There are no modules in what this is compiled for. */
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
            found.invoke(null, (long) Integer.MAX_VALUE, 1L, true); // nobody's number: the first call takes long
            kill = found;
        } catch (ReflectiveOperationException | RuntimeException | LinkageError absent) {
            kill = null;
        }
    }

    /** SIGKILL to a process or, if the number is negative, to a group; nothing happens where that cannot be done. */
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

    /** The number of the JDK: 8 for 1.8. */
    public static int version() {
        String text = System.getProperty("java.specification.version", "8");
        try {
            return Integer.parseInt(text.startsWith("1.") ? text.substring(2) : text);
        } catch (NumberFormatException unknown) {
            return WARNS;
        }
    }

    /** CLOCK_MONOTONIC in nanoseconds, asked of the kernel itself. */
    static native long clock();

    /** SIGUSR1 to the keeper, `1` into the kill file of the cgroup, SIGKILL to the group if it is ours, and to ourselves. */
    static native void die(int keeper, int group, byte[] killFile);
}
