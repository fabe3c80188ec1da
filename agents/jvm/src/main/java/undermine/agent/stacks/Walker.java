package undermine.agent.stacks;

import java.lang.reflect.Constructor;
import undermine.agent.wire.Cursor;

/** Walks the stack of the current thread. The JVM and the native helper decide how. */
abstract class Walker {
    private static final String JDK_WALKER = "undermine.agent.stacks.JdkWalker";

    /** The fastest walker available. */
    static Walker best() {
        Walker jdk = jdk();
        Walker fast = NativeWalker.make(jdk);
        return fast != null ? fast : jdk;
    }

    /** A walker that uses StackWalker; if the JVM has none, one that uses stack traces. */
    static Walker jdk() {
        try {
            Class<?> type = Class.forName(JDK_WALKER, true, Walker.class.getClassLoader());
            Constructor<?> constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            return (Walker) constructor.newInstance();
        } catch (ReflectiveOperationException error) {
            return new ByException();
        } catch (LinkageError tooOld) {
            return new ByException();
        }
    }

    /** Return the stack of the target's frames of the current thread. */
    abstract Stack here(Sites sites, Cursor cursor);

    /** Uses the stack trace of a new exception, for old JVMs. It has only line numbers. */
    private static final class ByException extends Walker {
        @Override
        Stack here(Sites sites, Cursor cursor) {
            return sites.traced(cursor, new Throwable().getStackTrace());
        }
    }
}
