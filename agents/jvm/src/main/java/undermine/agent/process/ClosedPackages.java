package undermine.agent.process;

import java.lang.reflect.Method;

/** Opens packages of the target's own modules to the agent only. By reflection: Java 8 has no modules. */
public final class ClosedPackages {
    private static final Method OPEN = find();

    private ClosedPackages() {
    }

    private static Method find() {
        try {
            Method open = Class.forName("undermine.agent.process.OpenedPackages", true, null)
                    .getDeclaredMethod("openPackageOf", Class.class);
            open.setAccessible(true);
            return open;
        } catch (ReflectiveOperationException | RuntimeException | LinkageError absent) {
            return null;
        }
    }

    /** Open the package of a class; false if that isn't possible. */
    public static boolean open(Class<?> type) {
        try {
            return OPEN != null && (Boolean) OPEN.invoke(null, type);
        } catch (ReflectiveOperationException | RuntimeException refused) {
            return false;
        }
    }
}
