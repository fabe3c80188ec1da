package undermine.agent.hooks;

import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/**
 * What woven methods call when they end. What they call when they are entered is in FileHooks, NetHooks and so on.
 *
 * Woven code pushes a frame of its thread's state before it calls its entry; each end pops it, and so does an entry that
 * says that the method is to answer at once. So woven code needs no variables of its own.
 */
public final class Hooks {
    private Hooks() {
    }

    /** A woven method is entered: its frame is the innermost one from now on. The hook of its own comes next. */
    public static void enter() {
        ThreadState.get().push();
    }

    /** The number that a method answers which is not to be done. */
    public static long answer() {
        ThreadState state = ThreadState.get();
        long answer = state.answer;
        state.answer = 0;
        return answer;
    }

    /** An exception left the hook of its own: what was decided to be raised, or an error of the JVM. The method is not begun. */
    public static Throwable abandoned(Throwable error) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null && frame.arguments != null) {
            state.scope = frame.outer;
        }
        state.pop();
        return error;
    }

    public static void left() {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            LogicalOperations.left(state, frame, null);
        } else {
            MethodExit.exit(state, frame, frame.size, null);
        }
    }

    public static int left(int result) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            LogicalOperations.left(state, frame, result);
            return result;
        }
        return MethodExit.exit(state, frame, result, null) ? 0 : result;
    }

    public static long left(long result) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            LogicalOperations.left(state, frame, result);
            return result;
        }
        return MethodExit.exit(state, frame, result, null) ? 0 : result;
    }

    public static boolean left(boolean result) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            LogicalOperations.left(state, frame, result);
            return result;
        }
        return !MethodExit.exit(state, frame, 0, null) && result;
    }

    public static Object left(Object result) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            LogicalOperations.left(state, frame, result);
            return result;
        }
        if (frame.queue != null) {
            MethodExit.got(state, frame, result);
            return result;
        }
        return MethodExit.exit(state, frame, ReturnedObjects.learn(frame, result), null) ? null : result;
    }

    /** Only methods that the user named return such numbers. */
    public static float left(float result) {
        left((Object) result);
        return result;
    }

    public static double left(double result) {
        left((Object) result);
        return result;
    }

    /** An exception leaves the method: this one, or what was decided to be raised instead. */
    public static Throwable failed(Throwable error) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            LogicalOperations.failed(state, frame, error);
        } else {
            MethodExit.exit(state, frame, 0, error);
        }
        return error;
    }

    /** An instance of a class that a variable's path starts at was made. */
    public static void made(String className, Object instance) {
        AgentCore agent = AgentCore.current;
        if (agent == null || agent.off) {
            return;
        }
        try {
            agent.variables.made(className, instance);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }
}
