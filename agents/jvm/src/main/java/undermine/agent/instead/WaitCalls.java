package undermine.agent.instead;

import java.util.Date;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Exchanger;
import java.util.concurrent.Phaser;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import undermine.agent.names.Masks;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.StartedThreads;
import undermine.agent.record.ThreadState;
import undermine.agent.stacks.Stack;
import undermine.agent.sync.PendingItems;

/** Called by the target instead of methods that wait; each call is recorded. See ReplacedCalls. */
public final class WaitCalls {
    private WaitCalls() {
    }

    // --- monitors

    public static void wait(Object monitor) throws InterruptedException {
        wait(monitor, 0);
    }

    public static void wait(Object monitor, long milliseconds) throws InterruptedException {
        Call call = Observer.begin(Ops.condWait, ObjectNames.condition(monitor), Observer.limit(milliseconds));
        try {
            monitor.wait(milliseconds);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    public static void wait(Object monitor, long milliseconds, int nanoseconds) throws InterruptedException {
        long limit = Observer.limit(milliseconds) + nanoseconds;
        Call call = Observer.begin(Ops.condWait, ObjectNames.condition(monitor), limit);
        try {
            monitor.wait(milliseconds, nanoseconds);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    public static void notify(Object monitor) {
        Observer.record(Ops.condNotify, ObjectNames.condition(monitor), 1);
        monitor.notify();
    }

    public static void notifyAll(Object monitor) {
        Observer.record(Ops.condNotify, ObjectNames.condition(monitor), 0);
        monitor.notifyAll();
    }

    // --- conditions of locks

    public static void await(Condition condition) throws InterruptedException {
        Call call = Observer.begin(Ops.condWait, ObjectNames.condition(condition), 0);
        try {
            condition.await();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    public static void awaitUninterruptibly(Condition condition) {
        Call call = Observer.begin(Ops.condWait, ObjectNames.condition(condition), 0);
        try {
            condition.awaitUninterruptibly();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    public static long awaitNanos(Condition condition, long limit) throws InterruptedException {
        Call call = Observer.begin(Ops.condWait, ObjectNames.condition(condition), Math.max(1, limit));
        long left;
        try {
            left = condition.awaitNanos(limit);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, left > 0);
        return left;
    }

    public static boolean await(Condition condition, long time, TimeUnit unit) throws InterruptedException {
        Call call = Observer.begin(Ops.condWait, ObjectNames.condition(condition), Math.max(1, Observer.limit(time, unit)));
        try {
            return Observer.end(call, condition.await(time, unit));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static boolean awaitUntil(Condition condition, Date date) throws InterruptedException {
        long limit = date == null ? 0 : Observer.limit(date.getTime() - System.currentTimeMillis());
        Call call = Observer.begin(Ops.condWait, ObjectNames.condition(condition), Math.max(1, limit));
        try {
            return Observer.end(call, condition.awaitUntil(date));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    public static void signal(Condition condition) {
        Observer.record(Ops.condNotify, ObjectNames.condition(condition), 1);
        condition.signal();
    }

    public static void signalAll(Condition condition) {
        Observer.record(Ops.condNotify, ObjectNames.condition(condition), 0);
        condition.signalAll();
    }

    // --- latches and barriers

    public static void await(CountDownLatch latch) throws InterruptedException {
        Call call = Observer.begin(Ops.eventWait, ObjectNames.of("latch", latch), 0);
        try {
            latch.await();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 1);
    }

    public static boolean await(CountDownLatch latch, long time, TimeUnit unit) throws InterruptedException {
        Call call = Observer.begin(Ops.eventWait, ObjectNames.of("latch", latch), Math.max(1, Observer.limit(time, unit)));
        try {
            return Observer.end(call, latch.await(time, unit));
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
    }

    /** The thread that counts down to 0 sets the latch. */
    public static void countDown(CountDownLatch latch) {
        boolean isOpen = latch.getCount() > 0;
        long since = Clock.now();
        latch.countDown();
        if (isOpen && latch.getCount() == 0) {
            Observer.done(Ops.eventSet, ObjectNames.of("latch", latch), 0, since, 1);
        }
    }

    public static int await(CyclicBarrier barrier) throws InterruptedException, BrokenBarrierException {
        Call call = Observer.begin(Ops.barrierWait, ObjectNames.of("barrier", barrier), 0);
        int index;
        try {
            index = barrier.await();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
        return index;
    }

    public static int await(CyclicBarrier barrier, long time, TimeUnit unit)
            throws InterruptedException, BrokenBarrierException, TimeoutException {
        Call call = Observer.begin(Ops.barrierWait, ObjectNames.of("barrier", barrier), Math.max(1, Observer.limit(time, unit)));
        int index;
        try {
            index = barrier.await(time, unit);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
        return index;
    }

    public static int arriveAndAwaitAdvance(Phaser phaser) {
        Call call = Observer.begin(Ops.barrierWait, ObjectNames.of("barrier", phaser), 0);
        int phase;
        try {
            phase = phaser.arriveAndAwaitAdvance();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
        return phase;
    }

    public static int awaitAdvance(Phaser phaser, int phase) {
        Call call = Observer.begin(Ops.barrierWait, ObjectNames.of("barrier", phaser), 0);
        int next;
        try {
            next = phaser.awaitAdvance(phase);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
        return next;
    }

    public static int awaitAdvanceInterruptibly(Phaser phaser, int phase) throws InterruptedException {
        Call call = Observer.begin(Ops.barrierWait, ObjectNames.of("barrier", phaser), 0);
        int next;
        try {
            next = phaser.awaitAdvanceInterruptibly(phase);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
        return next;
    }

    public static int awaitAdvanceInterruptibly(Phaser phaser, int phase, long time, TimeUnit unit)
            throws InterruptedException, TimeoutException {
        Call call = Observer.begin(Ops.barrierWait, ObjectNames.of("barrier", phaser), Math.max(1, Observer.limit(time, unit)));
        int next;
        try {
            next = phaser.awaitAdvanceInterruptibly(phase, time, unit);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
        return next;
    }

    /** One of two threads that exchange items. */
    private static final class Meeting {
        private final ThreadState state = ThreadState.get();
        private final Subject place;
        private final Object item;
        private final Subject given;
        private final Stack stack;
        private final Call call;

        Meeting(Object exchanger, Object item, long limit) {
            place = ObjectNames.of("barrier", exchanger);
            this.item = item;
            stack = Observer.here(state, place);
            given = PendingItems.give(state, place, item, stack);
            call = Observer.beginAt(state, Ops.barrierWait, place, stack, limit);
        }

        Object end(Object got) {
            Observer.end(call, 0);
            PendingItems.takeOther(state, place, got, given, stack);
            return got;
        }

        RuntimeException failed(Throwable error) {
            PendingItems.withdraw(item, given);
            return Observer.<RuntimeException>failed(call, error);
        }
    }

    @SuppressWarnings("unchecked")
    public static Object exchange(Exchanger<?> exchanger, Object item) throws InterruptedException {
        Meeting meeting = new Meeting(exchanger, item, 0);
        Object got;
        try {
            got = ((Exchanger<Object>) exchanger).exchange(item);
        } catch (Throwable error) {
            throw meeting.failed(error);
        }
        return meeting.end(got);
    }

    @SuppressWarnings("unchecked")
    public static Object exchange(Exchanger<?> exchanger, Object item, long time, TimeUnit unit)
            throws InterruptedException, TimeoutException {
        Meeting meeting = new Meeting(exchanger, item, Math.max(1, Observer.limit(time, unit)));
        Object got;
        try {
            got = ((Exchanger<Object>) exchanger).exchange(item, time, unit);
        } catch (Throwable error) {
            throw meeting.failed(error);
        }
        return meeting.end(got);
    }

    // --- threads

    /** Wait for the permit that another thread gives. */
    public static void park() {
        Call call = Observer.begin(Ops.eventWait, ObjectNames.permit(Thread.currentThread()), 0);
        LockSupport.park();
        Observer.end(call, 1);
    }

    public static void park(Object blocker) {
        Call call = Observer.begin(Ops.eventWait, ObjectNames.permit(Thread.currentThread()), 0);
        LockSupport.park(blocker);
        Observer.end(call, 1);
    }

    public static void unpark(Thread thread) {
        Observer.record(Ops.eventSet, ObjectNames.permit(thread), 0);
        LockSupport.unpark(thread);
    }

    /** The subject with which the thread's start was recorded. */
    static Subject nameOf(Thread thread) {
        Subject started = thread == null ? null : StartedThreads.subjectOf(thread);
        return started != null || thread == null ? started
                : new Subject(Masks.mask(thread.getName()), thread.getName(), false);
    }

    public static void join(Thread thread) throws InterruptedException {
        join(thread, 0);
    }

    public static void join(Thread thread, long milliseconds) throws InterruptedException {
        Call call = Observer.begin(Ops.join, nameOf(thread), Observer.limit(milliseconds));
        try {
            thread.join(milliseconds);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, !thread.isAlive());
    }

    public static void join(Thread thread, long milliseconds, int nanoseconds) throws InterruptedException {
        Call call = Observer.begin(Ops.join, nameOf(thread), Observer.limit(milliseconds) + nanoseconds);
        try {
            thread.join(milliseconds, nanoseconds);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, !thread.isAlive());
    }
}
