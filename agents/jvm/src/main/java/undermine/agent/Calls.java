package undermine.agent;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * Calls of the JDK's methods that the target's own classes make and that are replaced by those of Instead...: families that are
 * only observed. Each row: whose, as what they are called, by which class, and the methods.
 */
final class Calls {
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
    /** These are told the place of the call: see InsteadClocks. */
    private static final String CLOCKS = "Clocks";
    private static final String CONSUMER = "(Ljava/util/function/Consumer;";
    private static final String FORK_JOIN = JUC + "ForkJoinTask " + JUC + "RecursiveTask " + JUC + "RecursiveAction "
            + JUC + "CountedCompleter";
    private static final String FUTURE = "Ljava/util/concurrent/Future;";
    private static final String EXECUTOR = JUC + "ExecutorService";
    private static final String EXECUTORS = EXECUTOR + " " + JUC + "AbstractExecutorService " + JUC + "ThreadPoolExecutor " + JUC
            + "ScheduledExecutorService " + JUC + "ScheduledThreadPoolExecutor " + JUC + "ForkJoinPool";
    private static final String TASKS = "(Ljava/util/Collection;";
    /** Those that wait for calls that they hand over: both families have them. */
    private static final String[] INVOKING = {EXECUTORS, EXECUTOR, "Pools",
        "invokeAll" + TASKS + ")Ljava/util/List;", "invokeAll" + TASKS + UNIT + "Ljava/util/List;",
        "invokeAny" + TASKS + ")" + O, "invokeAny" + TASKS + UNIT + O};
    /** Likewise: two wait for each other, and each gives the other one something. */
    private static final String[] EXCHANGING = {JUC + "Exchanger", JUC + "Exchanger", "Waits",
        "exchange(" + O + ")" + O, "exchange(" + O + UNIT + O};

    private static final String[][] SYNC = {
        {LOCKS + "Lock " + LOCKS + "ReentrantLock " + RW + "$ReadLock " + RW + "$WriteLock", LOCKS + "Lock", "Locks",
            "lock()V", "lockInterruptibly()V", "tryLock()Z", "tryLock(" + UNIT + "Z", "unlock()V"},
        {LOCKS + "StampedLock", LOCKS + "StampedLock", "Locks",
            "readLock()J", "writeLock()J", "readLockInterruptibly()J", "writeLockInterruptibly()J", "tryReadLock()J",
            "tryWriteLock()J", "tryReadLock(" + UNIT + "J", "tryWriteLock(" + UNIT + "J",
            "unlockRead(J)V", "unlockWrite(J)V", "unlock(J)V"},
        {JUC + "Semaphore", JUC + "Semaphore", "Locks",
            "acquire()V", "acquire(I)V", "acquireUninterruptibly()V", "acquireUninterruptibly(I)V", "tryAcquire()Z",
            "tryAcquire(I)Z", "tryAcquire(" + UNIT + "Z", "tryAcquire(I" + UNIT + "Z", "release()V", "release(I)V"},
        {"java/lang/Object", "java/lang/Object", "Waits",
            "wait()V", "wait(J)V", "wait(JI)V", "notify()V", "notifyAll()V"},
        {LOCKS + "Condition", LOCKS + "Condition", "Waits",
            "await()V", "awaitUninterruptibly()V", "awaitNanos(J)J", "await(" + UNIT + "Z", "awaitUntil(Ljava/util/Date;)Z",
            "signal()V", "signalAll()V"},
        {JUC + "CountDownLatch", JUC + "CountDownLatch", "Waits", "await()V", "await(" + UNIT + "Z", "countDown()V"},
        {JUC + "CyclicBarrier", JUC + "CyclicBarrier", "Waits", "await()I", "await(" + UNIT + "I"},
        {JUC + "Phaser", JUC + "Phaser", "Waits", 
            "arriveAndAwaitAdvance()I", "awaitAdvance(I)I", "awaitAdvanceInterruptibly(I)I",
            "awaitAdvanceInterruptibly(I" + UNIT + "I"},
        EXCHANGING,
        {LOCKS + "LockSupport", "", "Waits", "park()V", "park(" + O + ")V", "unpark(Ljava/lang/Thread;)V"},
        {"java/lang/Thread", "java/lang/Thread", "Waits", "join()V", "join(J)V", "join(JI)V"},
        {JUC + "Future " + JUC + "FutureTask " + JUC + "CompletableFuture " + JUC + "ScheduledFuture " + JUC + "RunnableFuture "
            + FORK_JOIN, JUC + "Future", "Waits", "get()" + O, "get(" + UNIT + O},
        {JUC + "CompletableFuture", JUC + "CompletableFuture", "Waits",
            "join()" + O, "complete(" + O + ")Z", "completeExceptionally(Ljava/lang/Throwable;)Z"},
        {FORK_JOIN, JUC + "ForkJoinTask", "Waits", "join()" + O},
        {"java/lang/Thread", "java/lang/Thread", "Newest", "join(Ljava/time/Duration;)Z"},
        {EXECUTORS, EXECUTOR, "Pools", "awaitTermination(" + UNIT + "Z"},
        {EXECUTORS, EXECUTOR, "Newest", "close()V"},
        INVOKING,
        {JUC + "ForkJoinPool", JUC + "ForkJoinPool", "Pools", "invoke(L" + JUC + "ForkJoinTask;)" + O},
    };
    private static final String[][] HANDOVER = {
        {"java/nio/channels/Selector", "java/nio/channels/Selector", "Polls", "select()I", "select(J)I", "selectNow()I"},
        {"java/nio/channels/Selector", "java/nio/channels/Selector", "Modern",
            "select" + CONSUMER + ")I", "select" + CONSUMER + "J)I", "selectNow" + CONSUMER + ")I"},
        {BLOCKING_QUEUES, BLOCKING, "Queues",
            "put(" + O + ")V", "offer(" + O + UNIT + "Z", "take()" + O, "poll(" + UNIT + O,
            "drainTo(Ljava/util/Collection;)I", "drainTo(Ljava/util/Collection;I)I"},
        {BLOCKING_QUEUES + " " + QUEUE + " " + DEQUES + " " + JUC + "ConcurrentLinkedQueue", QUEUE, "Queues",
            "offer(" + O + ")Z", "add(" + O + ")Z", "poll()" + O, "remove()" + O},
        {JUC + "TransferQueue " + JUC + "LinkedTransferQueue", JUC + "TransferQueue", "Queues",
            "transfer(" + O + ")V", "tryTransfer(" + O + ")Z", "tryTransfer(" + O + UNIT + "Z"},
        {DEQUES, DEQUE, "Queues",
            "addFirst(" + O + ")V", "addLast(" + O + ")V", "offerFirst(" + O + ")Z", "offerLast(" + O + ")Z",
            "pollFirst()" + O, "pollLast()" + O, "removeFirst()" + O, "removeLast()" + O,
            "push(" + O + ")V", "pop()" + O},
        {BLOCKING_DEQUE + " " + LINKED, BLOCKING_DEQUE, "Queues",
            "putFirst(" + O + ")V", "putLast(" + O + ")V", "takeFirst()" + O, "takeLast()" + O,
            "offerFirst(" + O + UNIT + "Z", "offerLast(" + O + UNIT + "Z", "pollFirst(" + UNIT + O, "pollLast(" + UNIT + O},
        {JUC + "CompletionService " + JUC + "ExecutorCompletionService", JUC + "CompletionService", "Pools",
            "take()" + FUTURE, "poll()" + FUTURE, "poll(" + UNIT + FUTURE},
        INVOKING,
        EXCHANGING,
    };
    private static final String[][] TIME = {
        {"java/lang/System", "", CLOCKS, "currentTimeMillis()J", "nanoTime()J"},
        {"java/time/Instant", "", CLOCKS, "now()Ljava/time/Instant;"},
        {"java/lang/Thread", "", "Times", "sleep(J)V", "sleep(JI)V"},
        {"java/lang/Thread", "", "Newest", "sleep(Ljava/time/Duration;)V"},
        {JUC + "TimeUnit", JUC + "TimeUnit", "Times", "sleep(J)V"},
        {LOCKS + "LockSupport", "", "Times",
            "parkNanos(J)V", "parkNanos(" + O + "J)V", "parkUntil(J)V", "parkUntil(" + O + "J)V"},
        {"java/net/Socket javax/net/ssl/SSLSocket", "java/net/Socket", "Times",
            "setSoTimeout(I)V", "connect(Ljava/net/SocketAddress;I)V"},
        {"java/net/ServerSocket javax/net/ssl/SSLServerSocket", "java/net/ServerSocket", "Times",
            "setSoTimeout(I)V", "accept()Ljava/net/Socket;"},
    };

    /** By owner, then by name and descriptor. */
    final Map<String, Map<String, Call>> byOwner = new HashMap<String, Map<String, Call>>();
    private final Set<String> names = new HashSet<String>();

    /** What a call is replaced by. */
    static final class Call {
        final String owner;
        final String descriptor;
        /** The number of the place comes last, in three parts. Where there is no such number, as in a reference, they are left out. */
        final boolean isPlaced;

        Call(String receiver, String owner, String descriptor) {
            this.owner = "undermine/agent/Instead" + owner;
            isPlaced = owner.equals(CLOCKS);
            this.descriptor = receiver.isEmpty() ? descriptor : "(L" + receiver + ";" + descriptor.substring(1);
        }
    }

    Calls(Config config) {
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
        Map<String, Call> methods = byOwner.get(owner);
        if (methods == null) {
            methods = new HashMap<String, Call>();
            byOwner.put(owner, methods);
        }
        for (int i = 3; i < row.length; i++) {
            names.add(row[i]);
            methods.put(row[i], new Call(row[1], row[2], row[i].substring(row[i].indexOf('('))));
        }
    }

    /** True if a method is called as one of them, whose ever it is. */
    boolean isNamed(String name, String descriptor) {
        return names.contains(name + descriptor);
    }

    /** Null if a call stays as it is. */
    Call instead(String owner, String name, String descriptor) {
        Map<String, Call> methods = byOwner.get(owner);
        return methods == null ? null : methods.get(name + descriptor);
    }
}
