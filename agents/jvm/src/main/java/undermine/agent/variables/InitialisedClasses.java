package undermine.agent.variables;

import java.lang.reflect.Method;

/**
 * Tells whether a class of the target has been initialised. Reading a static field would initialise it: too early, or
 * while another thread is about to do it and would have to be waited for. If the JVM can't tell, the answer is true.
 */
final class InitialisedClasses {
    private static final Object UNSAFE;
    private static final Method SHOULD_BE;

    static {
        Object unsafe = null;
        Method shouldBe = null;
        try {
            Class<?> type = Class.forName("jdk.internal.misc.Unsafe", true, null);
            Method get = type.getDeclaredMethod("getUnsafe");
            get.setAccessible(true);
            unsafe = get.invoke(null);
            shouldBe = type.getDeclaredMethod("shouldBeInitialized", Class.class);
            shouldBe.setAccessible(true);
        } catch (ReflectiveOperationException | RuntimeException notOpen) {
            shouldBe = null;
        }
        UNSAFE = unsafe;
        SHOULD_BE = shouldBe;
    }

    private InitialisedClasses() {
    }

    static boolean is(Class<?> type) throws ReflectiveOperationException {
        return SHOULD_BE == null || !(Boolean) SHOULD_BE.invoke(UNSAFE, type);
    }
}
