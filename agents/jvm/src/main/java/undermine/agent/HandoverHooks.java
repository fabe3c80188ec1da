package undermine.agent;

import java.lang.reflect.Field;
import java.util.TimerTask;
import java.util.concurrent.RunnableScheduledFuture;

/**
 * Entries of the JDK's methods by which calls are handed over to other threads, and where those run them. Nothing is wrapped:
 * what was given is known by identity. It counts if the target's own code is what gives it, or what it is.
 */
public final class HandoverHooks {
    /** Where the JDK's own tasks have what they were made of. */
    private static final String[] INSIDE = {"callable", "task", "fn", "runnable", "action"};
    private static final int DEPTH_MAX = 10;
    /** All that is given to be run. */
    private static final Subject RUN = new Subject("run", "", false);
    private static final ClassValue<Field> FIELDS = new ClassValue<Field>() {
        @Override
        protected Field computeValue(Class<?> type) {
            return fieldOf(type);
        }
    };

    /** What code of a class is called. */
    private static final ClassValue<String> CALLED = new ClassValue<String>() {
        @Override
        protected String computeValue(Class<?> type) {
            return calledOf(type);
        }
    };

    private HandoverHooks() {
    }

    public static void give(Object task) {
        give("call", task);
    }

    /** By methods of which one may call another. */
    public static void giveOnce(Object task) {
        if (task != null && !Items.isPending(RUN, task)) {
            give("call", task);
        }
    }

    /** What a future does when it is complete. */
    public static void giveCallback(Object completion) {
        give("callback", completion);
    }

    private static void give(String kind, Object task) {
        Agent agent = Agent.current;
        ThreadState state = ThreadState.get();
        if (task == null || agent == null || agent.off || state.busy || state.inside > 0) {
            return;
        }
        state.busy = true;
        try {
            Class<?> code = codeOf(task);
            Cursor cursor = agent.cursor(state);
            Stack stack = agent.sites.here(cursor);
            if (!stack.isAlone || agent.sites.targets(nameOf(code))) {
                Subject subject = Subject.unique(CALLED.get(code), Things.unique(kind));
                Core.recordAt(agent, state, cursor, Ops.give, subject, stack, 0, 0, 0);
                Items.add(RUN, task, subject);
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** The class of the code that is run in the end, as far as the JDK's own tasks tell. */
    private static Class<?> codeOf(Object task) throws IllegalAccessException {
        Object found = task;
        for (int depth = 0; depth < DEPTH_MAX; depth++) {
            Field field = found.getClass().getClassLoader() == null ? FIELDS.get(found.getClass()) : null;
            Object inner = field == null ? null : field.get(found);
            if (inner == null) {
                break;
            }
            found = inner;
        }
        return found.getClass();
    }

    private static Field fieldOf(Class<?> type) {
        for (Class<?> each = type; each != null && each != Object.class; each = each.getSuperclass()) {
            for (String name : INSIDE) {
                try {
                    Field field = each.getDeclaredField(name);
                    field.setAccessible(true);
                    return field;
                } catch (ReflectiveOperationException | RuntimeException none) {
                    continue;
                }
            }
        }
        return null;
    }

    /** Without what the JVM puts behind the name of a lambda's class, which differs from run to run. */
    private static String nameOf(Class<?> code) {
        String name = code.getName();
        int end = name.indexOf("$$Lambda");
        return end < 0 ? name : name.substring(0, end);
    }

    private static String calledOf(Class<?> code) {
        String name = nameOf(code);
        String last = name.substring(name.lastIndexOf('.') + 1).replace('$', '.');
        return name.length() < code.getName().length() ? last + ".<lambda>" : last;
    }

    // --- taking

    /** Instead of the call by which a thread of a pool, or of a timer, runs something. */
    public static void run(Runnable task) {
        Call call = taken(task);
        try {
            task.run();
        } catch (Throwable error) {
            throw Watch.<RuntimeException>failed(call, error);
        }
        Watch.end(call, 0);
    }

    private static Call taken(Object task) {
        if (task == null || Ops.take == null) {
            return null;
        }
        Subject subject = isLasting(task) ? Items.peek(RUN, task) : Items.pop(RUN, task);
        return subject == null ? null : Watch.begin(Ops.take, subject, 0);
    }

    /** True if what was given once may be run again. Only the JDK's own tasks are asked. */
    private static boolean isLasting(Object task) {
        boolean isScheduled = task instanceof RunnableScheduledFuture && task.getClass().getClassLoader() == null;
        return isScheduled ? ((RunnableScheduledFuture<?>) task).isPeriodic() : task instanceof TimerTask;
    }

    /** A method that runs something begins; it ends with it. */
    public static boolean take(Object task) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        Call call = state.busy ? null : taken(task);
        if (call != null) {
            frame.call = call;
            frame.isTaking = true;
        }
        return false;
    }

    // --- futures

    /** A future is done, and those who wait for it will go on: if somebody has asked for it. */
    public static void set(Object future) {
        Subject subject = Ops.futureSet == null ? null : Things.known(future);
        if (subject != null && ThreadState.get().setting != future) {
            Watch.record(Ops.futureSet, subject, 0);
        }
    }
}
