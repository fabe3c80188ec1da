import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A program with known facts. A comment `// IO: KINDS` at the end of a line names the kinds of regions of the line's operations;
 * a line without such a comment does no I/O. The main method runs each part, so that an agent can record its call sites.
 */
public class Facts {
    /** Critical regions. */
    static class Locks {
        final Lock lock = new ReentrantLock();
        final ReentrantReadWriteLock both = new ReentrantReadWriteLock();
        final Semaphore permits = new Semaphore(1);
        final OutputStream file;

        Locks(OutputStream file) {
            this.file = file;
        }

        void block() throws IOException {
            file.write(1); // IO: none
            synchronized (this) {
                file.write(2); // IO: critical
            }
            file.write(3); // IO: none
        }

        synchronized void method() throws IOException {
            file.write(1); // IO: critical
        }

        void nested() throws IOException {
            synchronized (lock) {
                synchronized (both) {
                    file.write(1); // IO: critical
                }
                file.write(2); // IO: critical
            }
            file.write(3); // IO: none
        }

        void locked(boolean early) throws IOException {
            lock.lock();
            try {
                file.write(1); // IO: critical
                if (early) {
                    return;
                }
                file.write(2); // IO: critical
            } finally {
                lock.unlock();
            }
            file.write(3); // IO: none
        }

        void tried() throws IOException {
            if (lock.tryLock()) {
                file.write(1); // IO: critical
                lock.unlock();
            } else {
                file.write(2); // IO: none
            }
            file.write(3); // IO: none
        }

        void writing() throws IOException {
            both.writeLock().lock();
            both.readLock().lock();
            both.writeLock().unlock();
            file.write(1); // IO: critical
            both.readLock().unlock();
            file.write(2); // IO: none
        }

        void looped() throws IOException {
            for (int round = 0; round < 2; round++) {
                file.write(1); // IO: none
                try {
                    synchronized (this) {
                        both.getReadLockCount();
                    }
                } catch (IllegalStateException error) {
                    continue;
                }
            }
        }

        void permitted() throws IOException, InterruptedException {
            permits.acquire();
            file.write(1); // IO: critical
            permits.release();
        }

        void called() throws IOException {
            synchronized (this) {
                callee(1);
            }
        }

        private void callee(int value) throws IOException {
            file.write(value); // IO: critical
        }

        void begin() {
            lock.lock();
        }

        void end() {
            lock.unlock();
        }

        void across() throws IOException {
            begin();
            file.write(1); // IO: critical
            end();
            file.write(2); // IO: none
        }

        void listed(List<Integer> values) {
            synchronized (this) {
                values.forEach(value -> put(value));
            }
        }

        private void put(int value) {
            try {
                file.write(value); // IO: critical
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        void later() throws InterruptedException {
            Thread thread;
            synchronized (this) {
                thread = new Thread(this::apart);
                thread.start();
            }
            thread.join(10_000);
        }

        private void apart() {
            try {
                file.write(1); // IO: soft
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** Which calls do I/O. */
    static class Points {
        static void run(File folder) throws IOException {
            ByteArrayOutputStream memory = new ByteArrayOutputStream();
            DataOutputStream data = new DataOutputStream(memory);
            data.writeInt(1);
            data.flush();
            System.err.flush();
            File path = new File(folder, "points");
            try (RandomAccessFile file = new RandomAccessFile(path, "rw")) { // IO: none
                file.write(memory.toByteArray()); // IO: none
                file.getFD().sync(); // IO: none
                file.getChannel().force(true); // IO: none
            } // the end of the block closes the file
            path.renameTo(new File(folder, "renamed")); // IO: none
        }

        static void grouped(RandomAccessFile file, boolean more) throws IOException {
            synchronized (file) {
                file.write(1); // IO: critical
                file.write(2); // IO: critical
                if (more) {
                    file.write(3); // IO: critical
                }
            }
        }
    }

    interface Packet {
        void serialize(OutputStream to) throws IOException;
    }

    static class Ping implements Packet {
        @Override
        public void serialize(OutputStream to) throws IOException {
            to.write(1); // IO: none
        }
    }

    static void send(Packet packet, Ping ping, OutputStream to) throws IOException {
        packet.serialize(to); // named
        ping.serialize(to); // named
    }

    /** Barriers. */
    static class Barriers {
        final CountDownLatch latch = new CountDownLatch(1);
        final CountDownLatch limited = new CountDownLatch(1);
        final CountDownLatch forgotten = new CountDownLatch(1);
        final BlockingQueue<Integer> queue = new LinkedBlockingQueue<>();
        final CompletableFuture<Integer> future = new CompletableFuture<>();
        final Lock lock = new ReentrantLock();
        final Condition changed = lock.newCondition();
        final OutputStream file;
        private boolean done;

        Barriers(OutputStream file) {
            this.file = file;
        }

        void counts() throws IOException {
            file.write(1); // IO: hard
            latch.countDown();
            file.write(2); // IO: none
        }

        void waits() throws InterruptedException {
            latch.await();
            limited.await(5, TimeUnit.SECONDS);
        }

        void countsForLimited() throws IOException {
            file.write(1); // IO: soft
            limited.countDown();
        }

        void countsForNobody() throws IOException {
            file.write(1); // IO: none
            forgotten.countDown();
        }

        void puts() throws IOException, InterruptedException {
            file.write(1); // IO: hard
            queue.put(1);
            file.write(2); // IO: none
        }

        void takes() throws InterruptedException {
            queue.take();
        }

        void completes() throws IOException {
            file.write(1); // IO: hard
            future.complete(1);
        }

        void fetches() throws Exception {
            future.get();
        }

        void notifies() throws IOException {
            file.write(1); // IO: hard
            synchronized (this) {
                done = true;
                notifyAll();
            }
        }

        synchronized void waitsForIt() throws InterruptedException {
            while (!done) {
                wait();
            }
        }

        void signals() throws IOException {
            file.write(1); // IO: soft
            lock.lock();
            changed.signalAll();
            lock.unlock();
        }

        void waitsForSignal() throws InterruptedException {
            lock.lock();
            changed.await(1, TimeUnit.SECONDS);
            lock.unlock();
        }

        void through() throws IOException {
            file.write(1); // IO: hard
            tell();
        }

        private void tell() {
            latch.countDown();
        }
    }

    /** Clocks. */
    static class Time {
        static long now() {
            return System.nanoTime() / 1_000_000;
        }
    }

    static class Clocks {
        final OutputStream file;
        final long limit;
        private long heard;
        private long spent;

        Clocks(OutputStream file) {
            this.file = file;
            limit = Long.getLong("limit", 500);
        }

        boolean elapsed() throws IOException {
            file.write(0); // IO: none
            long start = System.currentTimeMillis();
            file.write(1); // IO: timeout
            long spent = System.currentTimeMillis() - start;
            file.write(2); // IO: none
            return spent > 2000;
        }

        int branches() throws IOException {
            long start = Time.now();
            file.write(1); // IO: timeout
            if (Time.now() - start > limit) {
                return 1;
            }
            return 2;
        }

        void kept() throws IOException {
            long start = System.nanoTime();
            file.write(1); // IO: timeout
            spent = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
            if (spent > 1000) {
                throw new IOException("slow");
            }
        }

        long logged() throws IOException {
            long start = System.nanoTime();
            file.write(1); // IO: none
            return System.nanoTime() - start;
        }

        void deadline() throws IOException {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(3);
            while (System.nanoTime() < deadline) {
                file.write(1); // IO: timeout
            }
        }

        void stored() throws IOException {
            for (int round = 0; round < 3; round++) {
                hear();
                file.write(1); // IO: timeout
                if (idle() > 700) {
                    throw new IOException("timed out");
                }
            }
        }

        private void hear() {
            heard = Time.now();
        }

        private int idle() {
            return (int) (Time.now() - heard);
        }
    }

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        Points.run(folder);
        try (RandomAccessFile file = new RandomAccessFile(new File(folder, "grouped"), "rw")) { // IO: none
            Points.grouped(file, true);
        }
        try (OutputStream file = new FileOutputStream(new File(folder, "file"))) { // IO: none
            run(new Locks(file));
            run(new Barriers(file));
            Clocks clocks = new Clocks(file);
            run(clocks::elapsed, clocks::branches, clocks::kept, clocks::logged, clocks::stored);
            send(new Ping(), new Ping(), file);
        }
    }

    interface Part {
        void run() throws Exception;
    }

    /** One after the other, so that no part is called before another one in the same method. */
    private static void run(Part... parts) throws Exception {
        for (Part part : parts) {
            part.run();
        }
    }

    private static void run(Locks locks) throws Exception {
        run(locks::block, locks::method, locks::nested, () -> locks.locked(false), locks::tried, locks::writing,
                locks::looped, locks::permitted, locks::called, locks::across, () -> locks.listed(List.of(1, 2)), locks::later);
    }

    private static void run(Barriers barriers) throws Exception {
        run(barriers::counts, barriers::countsForLimited, barriers::waits, barriers::countsForNobody, barriers::puts,
                barriers::takes, barriers::completes, barriers::fetches, barriers::notifies, barriers::waitsForIt,
                barriers::signals, barriers::through);
    }
}
