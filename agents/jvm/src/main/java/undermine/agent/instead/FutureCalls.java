package undermine.agent.instead;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;

/** Called by the target instead of the methods of futures; each call is recorded. See ReplacedCalls. */
public final class FutureCalls {
    private FutureCalls() {
    }

    public static Object get(Future<?> future) throws InterruptedException, ExecutionException {
        Call call = Observer.begin(Ops.futureWait, ObjectNames.of("future", future), 0);
        Object result;
        ThreadState.get().setting = future;
        try {
            result = future.get();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        } finally {
            ThreadState.get().setting = null;
        }
        Observer.end(call, 1);
        return result;
    }

    public static Object get(Future<?> future, long time, TimeUnit unit)
            throws InterruptedException, ExecutionException, TimeoutException {
        Call call = Observer.begin(Ops.futureWait, ObjectNames.of("future", future), Math.max(1, Observer.limit(time, unit)));
        Object result;
        ThreadState.get().setting = future;
        try {
            result = future.get(time, unit);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        } finally {
            ThreadState.get().setting = null;
        }
        Observer.end(call, 1);
        return result;
    }

    public static Object join(CompletableFuture<?> future) {
        Call call = Observer.begin(Ops.futureWait, ObjectNames.of("future", future), 0);
        Object result;
        ThreadState.get().setting = future;
        try {
            result = future.join();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        } finally {
            ThreadState.get().setting = null;
        }
        Observer.end(call, 1);
        return result;
    }

    public static Object join(ForkJoinTask<?> task) {
        Call call = Observer.begin(Ops.futureWait, ObjectNames.of("future", task), 0);
        Object result;
        try {
            result = task.join();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
        return result;
    }

    /** Complete the future, which wakes the threads that wait for it. */
    @SuppressWarnings("unchecked")
    public static boolean complete(CompletableFuture<?> future, Object value) {
        Call call = setting(future);
        try {
            return Observer.end(call, ((CompletableFuture<Object>) future).complete(value));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        } finally {
            ThreadState.get().setting = null;
        }
    }

    public static boolean completeExceptionally(CompletableFuture<?> future, Throwable error) {
        Call call = setting(future);
        try {
            return Observer.end(call, future.completeExceptionally(error));
        } catch (Throwable other) {
            throw Observer.<RuntimeException>failed(call, other);
        } finally {
            ThreadState.get().setting = null;
        }
    }

    private static Call setting(CompletableFuture<?> future) {
        ThreadState.get().setting = future;
        return future == null || isDone(future) ? null : Observer.begin(Ops.futureSet, ObjectNames.of("future", future), 0);
    }

    /** The future may be of a class of the target: an exception from its isDone must not reach the caller. */
    private static boolean isDone(CompletableFuture<?> future) {
        try {
            return future.isDone();
        } catch (Throwable its) {
            return false;
        }
    }
}
