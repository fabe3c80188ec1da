import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Queue;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingDeque;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Exchanger;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.Phaser;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SubmissionPublisher;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.concurrent.locks.StampedLock;
import java.util.function.LongSupplier;

/** A program whose hand-overs, waits and bytes are known. Each scenario is a method. */
public class Causal {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Causal.class.getDeclaredMethod(name).invoke(null);
        }
    }

    /** An event that marks this call site: looks for a file of this name. */
    static void mark(String name) {
        Files.exists(Paths.get(name));
    }

    // --- hand-over

    static void threads() throws Exception {
        Thread thread = new Thread(() -> mark("in-thread"), "worker");
        thread.start();
        thread.join();
    }

    /** Two threads at a time without names; virtual ones if the JDK has them. */
    static void nameless() throws Exception {
        CountDownLatch both = new CountDownLatch(2);
        List<Thread> threads = new ArrayList<>();
        for (String name : Arrays.asList("one", "two")) {
            threads.add(started(() -> {
                both.countDown();
                try {
                    both.await();
                } catch (InterruptedException interrupt) {
                    throw new IllegalStateException(interrupt);
                }
                mark(name);
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    static class Worker extends Thread {
        Worker() {
            super("own worker");
        }

        @Override
        public void run() {
            mark("in-worker");
        }
    }

    static class Latest extends LinkedBlockingQueue<Object> {
        private static final long serialVersionUID = 1;
    }

    /** Calls methods of the JDK through classes of the program that extend them. */
    static void inherited() throws Exception {
        Worker worker = new Worker();
        worker.start();
        worker.join();
        Latest latest = new Latest();
        latest.put("one");
        latest.take();
    }

    static void pool() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(1);
        pool.execute(() -> mark("executed"));
        pool.submit(() -> mark("submitted")).get();
        List<Callable<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            all.add(() -> {
                mark("invoked");
                return 1;
            });
        }
        pool.invokeAll(all);
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.SECONDS);
    }

    static void timers() throws Exception {
        ScheduledExecutorService pool = Executors.newScheduledThreadPool(1);
        pool.schedule(() -> mark("scheduled"), 1, TimeUnit.MILLISECONDS).get();
        CountDownLatch twice = new CountDownLatch(2);
        Future<?> again = pool.scheduleAtFixedRate(() -> {
            mark("repeated");
            twice.countDown();
        }, 1, 1, TimeUnit.MILLISECONDS);
        twice.await();
        again.cancel(false);
        pool.shutdown();
        pool.awaitTermination(10, TimeUnit.SECONDS);
        Timer timer = new Timer("timer", true);
        CountDownLatch once = new CountDownLatch(1);
        timer.schedule(new TimerTask() {
            @Override
            public void run() {
                mark("timed");
                once.countDown();
            }
        }, 1);
        once.await();
        timer.cancel();
    }

    static void futures() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(1);
        CompletableFuture<Integer> made = CompletableFuture.supplyAsync(() -> {
            mark("supplied");
            return 1;
        }, pool);
        made.get(10, TimeUnit.SECONDS);
        pool.shutdown();
        CompletableFuture<Integer> later = new CompletableFuture<>();
        CompletableFuture<Void> callback = later.thenAccept(value -> mark("called-back"));
        Thread thread = new Thread(() -> {
            rest();
            later.complete(2);
        }, "completer");
        thread.start();
        later.join();
        thread.join();
        callback.join();
        ForkJoinPool others = new ForkJoinPool(2);
        others.submit(() -> mark("forked")).join();
        others.shutdown();
    }

    /** Callbacks that run when both of two futures are complete, or one of them. */
    static void stages() throws Exception {
        CompletableFuture<Integer> one = new CompletableFuture<>();
        CompletableFuture<Integer> two = new CompletableFuture<>();
        CompletableFuture<Integer> both = one.thenCombine(two, (first, second) -> {
            mark("both");
            return first + second;
        });
        CompletableFuture<Void> either = one.acceptEither(two, value -> mark("either"));
        CompletableFuture.allOf(one, two);
        one.complete(1);
        two.complete(2);
        both.join();
        either.join();
    }

    /** The second item is published while a subscriber still handles the first. */
    static void published() throws Exception {
        CountDownLatch both = new CountDownLatch(2);
        SubmissionPublisher<String> publisher = new SubmissionPublisher<>();
        publisher.consume(name -> {
            longer();
            mark(name);
            both.countDown();
        });
        publisher.submit("one");
        publisher.submit("two");
        both.await();
    }

    /** The same item is published several times: dropped for lack of room, offered to a cancelled subscriber, accepted late. */
    static void refused() throws Exception {
        Asking asking = new Asking();
        SubmissionPublisher<String> publisher = new SubmissionPublisher<>(Runnable::run, 1);
        publisher.subscribe(asking);
        publisher.offer("full", null);
        publisher.offer("same", null);
        asking.next();
        Thread thread = new Thread(() -> {
            longer();
            asking.next();
        });
        publisher.offer("again", null);
        thread.start();
        publisher.submit("same");
        thread.join();
        asking.next();
        asking.from.cancel();
        publisher.submit("same");
        Asking other = new Asking();
        publisher.subscribe(other);
        other.next();
        publisher.submit("same");
    }

    /** Requests one item after the other. */
    static class Asking implements Flow.Subscriber<String> {
        Flow.Subscription from;

        void next() {
            from.request(1);
        }

        public void onSubscribe(Flow.Subscription subscription) {
            from = subscription;
        }

        public void onNext(String item) {
            mark(item);
        }

        public void onError(Throwable error) {
            throw new IllegalStateException(error);
        }

        public void onComplete() {
        }
    }

    static void queues() throws Exception {
        BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
        Thread thread = new Thread(() -> {
            try {
                queue.take();
                mark("taken");
                queue.poll(10, TimeUnit.SECONDS);
                mark("polled");
            } catch (InterruptedException interrupt) {
                throw new IllegalStateException(interrupt);
            }
        }, "consumer");
        thread.start();
        queue.put("one");
        queue.offer("two");
        thread.join();
        Queue<Object> shared = new ConcurrentLinkedQueue<>();
        shared.add("three");
        shared.poll();
        shared.poll();
        ArrayBlockingQueue<Object> few = new ArrayBlockingQueue<>(1);
        few.add("four");
        few.offer("five");
        few.drainTo(new ArrayList<>(Arrays.asList("zero")));
        Queue<Object> plain = new java.util.ArrayDeque<>();
        plain.add("six");
        plain.poll();
    }

    /** Waits until another thread waits, also on a busy machine. */
    static void longer() {
        for (int i = 0; i < 10; i++) {
            rest();
        }
    }

    static void deques() throws Exception {
        BlockingDeque<Object> queue = new LinkedBlockingDeque<>(1);
        Thread thread = new Thread(() -> {
            try {
                queue.pollFirst(10, TimeUnit.SECONDS);
                mark("first");
                queue.pollLast(10, TimeUnit.SECONDS);
                mark("last");
                queue.pollLast(1, TimeUnit.MILLISECONDS);
            } catch (InterruptedException interrupt) {
                throw new IllegalStateException(interrupt);
            }
        }, "consumer");
        thread.start();
        longer();
        queue.offerLast("one", 10, TimeUnit.SECONDS);
        queue.offerFirst("two", 10, TimeUnit.SECONDS);
        thread.join();
        queue.push("three");
        queue.offerLast("four", 1, TimeUnit.MILLISECONDS);
        queue.pop();
        new LinkedTransferQueue<Object>().tryTransfer("five", 1, TimeUnit.MILLISECONDS);
    }

    private static Callable<String> slow(String name) {
        return () -> {
            longer();
            mark(name);
            return name;
        };
    }

    /** Only the JDK knows what is waited for. */
    static void invoked() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(1);
        pool.invokeAll(Arrays.asList(slow("one"), slow("two")));
        pool.invokeAll(Arrays.asList(slow("three")), 10, TimeUnit.SECONDS);
        mark(pool.invokeAny(Arrays.asList(slow("four"))) + " won");
        pool.shutdown();
    }

    static void completed() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(1);
        ExecutorCompletionService<String> done = new ExecutorCompletionService<>(pool);
        done.poll();
        done.submit(slow("one"));
        mark(done.take().get() + " taken");
        done.submit(slow("two"));
        mark(done.poll(10, TimeUnit.SECONDS).get() + " taken");
        pool.shutdown();
    }

    static void terminated() throws Exception {
        for (ExecutorService pool : Arrays.asList(Executors.newFixedThreadPool(1), Executors.newSingleThreadExecutor())) {
            pool.execute(Causal::longer);
            pool.shutdown();
            pool.awaitTermination(10, TimeUnit.SECONDS);
        }
    }

    static void forked() throws Exception {
        ForkJoinPool pool = new ForkJoinPool(1);
        pool.submit(slow("one")).get();
        try {
            pool.submit(() -> {
                longer();
                throw new IllegalStateException("asked for");
            }).join();
        } catch (IllegalStateException expected) {
            mark("raised");
        }
        pool.shutdown();
    }

    /** Both give the same object. */
    static void exchanged() throws Exception {
        Exchanger<String> meeting = new Exchanger<>();
        Thread thread = new Thread(() -> {
            try {
                longer();
                meeting.exchange("it");
                mark("other");
            } catch (InterruptedException interrupt) {
                throw new IllegalStateException(interrupt);
            }
        }, "other");
        thread.start();
        meeting.exchange("it", 10, TimeUnit.SECONDS);
        mark("met");
        thread.join();
        try {
            meeting.exchange("nobody", 1, TimeUnit.MILLISECONDS);
        } catch (TimeoutException expected) {
            mark("alone");
        }
    }

    static void parked() throws Exception {
        Thread main = Thread.currentThread();
        Thread thread = new Thread(() -> {
            longer();
            isTold = true;
            LockSupport.unpark(main);
        }, "waker");
        isTold = false;
        thread.start();
        while (!isTold) {
            LockSupport.park(MONITOR);
        }
        thread.join();
        LockSupport.unpark(null);
        LockSupport.parkUntil(System.currentTimeMillis() + 5);
    }

    static void phased() throws Exception {
        Phaser phaser = new Phaser(1);
        Thread thread = new Thread(() -> {
            longer();
            phaser.arriveAndAwaitAdvance();
        }, "other");
        thread.start();
        phaser.awaitAdvanceInterruptibly(0, 10, TimeUnit.SECONDS);
        thread.join();
    }

    static void accepting() throws Exception {
        try (ServerSocket server = new ServerSocket()) {
            server.setSoTimeout(20);
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            try {
                server.accept();
            } catch (SocketTimeoutException expected) {
                mark("nobody came");
            }
            server.setSoTimeout(0);
            try (Socket socket = new Socket(server.getInetAddress(), server.getLocalPort())) {
                server.accept().close();
            }
        }
    }

    /** Null arguments: the usual exceptions are raised, and later calls work as usual. */
    static void nothing() throws Exception {
        BlockingDeque<Object> queue = new LinkedBlockingDeque<>(1), none = null;
        ExecutorService pool = Executors.newFixedThreadPool(1), noPool = null;
        ExecutorCompletionService<String> done = new ExecutorCompletionService<>(pool), noneDone = null;
        List<Callable<String>> noTasks = null;
        ServerSocket noServer = null;
        Exchanger<Object> noExchanger = null;
        List<Callable<?>> all = Arrays.asList(
                () -> none.pollFirst(1, TimeUnit.SECONDS), () -> none.pollLast(1, TimeUnit.SECONDS),
                () -> none.offerFirst("it", 1, TimeUnit.SECONDS), () -> none.offerLast("it", 1, TimeUnit.SECONDS),
                () -> none.pop(),
                () -> queue.pollFirst(1, null), () -> queue.offerLast("it", 1, null), () -> queue.offerFirst(null, 1, null),
                () -> pool.invokeAll(noTasks), () -> pool.invokeAny(noTasks), () -> pool.awaitTermination(1, null),
                () -> pool.invokeAll(noTasks, 1, null), () -> pool.invokeAny(noTasks, 1, null),
                () -> noPool.invokeAll(noTasks), () -> noPool.awaitTermination(1, TimeUnit.SECONDS),
                () -> done.poll(1, null), () -> noneDone.take(), () -> noneDone.poll(1, TimeUnit.SECONDS),
                () -> noExchanger.exchange("it"), () -> new Exchanger<>().exchange(null, 1, null),
                () -> new Phaser(1).awaitAdvanceInterruptibly(0, 1, null), () -> noServer.accept(),
                () -> new ForkJoinPool(1).invoke(null));
        int raised = 0;
        for (Callable<?> each : all) {
            try {
                each.call();
            } catch (NullPointerException expected) {
                raised++;
            }
        }
        mark(raised + " of " + all.size());
        pool.submit(slow("still")).get();
        pool.shutdown();
    }

    // --- locks and waits

    private static final Object MONITOR = new Object();

    static void rest() {
        try {
            Thread.sleep(30);
        } catch (InterruptedException interrupt) {
            throw new IllegalStateException(interrupt);
        }
    }

    static void monitors() throws Exception {
        Causal own = new Causal();
        synchronized (MONITOR) {
            own.guarded(false);
        }
        own.guarded(false);
        try {
            own.guarded(true);
        } catch (IllegalStateException expected) {
            mark("raised");
        }
        counted(3);
        new Kept().kept();
    }

    /** More frames of the program than a recorded stack holds. */
    static void deep() throws Exception {
        mark("begun");
        synchronized (MONITOR) {
            down(40);
        }
    }

    static void down(int more) {
        if (more > 0) {
            down(more - 1);
        } else {
            mark("bottom");
        }
    }

    /** Many threads in contended monitors; virtual ones if the JDK has them. */
    static void crowded() throws Exception {
        Object[] monitors = new Object[30];
        for (int i = 0; i < monitors.length; i++) {
            monitors[i] = new Object();
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 600; i++) {
            int seed = i;
            threads.add(started(() -> {
                Random random = new Random(seed);
                for (int round = 0; round < 30; round++) {
                    nested(monitors, random, 0);
                }
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Some threads wait while the garbage collector works. */
    static int nested(Object[] monitors, Random random, int depth) {
        if (depth == 5) {
            return random.nextInt(20) == 0 ? new byte[100_000].length : 0;
        }
        synchronized (monitors[depth * 6 + random.nextInt(6)]) {
            return nested(monitors, random, depth + 1);
        }
    }

    private static Thread started(Runnable task) throws Exception {
        try {
            return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        } catch (NoSuchMethodException older) {
            Thread thread = new Thread(task);
            thread.start();
            return thread;
        }
    }

    synchronized int guarded(boolean isRaising) {
        mark("guarded");
        if (isRaising) {
            throw new IllegalStateException("asked for");
        }
        return 7;
    }

    static synchronized long counted(long count) {
        long sum = 0;
        for (long i = 0; i < count; i++) {
            sum += i;
        }
        return sum;
    }

    /** Its default serialVersionUID depends on the flags of its methods. */
    @SuppressWarnings("serial")
    static class Kept implements java.io.Serializable {
        synchronized void kept() {
            mark("kept");
        }
    }

    static volatile boolean isIn;

    /** A monitor without events: first uncontended, then while another thread waits. */
    static void idle() throws Exception {
        mark("begun");
        Thread main = Thread.currentThread();
        Thread thread = new Thread(() -> {
            mark("first");
            synchronized (MONITOR) {
                isIn = true;
                while (main.getState() != Thread.State.BLOCKED) {
                    Thread.onSpinWait();
                }
            }
        }, "holder");
        nested(thread);
        thread.start();
        while (!isIn) {
            Thread.onSpinWait();
        }
        nested(thread);
        thread.join();
        entered(3);
    }

    static void nested(Object other) {
        synchronized (other) {
            synchronized (MONITOR) {
                isIn = false;
            }
        }
    }

    /** Recursion with another monitor at each level; the last level enters the first one again. */
    static void entered(int deeper) {
        Object other = deeper == 1 ? Causal.class : new Object();
        synchronized (deeper == 3 ? Causal.class : other) {
            if (deeper > 0) {
                entered(deeper - 1);
            } else {
                mark("deepest");
            }
        }
    }

    /** A thread stays in a monitor without any event. */
    static void stuck() throws Exception {
        Thread thread = new Thread(() -> {
            mark("first");
            synchronized (MONITOR) {
                isIn = true;
                while (isIn) {
                    Thread.onSpinWait();
                }
            }
        }, "stuck");
        thread.setDaemon(true);
        thread.start();
        while (!isIn) {
            Thread.onSpinWait();
        }
        Files.createFile(Paths.get("ready"));
        while (!Files.exists(Paths.get("go-on"))) {
            Thread.sleep(20);
        }
    }

    static void contended() throws Exception {
        CountDownLatch held = new CountDownLatch(1);
        Thread thread = new Thread(() -> {
            synchronized (MONITOR) {
                held.countDown();
                rest();
            }
        }, "holder");
        thread.start();
        held.await();
        synchronized (MONITOR) {
            mark("entered");
        }
        thread.join();
    }

    static volatile boolean isTold;

    static void notified() throws Exception {
        Thread thread = new Thread(() -> {
            rest();
            synchronized (MONITOR) {
                isTold = true;
                MONITOR.notifyAll();
            }
        }, "notifier");
        thread.start();
        synchronized (MONITOR) {
            while (!isTold) {
                MONITOR.wait();
            }
        }
        thread.join();
    }

    /** A thread that entered a monitor twice waits in it, and another thread enters it meanwhile. */
    static void reentered() throws Exception {
        Thread thread = new Thread(() -> {
            synchronized (MONITOR) {
                isTold = true;
                MONITOR.notifyAll();
            }
        }, "notifier");
        synchronized (MONITOR) {
            isTold = false;
            thread.start();
            for (int i = 0; i < 3; i++) {
                again();
            }
            mark("still in it");
        }
        thread.join();
        again();
    }

    static void again() throws Exception {
        synchronized (MONITOR) {
            while (!isTold) {
                MONITOR.wait();
            }
        }
    }

    static void locks() throws Exception {
        Lock lock = new ReentrantLock();
        Condition condition = lock.newCondition();
        lock.lock();
        lock.lock();
        lock.unlock();
        condition.await(1, TimeUnit.MILLISECONDS);
        condition.signal();
        Runnable unlock = lock::unlock;
        unlock.run();
        lock.tryLock();
        lock.unlock();
        ReentrantReadWriteLock both = new ReentrantReadWriteLock();
        both.readLock().lock();
        both.readLock().unlock();
        both.writeLock().lock();
        both.writeLock().unlock();
        Semaphore semaphore = new Semaphore(1);
        semaphore.acquire();
        semaphore.tryAcquire();
        semaphore.release();
        CyclicBarrier barrier = new CyclicBarrier(1);
        barrier.await();
    }

    /** A writer makes a reader wait; then another kind of lock is tried. */
    static void sides() throws Exception {
        ReentrantReadWriteLock both = new ReentrantReadWriteLock();
        Thread thread = new Thread(() -> {
            both.readLock().lock();
            both.readLock().unlock();
        }, "reader");
        both.writeLock().lock();
        thread.start();
        longer();
        both.writeLock().unlock();
        thread.join();
        StampedLock stamped = new StampedLock();
        long stamp = stamped.tryReadLock();
        stamped.tryWriteLock();
        stamped.tryWriteLock(1, TimeUnit.MILLISECONDS);
        stamped.unlockRead(stamp);
        stamped.unlockWrite(stamped.writeLockInterruptibly());
        stamped.unlock(stamped.readLock());
        stamped.unlock(stamped.writeLock());
    }

    // --- time

    static void times() throws Exception {
        System.currentTimeMillis();
        System.nanoTime();
        java.time.Instant.now();
        Thread.sleep(2);
        TimeUnit.MILLISECONDS.sleep(3);
        try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress()); Socket socket = new Socket()) {
            socket.setSoTimeout(4);
            socket.connect(server.getLocalSocketAddress(), 5000);
            socket.setSoTimeout(6);
            socket.getOutputStream().write(1);
            socket.setSoTimeout(0);
            socket.setSoTimeout(0);
            server.accept().close();
        }
    }

    /** A clock read in a monitor, by a method with other callers too. */
    static void clocks() {
        mark("begun");
        synchronized (MONITOR) {
            looked();
        }
        synchronized (MONITOR) {
            looked();
            mark("inside");
        }
        LongSupplier clock = System::nanoTime;
        clock.getAsLong();
    }

    static long looked() {
        return System.currentTimeMillis();
    }

    /** Limits that are only compared with clocks: each method has one operation within its limit. */
    static void limits() {
        for (int i = 0; i < 3; i++) {
            StringBuilder late = new StringBuilder();
            late.append(elapsed(20_000)).append(turned(19_000)).append(integers(18_000)).append(converted(17_000));
            late.append(divided(16)).append(deadline(15_000)).append(left(14_000_000_000L)).append(assigned(13_000));
            late.append(looped(12_000)).append(unrelated(11_000)).append(empty(10_000)).append(elapsed(-1));
            if (!late.toString().equals("false".repeat(11) + "true")) {
                throw new IllegalStateException(late.toString());
            }
        }
    }

    static boolean elapsed(long limit) {
        long start = System.currentTimeMillis();
        mark("elapsed");
        return System.currentTimeMillis() - start > limit;
    }

    static boolean turned(long limit) {
        long start = System.currentTimeMillis();
        mark("turned");
        long now = System.currentTimeMillis();
        return limit < now - start;
    }

    static boolean integers(int limit) {
        long start = System.currentTimeMillis();
        mark("integers");
        int spent = (int) (System.currentTimeMillis() - start);
        return spent >= limit;
    }

    static boolean converted(long milliseconds) {
        long start = System.nanoTime();
        mark("converted");
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start) > milliseconds;
    }

    static boolean divided(long seconds) {
        long start = System.nanoTime();
        mark("divided");
        return (System.nanoTime() - start) / 1_000_000_000L > seconds;
    }

    static boolean deadline(long limit) {
        long deadline = System.currentTimeMillis() + limit;
        mark("deadline");
        return System.currentTimeMillis() > deadline;
    }

    static boolean left(long limit) {
        long deadline = limit + System.nanoTime();
        mark("left");
        long left = deadline - System.nanoTime();
        return left <= 0;
    }

    static boolean assigned(long limit) {
        long start = System.currentTimeMillis();
        mark("assigned");
        long spent;
        return (spent = System.currentTimeMillis() - start) > limit && spent > 0;
    }

    static boolean looped(long limit) {
        long start = System.currentTimeMillis();
        int rounds = 0;
        while (System.currentTimeMillis() - start < limit && rounds < 5) {
            if (rounds == 2) {
                mark("looped");
            }
            rounds++;
        }
        return rounds < 5;
    }

    /** What is compared isn't a time. */
    static boolean unrelated(long limit) {
        long start = System.currentTimeMillis();
        mark("unrelated");
        long length = System.currentTimeMillis() - start;
        length = "text".length();
        return length > limit;
    }

    /** Nothing that could be slow is between the two reads. */
    static boolean empty(long limit) {
        long start = System.currentTimeMillis();
        return System.currentTimeMillis() - start > limit;
    }

    // --- network

    static void poll() throws Exception {
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        try (Selector selector = Selector.open(); ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(any);
            server.configureBlocking(false);
            server.register(selector, SelectionKey.OP_ACCEPT);
            selector.selectNow();
            selector.select(5);
            try (SocketChannel client = SocketChannel.open(server.getLocalAddress())) {
                selector.select();
                selector.selectedKeys().clear();
                selector.select(key -> mark("selected"));
                client.write(ByteBuffer.wrap(new byte[3]));
            }
            server.accept().close();
        }
    }

    /** Threads that nobody asked wait until the main thread has written files: at a latch, a monitor, a queue and a future. */
    static void barriers() throws Exception {
        CountDownLatch latch = new CountDownLatch(1);
        Object monitor = new Object();
        LinkedBlockingQueue<String> queue = new LinkedBlockingQueue<>();
        CompletableFuture<String> future = new CompletableFuture<>();
        Thread[] waiters = {
            new Thread(() -> quietly(() -> latch.await()), "latch"),
            new Thread(() -> quietly(() -> {
                synchronized (monitor) {
                    monitor.wait();
                }
            }), "monitor"),
            new Thread(() -> quietly(() -> queue.take()), "queue"),
            new Thread(() -> quietly(() -> future.get()), "future"),
        };
        for (Thread waiter : waiters) {
            waiter.start();
            while (waiter.getState() != Thread.State.WAITING) {
                Thread.yield();
            }
        }
        Files.write(Paths.get("before"), new byte[5]);
        latch.countDown();
        synchronized (monitor) {
            monitor.notifyAll();
        }
        queue.put("item");
        future.complete("result");
        Files.write(Paths.get("after"), new byte[5]);
        for (Thread waiter : waiters) {
            waiter.join();
        }
    }

    interface Waiting {
        void run() throws Exception;
    }

    private static void quietly(Waiting waiting) {
        try {
            waiting.run();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static void sendfile() throws Exception {
        Path path = Paths.get("content");
        Files.write(path, new byte[5000]);
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        try (ServerSocketChannel server = ServerSocketChannel.open(); FileChannel file = FileChannel.open(path)) {
            server.bind(any);
            try (SocketChannel client = SocketChannel.open(server.getLocalAddress()); SocketChannel other = server.accept()) {
                file.transferTo(0, 5000, client);
                ByteBuffer into = ByteBuffer.allocate(5000);
                while (into.hasRemaining()) {
                    other.read(into);
                }
            }
        }
    }

    static class Wire {
        void send(Socket socket, String to) throws Exception {
            socket.getOutputStream().write(new byte[9]);
        }
    }

    /** Bytes below a logical operation. */
    static void logical() throws Exception {
        try (ServerSocket server = new ServerSocket(Integer.getInteger("port"), 5, InetAddress.getLoopbackAddress());
                Socket socket = new Socket(server.getInetAddress(), server.getLocalPort());
                Socket other = server.accept()) {
            new Wire().send(socket, "s2");
            other.getInputStream().read(new byte[9]);
        }
    }
}
