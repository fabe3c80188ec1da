package undermine.agent.hooks;

import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/**
 * Called by woven methods when they end. The hooks at their entries are in FileHooks, SocketHooks and so on.
 *
 * Woven code pushes a frame before it calls the entry's hook, and each end pops it. A hook that makes the method answer
 * at once pops it too. So woven code needs no local variables.
 */
public final class Hooks {
    private Hooks() {
    }

    /** A woven method begins, and gets a frame. Its own hook comes next. */
    public static void enter() {
        ThreadState.get().push();
    }

    /** The same for a method that can show its arguments and take others instead. */
    public static void enterWithData() {
        ThreadState.get().push().hasData = true;
    }

    /** True if the hook at the entry wants the method's arguments, and not that it answers at once. */
    public static boolean wantsData() {
        ThreadState state = ThreadState.get();
        boolean wantsData = state.wantsData;
        state.wantsData = false;
        return wantsData;
    }

    /** The arguments that the method has to use instead of these. */
    public static Object[] changed(Object[] arguments) {
        ThreadState state = ThreadState.get();
        ChangedData.begin(state, state.top(), arguments);
        return arguments;
    }

    /** The number that a method answers if it isn't run. */
    public static long answer() {
        ThreadState state = ThreadState.get();
        long answer = state.answer;
        state.answer = 0;
        return answer;
    }

    /** An exception left the hook at the entry: the injected error, or an error of the JVM. The method isn't run. */
    public static Throwable abandoned(Throwable error) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null && frame.arguments != null) {
            state.enclosing = frame.outer;
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
            Object returned = LogicalOperations.left(state, frame, result);
            return returned instanceof Character ? (Character) returned : ((Number) returned).intValue();
        }
        return MethodExit.exit(state, frame, result, null) ? 0 : result;
    }

    public static long left(long result) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            return (Long) LogicalOperations.left(state, frame, result);
        }
        return MethodExit.exit(state, frame, result, null) ? 0 : result;
    }

    public static boolean left(boolean result) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            return (Boolean) LogicalOperations.left(state, frame, result);
        }
        return !MethodExit.exit(state, frame, 0, null) && result;
    }

    public static Object left(Object result) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (frame.named != null) {
            return LogicalOperations.left(state, frame, result);
        }
        if (frame.queue != null) {
            MethodExit.got(state, frame, result);
            return result;
        }
        return MethodExit.exit(state, frame, ReturnedObjects.learn(frame, result), null) ? null : result;
    }

    /** Only methods that the user named return such numbers. */
    public static float left(float result) {
        return (Float) left((Object) result);
    }

    public static double left(double result) {
        return (Double) left((Object) result);
    }

    /** An exception leaves the method. Returns it, or throws the injected error instead. */
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

    /** An instance was created of a class at which a variable's path starts. */
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
