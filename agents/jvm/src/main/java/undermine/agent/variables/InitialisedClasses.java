package undermine.agent.variables;

import java.lang.reflect.Method;

/**
 * Whether a class of the target has been initialised: to read its static fields before would do it, earlier than the program
 * does or while it is about to in another thread, which then must be waited for. Where that cannot be told, it has been.
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
