package undermine.agent.sync;

import java.lang.reflect.Field;
import java.util.TimerTask;
import java.util.concurrent.RunnableScheduledFuture;
import java.util.concurrent.TimeUnit;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.record.AgentCore;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;
import undermine.agent.stacks.Stack;
import undermine.agent.wire.Cursor;

/**
 * Entries of the JDK's methods that hand work over to other threads, and of those that run it. Nothing is wrapped: a task
 * is recognised by identity.
 *
 * A hand-over is recorded if code of the target gives the task, or is the task.
 */
public final class HandoverHooks {
    /** The fields in which the JDK's own tasks keep the code that they run. */
    private static final String[] INSIDE = {"callable", "task", "fn", "runnable", "action"};
    private static final int DEPTH_MAX = 10;
    /** Starting or waking a virtual thread gives it to a pool for a while: that is not a hand-over. */
    private static final String VIRTUAL = "java.lang.VirtualThread";
    /** Stands for the queue of all tasks that are given to be run. */
    private static final Subject RUN = new Subject("run", "", false);
    private static final ClassValue<Field> FIELDS = new ClassValue<Field>() {
        @Override
        protected Field computeValue(Class<?> type) {
            return fieldOf(type);
        }
    };

    /** The field of the JDK's wrappers of pools that has the pool; null if this JDK has no wrappers. */
    private static final Field COVERED = field("java.util.concurrent.Executors$DelegatedExecutorService", "e");
    private static final Class<?> COVER = COVERED == null ? null : COVERED.getDeclaringClass();

    /** The repetition delay of tasks in fork-join pools; null if this JDK has none. */
    private static final Field DELAY = field("java.util.concurrent.DelayScheduler$ScheduledForkJoinTask", "nextDelay");
    private static final Class<?> DELAYED = DELAY == null ? null : DELAY.getDeclaringClass();

    /** The name of the code of a class. */
    private static final ClassValue<String> CALLED = new ClassValue<String>() {
        @Override
        protected String computeValue(Class<?> type) {
            return calledOf(type);
        }
    };

    private HandoverHooks() {
    }

    /** The field, or null if this JDK doesn't have it. */
    public static Field field(String owner, String name) {
        try {
            Field field = Class.forName(owner).getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (ReflectiveOperationException | RuntimeException none) {
            return null;
        }
    }

    public static void give(Object task) {
        give("call", task);
    }

    /** For methods that call each other: the task is given only once. */
    public static void giveOnce(Object task) {
        if (task != null && !PendingItems.isPending(RUN, task)) {
            give("call", task);
        }
    }

    /** Give what a future runs when it is complete. A completion without code of its own only passes the result on. */
    public static void giveCallback(Object completion) {
        if (completion != null && FIELDS.get(completion.getClass()) != null && !PendingItems.isPending(RUN, completion)) {
            give("callback", completion);
        }
    }

    /** Give an item that may be refused: the method then returns a number that isn't above 0, and the item is withdrawn. */
    public static boolean offer(Object item) {
        Subject given = give("call", item);
        if (given != null) {
            WovenFrame frame = ThreadState.get().top();
            frame.given = given;
            frame.item = item;
        }
        return false;
    }

    /** Give a task; returns the subject that it was recorded with, or null. */
    private static Subject give(String kind, Object task) {
        AgentCore agent = AgentCore.current;
        ThreadState state = ThreadState.get();
        if (task == null || agent == null || agent.off || state.busy || state.inside > 0) {
            return null;
        }
        state.busy = true;
        try {
            Class<?> code = codeOf(task);
            if (code.getName().startsWith(VIRTUAL)) {
                return null;
            }
            Cursor cursor = agent.cursor(state);
            Stack stack = agent.sites.here(cursor);
            if (!stack.isAlone || agent.sites.isOfTarget(nameOf(code))) {
                Subject subject = Subject.unique(CALLED.get(code), ObjectNames.unique(kind));
                Recorder.recordAt(agent, state, cursor, Ops.give, subject, stack, 0, 0, 0);
                PendingItems.add(RUN, task, subject);
                return subject;
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
        return null;
    }

    /** The class of the code that runs in the end, as far as the JDK's own tasks tell. */
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

    /** The class's name without the suffix of a lambda's class, which differs from run to run. */
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

    /** Called instead of `run` in a thread of a pool or of a timer. */
    public static void run(Runnable task) {
        Call call = taken(task);
        try {
            task.run();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    private static Call taken(Object task) {
        return task == null || Ops.take == null ? null : taken(task, isLasting(task));
    }

    private static Call taken(Object task, boolean isLasting) {
        Subject subject = isLasting ? PendingItems.peek(RUN, task) : PendingItems.pop(RUN, task);
        return subject == null ? null : Observer.begin(Ops.take, subject, 0);
    }

    /** True if a task that was given once may run again. Only the JDK's own tasks are asked. */
    private static boolean isLasting(Object task) {
        if (DELAYED != null && DELAYED.isInstance(task)) {
            return isRepeated(task);
        }
        boolean isScheduled = task instanceof RunnableScheduledFuture && task.getClass().getClassLoader() == null;
        return isScheduled ? ((RunnableScheduledFuture<?>) task).isPeriodic() : task instanceof TimerTask;
    }

    private static boolean isRepeated(Object delayed) {
        try {
            return DELAY.getLong(delayed) != 0;
        } catch (IllegalAccessException unknown) {
            return false;
        }
    }

    /** Entry of a method that runs a task until it ends. */
    public static boolean take(Object task) {
        ThreadState state = ThreadState.get();
        return began(state, state.busy ? null : taken(task));
    }

    /** The same for a completion that is tried when each of two futures is complete, and acts only at the last. */
    public static boolean takeOfBoth(Object task) {
        ThreadState state = ThreadState.get();
        return began(state, state.busy || Ops.take == null ? null : taken(task, true));
    }

    private static boolean began(ThreadState state, Call call) {
        WovenFrame frame = state.top();
        if (call != null) {
            frame.call = call;
            frame.isTaking = true;
        }
        return false;
    }

    // --- futures

    /** A future is done. Recorded if a thread has waited for it. */
    public static void set(Object future) {
        Subject subject = Ops.futureSet == null ? null : ObjectNames.known(future);
        if (subject != null && ThreadState.get().setting != future) {
            Observer.record(Ops.futureSet, subject, 0);
        }
    }

    /** The JDK waits for a future on behalf of the target: see PoolCalls. */
    public static boolean await(Object future, boolean isTimed, long limit) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (state.asking > 0 && state.setting != future) {
            Subject subject = ObjectNames.of("future", future);
            frame.call = Observer.begin(state, Ops.futureWait, subject, isTimed ? Math.max(1, limit) : 0);
            frame.isTaking = true;
            frame.isValue = true;
            frame.size = 1;
        }
        return false;
    }

    // --- completed futures in the JDK's own queues

    /** The target submits a task to a completion service: from now on its queue is recorded. */
    public static void submit(Object queue) {
        ThreadState state = ThreadState.get();
        if (queue == null || ObjectNames.known(queue) != null) {
            return;
        }
        Stack stack = Observer.here(state, Subject.NOTHING);
        if (stack != null && !stack.isAlone) {
            ObjectNames.of("queue", queue);
        }
    }

    /** A completed future is put into a queue. */
    public static void done(Object queue, Object future) {
        Subject subject = queue == null ? null : ObjectNames.known(queue);
        ThreadState state = ThreadState.get();
        Stack stack = Observer.here(state, subject);
        if (stack != null) {
            PendingItems.give(state, subject, future, stack);
            Observer.doneAt(state, Ops.queuePut, subject, stack, 1, Clock.now(), 1);
        }
    }

    public static boolean await(Object queue) {
        return asked(queue, 0);
    }

    public static boolean await(Object queue, long time, Object unit) {
        return asked(queue, Math.max(1, Observer.limit(time, (TimeUnit) unit)));
    }

    private static boolean asked(Object queue, long limit) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (state.asking > 0) {
            frame.queue = ObjectNames.of("queue", queue);
            frame.call = Observer.begin(state, Ops.queueGet, frame.queue, limit);
            frame.isTaking = true;
        }
        return false;
    }

    /** Not an event if the queue is empty. */
    public static boolean poll(Object queue) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (state.asking > 0) {
            frame.queue = ObjectNames.of("queue", queue);
            frame.since = Clock.now();
        }
        return false;
    }

    /** Record that an item was taken from a queue; returns the stack, or null if it isn't recorded. */
    public static Stack gotAt(ThreadState state, Subject queue, long since) {
        Stack stack = Observer.here(state, queue);
        if (stack != null) {
            Observer.doneAt(state, Ops.queueGet, queue, stack, 1, since, 1);
        }
        return stack;
    }

    // --- pools

    public static Subject subjectOf(Object pool) {
        return ObjectNames.of("pool", poolOf(pool));
    }

    /** The pool itself, without the wrappers in which some pools are handed out. */
    public static Object poolOf(Object pool) {
        Object found = pool;
        try {
            for (int depth = 0; depth < DEPTH_MAX && found != null && COVER != null && COVER.isInstance(found); depth++) {
                found = COVERED.get(found);
            }
        } catch (ReflectiveOperationException unknown) {
            found = pool;
        }
        return found;
    }

    /** The last thread of a pool has ended. */
    public static void ended(Object pool) {
        Subject subject = Ops.eventSet == null ? null : ObjectNames.known(pool);
        if (subject != null) {
            Observer.record(Ops.eventSet, subject, 0);
        }
    }
}
