package undermine.agent.instead;

import java.util.Collection;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionService;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.sync.HandoverHooks;

/**
 * Called by the target instead of methods that wait for pools and their tasks. See ReplacedCalls.
 *
 * Only the JDK's own code knows what is waited for. So hooks inside the JDK record it while one of these calls is under
 * way: see HandoverHooks.
 */
@SuppressWarnings("unchecked")
public final class PoolCalls {
    private PoolCalls() {
    }

    public static boolean awaitTermination(ExecutorService pool, long time, TimeUnit unit) throws InterruptedException {
        Subject subject = Ops.eventWait == null ? null : HandoverHooks.subjectOf(pool);
        Call call = Observer.begin(Ops.eventWait, subject, Math.max(1, Observer.limit(time, unit)));
        try {
            return Observer.end(call, pool.awaitTermination(time, unit));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static Object invoke(ForkJoinPool pool, ForkJoinTask<?> task) {
        Call call = Observer.begin(Ops.futureWait, ObjectNames.of("future", task), 0);
        Object result;
        try {
            result = pool.invoke(task);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
        return result;
    }

    public static List<?> invokeAll(ExecutorService pool, Collection<?> tasks) throws InterruptedException {
        ThreadState.get().asking++;
        try {
            return pool.invokeAll((Collection<Callable<Object>>) tasks);
        } finally {
            ThreadState.get().asking--;
        }
    }

    public static List<?> invokeAll(ExecutorService pool, Collection<?> tasks, long time, TimeUnit unit)
            throws InterruptedException {
        ThreadState.get().asking++;
        try {
            return pool.invokeAll((Collection<Callable<Object>>) tasks, time, unit);
        } finally {
            ThreadState.get().asking--;
        }
    }

    public static Object invokeAny(ExecutorService pool, Collection<?> tasks)
            throws InterruptedException, ExecutionException {
        ThreadState.get().asking++;
        try {
            return pool.invokeAny((Collection<Callable<Object>>) tasks);
        } finally {
            ThreadState.get().asking--;
        }
    }

    public static Object invokeAny(ExecutorService pool, Collection<?> tasks, long time, TimeUnit unit)
            throws InterruptedException, ExecutionException, TimeoutException {
        ThreadState.get().asking++;
        try {
            return pool.invokeAny((Collection<Callable<Object>>) tasks, time, unit);
        } finally {
            ThreadState.get().asking--;
        }
    }

    public static Future<?> take(CompletionService<?> service) throws InterruptedException {
        ThreadState.get().asking++;
        try {
            return service.take();
        } finally {
            ThreadState.get().asking--;
        }
    }

    public static Future<?> poll(CompletionService<?> service) {
        ThreadState.get().asking++;
        try {
            return service.poll();
        } finally {
            ThreadState.get().asking--;
        }
    }

    public static Future<?> poll(CompletionService<?> service, long time, TimeUnit unit) throws InterruptedException {
        ThreadState.get().asking++;
        try {
            return service.poll(time, unit);
        } finally {
            ThreadState.get().asking--;
        }
    }
}
