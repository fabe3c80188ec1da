package undermine.agent.own;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import undermine.agent.wire.Config;

/**
 * The calls in the target's own classes that are replaced by calls of the package `instead`, for families that are only
 * observed.
 *
 * A row has the classes, the type of the receiver, the class in `instead`, and the methods.
 */
final class ReplacedCalls {
    private static final String JUC = "java/util/concurrent/";
    private static final String UNIT = "JLjava/util/concurrent/TimeUnit;)";
    private static final String O = "Ljava/lang/Object;";
    private static final String LOCKS = JUC + "locks/";
    private static final String RW = LOCKS + "ReentrantReadWriteLock";
    private static final String QUEUE = "java/util/Queue";
    private static final String BLOCKING = JUC + "BlockingQueue";
    private static final String DEQUE = "java/util/Deque";
    private static final String BLOCKING_DEQUE = JUC + "BlockingDeque";
    private static final String LINKED = JUC + "LinkedBlockingDeque";
    private static final String BLOCKING_QUEUES = BLOCKING + " " + JUC + "LinkedBlockingQueue " + JUC + "ArrayBlockingQueue "
            + JUC + "PriorityBlockingQueue " + JUC + "SynchronousQueue " + JUC + "DelayQueue " + JUC + "LinkedTransferQueue "
            + JUC + "TransferQueue " + BLOCKING_DEQUE + " " + LINKED;
    private static final String DEQUES = DEQUE + " " + BLOCKING_DEQUE + " " + LINKED + " " + JUC + "ConcurrentLinkedDeque";
    /** The replacements in this class receive the number of the call site. */
    private static final String CLOCKS = "ClockCalls";
    private static final String CONSUMER = "(Ljava/util/function/Consumer;";
    private static final String FORK_JOIN = JUC + "ForkJoinTask " + JUC + "RecursiveTask " + JUC + "RecursiveAction "
            + JUC + "CountedCompleter";
    private static final String FUTURE = "Ljava/util/concurrent/Future;";
    private static final String EXECUTOR = JUC + "ExecutorService";
    private static final String EXECUTORS = EXECUTOR + " " + JUC + "AbstractExecutorService " + JUC + "ThreadPoolExecutor " + JUC
            + "ScheduledExecutorService " + JUC + "ScheduledThreadPoolExecutor " + JUC + "ForkJoinPool";
    private static final String TASKS = "(Ljava/util/Collection;";
    /** Both families have these: they hand tasks over and wait for them. */
    private static final String[] INVOKING = {EXECUTORS, EXECUTOR, "PoolCalls",
        "invokeAll" + TASKS + ")Ljava/util/List;", "invokeAll" + TASKS + UNIT + "Ljava/util/List;",
        "invokeAny" + TASKS + ")" + O, "invokeAny" + TASKS + UNIT + O};
    /** Both families have these: two threads wait for each other and exchange items. */
    private static final String[] EXCHANGING = {JUC + "Exchanger", JUC + "Exchanger", "WaitCalls",
        "exchange(" + O + ")" + O, "exchange(" + O + UNIT + O};

    private static final String[][] SYNC = {
        {LOCKS + "Lock " + LOCKS + "ReentrantLock " + RW + "$ReadLock " + RW + "$WriteLock", LOCKS + "Lock", "LockCalls",
            "lock()V", "lockInterruptibly()V", "tryLock()Z", "tryLock(" + UNIT + "Z", "unlock()V"},
        {LOCKS + "StampedLock", LOCKS + "StampedLock", "LockCalls",
            "readLock()J", "writeLock()J", "readLockInterruptibly()J", "writeLockInterruptibly()J", "tryReadLock()J",
            "tryWriteLock()J", "tryReadLock(" + UNIT + "J", "tryWriteLock(" + UNIT + "J",
            "unlockRead(J)V", "unlockWrite(J)V", "unlock(J)V"},
        {JUC + "Semaphore", JUC + "Semaphore", "LockCalls",
            "acquire()V", "acquire(I)V", "acquireUninterruptibly()V", "acquireUninterruptibly(I)V", "tryAcquire()Z",
            "tryAcquire(I)Z", "tryAcquire(" + UNIT + "Z", "tryAcquire(I" + UNIT + "Z", "release()V", "release(I)V"},
        {"java/lang/Object", "java/lang/Object", "WaitCalls",
            "wait()V", "wait(J)V", "wait(JI)V", "notify()V", "notifyAll()V"},
        {LOCKS + "Condition", LOCKS + "Condition", "WaitCalls",
            "await()V", "awaitUninterruptibly()V", "awaitNanos(J)J", "await(" + UNIT + "Z", "awaitUntil(Ljava/util/Date;)Z",
            "signal()V", "signalAll()V"},
        {JUC + "CountDownLatch", JUC + "CountDownLatch", "WaitCalls", "await()V", "await(" + UNIT + "Z", "countDown()V"},
        {JUC + "CyclicBarrier", JUC + "CyclicBarrier", "WaitCalls", "await()I", "await(" + UNIT + "I"},
        {JUC + "Phaser", JUC + "Phaser", "WaitCalls", 
            "arriveAndAwaitAdvance()I", "awaitAdvance(I)I", "awaitAdvanceInterruptibly(I)I",
            "awaitAdvanceInterruptibly(I" + UNIT + "I"},
        EXCHANGING,
        {LOCKS + "LockSupport", "", "WaitCalls", "park()V", "park(" + O + ")V", "unpark(Ljava/lang/Thread;)V"},
        {"java/lang/Thread", "java/lang/Thread", "WaitCalls", "join()V", "join(J)V", "join(JI)V"},
        {JUC + "Future " + JUC + "FutureTask " + JUC + "CompletableFuture " + JUC + "ScheduledFuture " + JUC + "RunnableFuture "
            + FORK_JOIN, JUC + "Future", "FutureCalls", "get()" + O, "get(" + UNIT + O},
        {JUC + "CompletableFuture", JUC + "CompletableFuture", "FutureCalls",
            "join()" + O, "complete(" + O + ")Z", "completeExceptionally(Ljava/lang/Throwable;)Z"},
        {FORK_JOIN, JUC + "ForkJoinTask", "FutureCalls", "join()" + O},
        {"java/lang/Thread", "java/lang/Thread", "NewestCalls", "join(Ljava/time/Duration;)Z"},
        {EXECUTORS, EXECUTOR, "PoolCalls", "awaitTermination(" + UNIT + "Z"},
        {EXECUTORS, EXECUTOR, "NewestCalls", "close()V"},
        INVOKING,
        {JUC + "ForkJoinPool", JUC + "ForkJoinPool", "PoolCalls", "invoke(L" + JUC + "ForkJoinTask;)" + O},
    };
    private static final String[][] HANDOVER = {
        {"java/nio/channels/Selector", "java/nio/channels/Selector", "SelectorCalls", "select()I", "select(J)I", "selectNow()I"},
        {"java/nio/channels/Selector", "java/nio/channels/Selector", "SelectorActionCalls",
            "select" + CONSUMER + ")I", "select" + CONSUMER + "J)I", "selectNow" + CONSUMER + ")I"},
        {BLOCKING_QUEUES, BLOCKING, "QueueCalls",
            "put(" + O + ")V", "offer(" + O + UNIT + "Z", "take()" + O, "poll(" + UNIT + O,
            "drainTo(Ljava/util/Collection;)I", "drainTo(Ljava/util/Collection;I)I"},
        {BLOCKING_QUEUES + " " + QUEUE + " " + DEQUES + " " + JUC + "ConcurrentLinkedQueue", QUEUE, "QueueCalls",
            "offer(" + O + ")Z", "add(" + O + ")Z", "poll()" + O, "remove()" + O},
        {JUC + "TransferQueue " + JUC + "LinkedTransferQueue", JUC + "TransferQueue", "QueueCalls",
            "transfer(" + O + ")V", "tryTransfer(" + O + ")Z", "tryTransfer(" + O + UNIT + "Z"},
        {DEQUES, DEQUE, "QueueCalls",
            "addFirst(" + O + ")V", "addLast(" + O + ")V", "offerFirst(" + O + ")Z", "offerLast(" + O + ")Z",
            "pollFirst()" + O, "pollLast()" + O, "removeFirst()" + O, "removeLast()" + O,
            "push(" + O + ")V", "pop()" + O},
        {BLOCKING_DEQUE + " " + LINKED, BLOCKING_DEQUE, "QueueCalls",
            "putFirst(" + O + ")V", "putLast(" + O + ")V", "takeFirst()" + O, "takeLast()" + O,
            "offerFirst(" + O + UNIT + "Z", "offerLast(" + O + UNIT + "Z", "pollFirst(" + UNIT + O, "pollLast(" + UNIT + O},
        {JUC + "CompletionService " + JUC + "ExecutorCompletionService", JUC + "CompletionService", "PoolCalls",
            "take()" + FUTURE, "poll()" + FUTURE, "poll(" + UNIT + FUTURE},
        INVOKING,
        EXCHANGING,
    };
    private static final String[][] TIME = {
        {"java/lang/System", "", CLOCKS, "currentTimeMillis()J", "nanoTime()J"},
        {"java/time/Instant", "", CLOCKS, "now()Ljava/time/Instant;"},
        {"java/lang/Thread", "", "TimeCalls", "sleep(J)V", "sleep(JI)V"},
        {"java/lang/Thread", "", "NewestCalls", "sleep(Ljava/time/Duration;)V"},
        {JUC + "TimeUnit", JUC + "TimeUnit", "TimeCalls", "sleep(J)V"},
        {LOCKS + "LockSupport", "", "TimeCalls",
            "parkNanos(J)V", "parkNanos(" + O + "J)V", "parkUntil(J)V", "parkUntil(" + O + "J)V"},
        {"java/net/Socket javax/net/ssl/SSLSocket", "java/net/Socket", "TimeCalls",
            "setSoTimeout(I)V", "connect(Ljava/net/SocketAddress;I)V"},
        {"java/net/ServerSocket javax/net/ssl/SSLServerSocket", "java/net/ServerSocket", "TimeCalls",
            "setSoTimeout(I)V", "accept()Ljava/net/Socket;"},
    };

    /** By class, then by name and descriptor. */
    final Map<String, Map<String, Replacement>> byOwner = new HashMap<String, Map<String, Replacement>>();
    private final Set<String> names = new HashSet<String>();

    /** The replacement of a call. */
    static final class Replacement {
        final String owner;
        final String descriptor;
        /** True if three parts of the call site's number follow the other arguments. Method references leave them out. */
        final boolean isNumbered;

        Replacement(String receiver, String owner, String descriptor) {
            this.owner = "undermine/agent/instead/" + owner;
            isNumbered = owner.equals(CLOCKS);
            this.descriptor = receiver.isEmpty() ? descriptor : "(L" + receiver + ";" + descriptor.substring(1);
        }
    }

    ReplacedCalls(Config config) {
        add(config, "sync", SYNC);
        add(config, "handover", HANDOVER);
        add(config, "time", TIME);
    }

    private void add(Config config, String family, String[][] rows) {
        for (int i = 0; config.observes(family) && i < rows.length; i++) {
            for (String owner : rows[i][0].split(" ")) {
                add(owner, rows[i]);
            }
        }
    }

    private void add(String owner, String[] row) {
        Map<String, Replacement> methods = byOwner.get(owner);
        if (methods == null) {
            methods = new HashMap<String, Replacement>();
            byOwner.put(owner, methods);
        }
        for (int i = 3; i < row.length; i++) {
            names.add(row[i]);
            methods.put(row[i], new Replacement(row[1], row[2], row[i].substring(row[i].indexOf('('))));
        }
    }

    /** True if any class has a replaced method with this name and descriptor. */
    boolean isNamed(String name, String descriptor) {
        return names.contains(name + descriptor);
    }

    /** The replacement, or null. */
    Replacement instead(String owner, String name, String descriptor) {
        Map<String, Replacement> methods = byOwner.get(owner);
        return methods == null ? null : methods.get(name + descriptor);
    }
}
