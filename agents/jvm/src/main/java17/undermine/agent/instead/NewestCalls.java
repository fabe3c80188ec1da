package undermine.agent.instead;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import undermine.agent.operations.Call;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.sync.HandoverHooks;

/** Called by the target instead of methods of threads and pools that JDK 17 doesn't have; only newer classes call them. */
public final class NewestCalls {
    private static final MethodHandle CLOSE = find(ExecutorService.class, "close", void.class);
    private static final MethodHandle JOIN = find(Thread.class, "join", boolean.class, Duration.class);

    private static final long MILLISECOND = 1_000_000;

    private NewestCalls() {
    }

    /** The method, or null if this JDK doesn't have it. */
    private static MethodHandle find(Class<?> owner, String name, Class<?> result, Class<?>... parameters) {
        try {
            return MethodHandles.publicLookup().findVirtual(owner, name, MethodType.methodType(result, parameters));
        } catch (ReflectiveOperationException older) {
            return null;
        }
    }

    /** Wait for the last thread of the pool. */
    public static void close(ExecutorService pool) {
        boolean isOver = Ops.eventWait == null || isOver(HandoverHooks.poolOf(pool));
        Call call = isOver ? null : Observer.begin(Ops.eventWait, HandoverHooks.subjectOf(pool), 0);
        try {
            CLOSE.invokeExact(pool);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
    }

    /** Only the JDK's own pools are asked: an exception from a pool of the target must not reach the caller. */
    private static boolean isOver(Object pool) {
        boolean isOfJdk = pool instanceof ExecutorService && pool.getClass().getClassLoader() == null;
        return isOfJdk && ((ExecutorService) pool).isTerminated();
    }

    public static boolean join(Thread thread, Duration time) throws InterruptedException {
        long limit = time == null ? 0 : Math.max(1, TimeUnit.NANOSECONDS.convert(time));
        Call call = Observer.begin(Ops.join, WaitCalls.nameOf(thread), limit);
        try {
            return Observer.end(call, (boolean) JOIN.invokeExact(thread, time));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static void sleep(Duration time) throws InterruptedException {
        long nanoseconds = TimeUnit.NANOSECONDS.convert(time);
        if (nanoseconds >= 0) { // for a negative time the JDK does nothing
            TimeCalls.sleep(nanoseconds / MILLISECOND, (int) (nanoseconds % MILLISECOND));
        }
    }
}
