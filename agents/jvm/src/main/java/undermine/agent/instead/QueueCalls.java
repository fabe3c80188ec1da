package undermine.agent.instead;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingDeque;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TransferQueue;
import undermine.agent.names.ObjectNames;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.stacks.Stack;
import undermine.agent.sync.HandoverHooks;
import undermine.agent.sync.PendingItems;

/**
 * Called by the target instead of the methods of queues; each call is recorded if threads can share the queue. See
 * ReplacedCalls.
 *
 * A poll that returns nothing without waiting is not an event.
 */
@SuppressWarnings("unchecked")
public final class QueueCalls {
    private QueueCalls() {
    }

    private static Subject nameOf(Object queue) {
        boolean isShared = queue instanceof BlockingQueue || queue instanceof ConcurrentLinkedQueue
                || queue instanceof ConcurrentLinkedDeque;
        return isShared ? ObjectNames.of("queue", queue) : null;
    }

    /** One put under way. */
    private static final class Put {
        final Subject queue;
        final Object item;
        final Subject given;
        final Call call;

        Put(Object queue, Object item, long limit) {
            ThreadState state = ThreadState.get();
            this.queue = nameOf(queue);
            this.item = item;
            Stack stack = Observer.here(state, this.queue);
            given = PendingItems.give(state, this.queue, item, stack);
            call = Observer.beginAt(state, Ops.queuePut, this.queue, stack, limit);
        }

        boolean end(boolean isIn) {
            if (!isIn) {
                PendingItems.withdraw(item, given);
            }
            return Observer.end(call, isIn);
        }

        RuntimeException failed(Throwable error) {
            PendingItems.withdraw(item, given);
            return Observer.<RuntimeException>failed(call, error);
        }
    }

    public static void put(BlockingQueue<?> queue, Object item) throws InterruptedException {
        Put put = new Put(queue, item, 0);
        try {
            ((BlockingQueue<Object>) queue).put(item);
        } catch (Throwable error) {
            throw put.failed(error);
        }
        put.end(true);
    }

    public static void transfer(TransferQueue<?> queue, Object item) throws InterruptedException {
        Put put = new Put(queue, item, 0);
        try {
            ((TransferQueue<Object>) queue).transfer(item);
        } catch (Throwable error) {
            throw put.failed(error);
        }
        put.end(true);
    }

    public static boolean offer(Queue<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            return put.end(((Queue<Object>) queue).offer(item));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static boolean add(Queue<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            return put.end(((Queue<Object>) queue).add(item));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static boolean offer(BlockingQueue<?> queue, Object item, long time, TimeUnit unit)
            throws InterruptedException {
        Put put = new Put(queue, item, Math.max(1, Observer.limit(time, unit)));
        try {
            return put.end(((BlockingQueue<Object>) queue).offer(item, time, unit));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static void addFirst(Deque<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            ((Deque<Object>) queue).addFirst(item);
        } catch (Throwable error) {
            throw put.failed(error);
        }
        put.end(true);
    }

    public static void addLast(Deque<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            ((Deque<Object>) queue).addLast(item);
        } catch (Throwable error) {
            throw put.failed(error);
        }
        put.end(true);
    }

    public static boolean offerFirst(Deque<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            return put.end(((Deque<Object>) queue).offerFirst(item));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static boolean offerLast(Deque<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            return put.end(((Deque<Object>) queue).offerLast(item));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static void putFirst(BlockingDeque<?> queue, Object item) throws InterruptedException {
        Put put = new Put(queue, item, 0);
        try {
            ((BlockingDeque<Object>) queue).putFirst(item);
        } catch (Throwable error) {
            throw put.failed(error);
        }
        put.end(true);
    }

    public static void putLast(BlockingDeque<?> queue, Object item) throws InterruptedException {
        Put put = new Put(queue, item, 0);
        try {
            ((BlockingDeque<Object>) queue).putLast(item);
        } catch (Throwable error) {
            throw put.failed(error);
        }
        put.end(true);
    }

    public static boolean offerFirst(BlockingDeque<?> queue, Object item, long time, TimeUnit unit)
            throws InterruptedException {
        Put put = new Put(queue, item, Math.max(1, Observer.limit(time, unit)));
        try {
            return put.end(((BlockingDeque<Object>) queue).offerFirst(item, time, unit));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static boolean offerLast(BlockingDeque<?> queue, Object item, long time, TimeUnit unit)
            throws InterruptedException {
        Put put = new Put(queue, item, Math.max(1, Observer.limit(time, unit)));
        try {
            return put.end(((BlockingDeque<Object>) queue).offerLast(item, time, unit));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static void push(Deque<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            ((Deque<Object>) queue).push(item);
        } catch (Throwable error) {
            throw put.failed(error);
        }
        put.end(true);
    }

    public static boolean tryTransfer(TransferQueue<?> queue, Object item) {
        Put put = new Put(queue, item, 1);
        try {
            return put.end(((TransferQueue<Object>) queue).tryTransfer(item));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    public static boolean tryTransfer(TransferQueue<?> queue, Object item, long time, TimeUnit unit)
            throws InterruptedException {
        Put put = new Put(queue, item, Math.max(1, Observer.limit(time, unit)));
        try {
            return put.end(((TransferQueue<Object>) queue).tryTransfer(item, time, unit));
        } catch (Throwable error) {
            throw put.failed(error);
        }
    }

    // --- getting

    private static Object got(Call call, Subject queue, Object item) {
        Observer.end(call, item != null);
        if (call != null) {
            PendingItems.take(ThreadState.get(), queue, item, call.stack);
        }
        return item;
    }

    /** An item, or null, was returned without waiting. */
    private static Object gotAtOnce(Object queue, long since, Object item) {
        Subject subject = item == null ? null : nameOf(queue);
        if (subject != null) {
            ThreadState state = ThreadState.get();
            Stack stack = HandoverHooks.gotAt(state, subject, since);
            PendingItems.take(state, subject, item, stack);
        }
        return item;
    }

    public static Object take(BlockingQueue<?> queue) throws InterruptedException {
        Subject subject = nameOf(queue);
        Call call = Observer.begin(Ops.queueGet, subject, 0);
        Object item;
        try {
            item = queue.take();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        return got(call, subject, item);
    }

    public static Object poll(BlockingQueue<?> queue, long time, TimeUnit unit) throws InterruptedException {
        Subject subject = nameOf(queue);
        Call call = Observer.begin(Ops.queueGet, subject, Math.max(1, Observer.limit(time, unit)));
        Object item;
        try {
            item = queue.poll(time, unit);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        return got(call, subject, item);
    }

    public static Object takeFirst(BlockingDeque<?> queue) throws InterruptedException {
        Subject subject = nameOf(queue);
        Call call = Observer.begin(Ops.queueGet, subject, 0);
        Object item;
        try {
            item = queue.takeFirst();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        return got(call, subject, item);
    }

    public static Object takeLast(BlockingDeque<?> queue) throws InterruptedException {
        Subject subject = nameOf(queue);
        Call call = Observer.begin(Ops.queueGet, subject, 0);
        Object item;
        try {
            item = queue.takeLast();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        return got(call, subject, item);
    }

    public static Object pollFirst(BlockingDeque<?> queue, long time, TimeUnit unit) throws InterruptedException {
        Subject subject = nameOf(queue);
        Call call = Observer.begin(Ops.queueGet, subject, Math.max(1, Observer.limit(time, unit)));
        Object item;
        try {
            item = queue.pollFirst(time, unit);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        return got(call, subject, item);
    }

    public static Object pollLast(BlockingDeque<?> queue, long time, TimeUnit unit) throws InterruptedException {
        Subject subject = nameOf(queue);
        Call call = Observer.begin(Ops.queueGet, subject, Math.max(1, Observer.limit(time, unit)));
        Object item;
        try {
            item = queue.pollLast(time, unit);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        return got(call, subject, item);
    }

    public static Object poll(Queue<?> queue) {
        long since = Clock.now();
        return gotAtOnce(queue, since, queue.poll());
    }

    public static Object remove(Queue<?> queue) {
        long since = Clock.now();
        return gotAtOnce(queue, since, queue.remove());
    }

    public static Object pollFirst(Deque<?> queue) {
        long since = Clock.now();
        return gotAtOnce(queue, since, queue.pollFirst());
    }

    public static Object pollLast(Deque<?> queue) {
        long since = Clock.now();
        return gotAtOnce(queue, since, queue.pollLast());
    }

    public static Object removeFirst(Deque<?> queue) {
        long since = Clock.now();
        return gotAtOnce(queue, since, queue.removeFirst());
    }

    public static Object removeLast(Deque<?> queue) {
        long since = Clock.now();
        return gotAtOnce(queue, since, queue.removeLast());
    }

    public static Object pop(Deque<?> queue) {
        long since = Clock.now();
        return gotAtOnce(queue, since, queue.pop());
    }

    public static int drainTo(BlockingQueue<?> queue, Collection<?> into) {
        return drainTo(queue, into, Integer.MAX_VALUE);
    }

    /** The items go through a list of the agent's, so that each can be recorded. */
    public static int drainTo(BlockingQueue<?> queue, Collection<?> into, int max) {
        Subject subject = into == null || into == queue ? null : nameOf(queue);
        if (subject == null) {
            return ((BlockingQueue<Object>) queue).drainTo((Collection<Object>) into, max);
        }
        long since = Clock.now();
        List<Object> items = new ArrayList<Object>();
        int count;
        try {
            count = ((BlockingQueue<Object>) queue).drainTo(items, max);
        } finally {
            ((Collection<Object>) into).addAll(items);
        }
        if (count > 0) {
            ThreadState state = ThreadState.get();
            Stack stack = HandoverHooks.gotAt(state, subject, since);
            for (Object item : items) {
                PendingItems.take(state, subject, item, stack);
            }
        }
        return count;
    }
}
