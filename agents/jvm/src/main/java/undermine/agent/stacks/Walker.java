package undermine.agent.stacks;

import java.lang.reflect.Constructor;
import undermine.agent.wire.Cursor;

/** Walks the stack of the current thread. How depends on the JVM and on the native helper. */
abstract class Walker {
    private static final String MODERN = "undermine.agent.stacks.JdkWalker";

    /** The best one there is. */
    static Walker best() {
        Walker modern = modern();
        Walker fast = NativeWalker.make(modern);
        return fast != null ? fast : modern;
    }

    /** A StackWalker; where there is none, a walker by exceptions. */
    static Walker modern() {
        try {
            Class<?> type = Class.forName(MODERN, true, Walker.class.getClassLoader());
            Constructor<?> constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            return (Walker) constructor.newInstance();
        } catch (ReflectiveOperationException error) {
            return new ByException();
        } catch (LinkageError tooOld) {
            return new ByException();
        }
    }

    /** Puts the target's frames into the thread's room, innermost first, and returns the stack that they are. */
    abstract Stack here(Sites sites, Cursor cursor);

    /** For JVMs of old: the stack trace of a new exception. It knows lines only. */
    private static final class ByException extends Walker {
        @Override
        Stack here(Sites sites, Cursor cursor) {
            return sites.traced(cursor, new Throwable().getStackTrace());
        }
    }
}
