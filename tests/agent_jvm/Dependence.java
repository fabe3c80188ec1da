import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.logging.Logger;

/**
 * A program with known dependences. In a method, a call of `first` or `read` is the operation that a question is about, and
 * `second` the one that may depend on it. The comment of a method has the answer.
 */
public class Dependence {
    static final Logger LOG = Logger.getLogger("x");
    static volatile boolean done;
    static int kept;

    static boolean first(File file) {
        return file.exists();
    }

    static int second(File file) throws IOException {
        try (FileInputStream in = new FileInputStream(file)) {
            return in.read();
        }
    }

    static String opened(File file) throws IOException {
        if (!file.canRead()) {
            throw new IOException("no");
        }
        return file.getName();
    }

    /** Does `first` control `second`? */
    static class Controls {
        private boolean valid;
        private int state;

        // CONTROLS: yes
        void branch(File file) throws IOException {
            if (first(file)) {
                second(file);
            }
        }

        // CONTROLS: yes
        void early(File file) throws IOException {
            if (!first(file)) {
                return;
            }
            second(file);
        }

        // CONTROLS: yes
        void variable(File file) throws IOException {
            boolean there = first(file) && file.length() > 0;
            LOG.info("looked");
            if (there) {
                second(file);
            }
        }

        // CONTROLS: yes
        void flag(File file) throws IOException {
            int mode = 0;
            if (first(file)) {
                mode = 1;
            }
            if (mode == 1) {
                second(file);
            }
        }

        // CONTROLS: yes
        void field(File file) throws IOException {
            valid = first(file);
            state++;
            if (valid) {
                second(file);
            }
        }

        // CONTROLS: yes
        void loop(List<File> files) throws IOException {
            for (File file : files) {
                if (!first(file)) {
                    continue;
                }
                second(file);
            }
        }

        // CONTROLS: yes
        void waits(File file) throws Exception {
            while (!first(file)) {
                Thread.sleep(1);
            }
            second(file);
        }

        // CONTROLS: yes
        void ternary(File file) throws IOException {
            int found = first(file) ? second(file) : 0;
            state = found;
        }

        // CONTROLS: yes
        void collected(List<File> files) throws IOException {
            List<File> good = new ArrayList<>();
            for (File file : files) {
                if (first(file)) {
                    good.add(file);
                }
            }
            for (File file : good) {
                second(file);
            }
        }

        // CONTROLS: no
        void counted(File file) throws IOException {
            if (first(file)) {
                metrics.add(1);
            }
            if (metrics.isOn()) {
                second(file);
            }
        }

        private final Metrics metrics = new Metrics();

        // CONTROLS: no
        void unrelated(File file, boolean other) throws IOException {
            first(file);
            if (other) {
                second(file);
            }
        }

        // CONTROLS: no
        void both(File file) throws IOException {
            if (first(file)) {
                LOG.info("there");
            }
            second(file);
        }

        // CONTROLS: no
        void last(File file) throws IOException {
            try {
                if (!first(file)) {
                    return;
                }
                LOG.info("there");
            } finally {
                second(file);
            }
        }

        // CONTROLS: no
        void overwritten(File file) throws IOException {
            boolean there = first(file);
            LOG.info("it is " + there);
            there = file.length() > 0;
            if (there) {
                second(file);
            }
        }

        // CONTROLS: no
        void otherField(File file) throws IOException {
            valid = first(file);
            if (state > 0) {
                second(file);
            }
        }
    }

    /** Does `opened`, which throws an exception, control `second`? */
    static class Failures {
        // CONTROLS: yes
        void caught(File file) throws IOException {
            try {
                opened(file);
            } catch (IOException e) {
                return;
            }
            second(file);
        }

        // CONTROLS: yes
        void uncaught(File file) throws IOException {
            opened(file);
            second(file);
        }
    }

    /** What harm does `read` do? */
    static class Harm {
        OutputStream out;
        final BlockingQueue<Integer> queue = new LinkedBlockingQueue<>();
        private int last;
        private final int[] counts = new int[3];

        static int read(DataInputStream in) throws IOException {
            return in.readInt();
        }

        // IMPACT: raise
        void checks(DataInputStream in) throws IOException {
            if (read(in) != 17) {
                throw new IOException("bad magic");
            }
        }

        // IMPACT: error
        void logs(File file) {
            long size = file.length();
            if (size == 0) {
                LOG.severe("empty");
            }
        }

        // IMPACT: send
        void sends(File file, Socket to) throws IOException {
            OutputStream stream = to.getOutputStream();
            int size = (int) file.length();
            to.connect(null, size);
        }

        // IMPACT: start
        void starts(File file) {
            if (file.exists()) {
                new Thread(() -> LOG.info("x")).start();
            }
        }

        // IMPACT: event
        void queues(File file) throws InterruptedException {
            queue.put((int) file.length());
        }

        // IMPACT: kept
        void keeps(File file) {
            last = (int) file.length();
        }

        // IMPACT: kept
        void keepsInArray(File file) {
            counts[1] = (int) file.length();
        }

        // IMPACT: none
        void ignores(File file) {
            long size = file.length();
            LOG.info("size " + size);
        }

        // IMPACT: none
        void returnsEarly(File file) {
            if (!file.exists()) {
                return;
            }
            LOG.info("there");
        }

        // IMPACT: raise
        void passes(File file) {
            check(file.length(), 5);
        }

        private static void check(long size, int least) {
            if (size < least) {
                throw new IllegalStateException("short");
            }
        }

        // IMPACT: error
        void decides(File file) {
            if (!file.exists()) {
                complain();
            }
        }

        private static void complain() {
            LOG.severe("missing");
        }

        // IMPACT: raise
        void fails(DataInputStream in) throws IOException {
            in.readInt();
        }

        // IMPACT: error
        void catches(DataInputStream in) {
            try {
                in.readInt();
            } catch (IOException e) {
                LOG.severe("cannot read");
            }
        }

        // IMPACT: none
        void swallows(DataInputStream in) {
            try {
                in.readInt();
            } catch (IOException e) {
                LOG.info("cannot read");
            }
        }

        // IMPACT: raise
        void intoBuffer(FileInputStream in) throws IOException {
            byte[] buffer = new byte[4];
            try {
                in.read(buffer);
            } catch (IOException e) {
                return;
            }
            if (buffer[0] != 1) {
                throw new IllegalStateException("bad");
            }
        }

        void each(List<File> files) {
            List<Long> sizes = new ArrayList<>();
            files.forEach(file -> sizes.add(file.length()));
            if (sizes.contains(0L)) {
                LOG.severe("empty");
            }
        }

        // IMPACT: unknown
        void locks(File file) {
            synchronized (file.list()) {
                LOG.info("locked");
            }
        }

        // IMPACT: unknown
        void escapes(File file, Sink sink) {
            sink.take(file.length());
        }
    }

    static class Metrics {
        int count;

        void add(int more) {
            count += more;
        }

        boolean isOn() {
            return true;
        }
    }

    interface Sink {
        void take(long value);
    }

    /** Which limit has the loop around the wait? */
    static class Loops {
        final Object lock = new Object();
        final ReentrantLock mutex = new ReentrantLock();
        final Condition condition = mutex.newCondition();
        boolean ready;

        static long now() {
            return System.nanoTime() / 1_000_000;
        }

        // LOOP: none
        void once() throws InterruptedException {
            Thread.sleep(1);
        }

        // LOOP: endless
        void polls() throws InterruptedException {
            while (!done) {
                Thread.sleep(1);
            }
        }

        // LOOP: serving
        void serves() {
            while (true) {
                try {
                    Thread.sleep(1);
                } catch (InterruptedException e) {
                    LOG.info("again");
                }
            }
        }

        // LOOP: clock
        boolean deadline(long limit) throws InterruptedException {
            long end = System.currentTimeMillis() + limit;
            while (!done) {
                if (System.currentTimeMillis() > end) {
                    return false;
                }
                Thread.sleep(1);
            }
            return true;
        }

        // LOOP: clock
        void remaining(long limit) throws InterruptedException {
            long end = now() + limit;
            synchronized (lock) {
                long left = limit;
                while (!ready && left > 0) {
                    lock.wait(left);
                    left = end - now();
                }
            }
        }

        // LOOP: clock
        boolean nanos(long limit) throws InterruptedException {
            long left = TimeUnit.MILLISECONDS.toNanos(limit);
            mutex.lock();
            try {
                while (!ready) {
                    if (left <= 0) {
                        return false;
                    }
                    left = condition.awaitNanos(left);
                }
                return true;
            } finally {
                mutex.unlock();
            }
        }

        // LOOP: count
        void retries() throws InterruptedException {
            for (int tries = 0; tries < 10 && !done; tries++) {
                Thread.sleep(1);
            }
        }

        // LOOP: endless
        void measures() throws InterruptedException {
            long begun = System.currentTimeMillis();
            while (!done) {
                LOG.info("waited for " + (System.currentTimeMillis() - begun));
                Thread.sleep(1);
            }
        }

        // LOOP: endless
        void countsOther() throws InterruptedException {
            int errors = 0;
            while (!done) {
                Thread.sleep(1);
                if (ready) {
                    errors++;
                    if (errors > 3) {
                        return;
                    }
                }
            }
        }

        // LOOP: count
        void items(List<Long> pauses) throws InterruptedException {
            for (long pause : pauses) {
                Thread.sleep(pause);
            }
        }

        // LOOP: endless
        void nested(List<Long> pauses) throws InterruptedException {
            while (!done) {
                for (long pause : pauses) {
                    Thread.sleep(pause);
                }
            }
        }
    }
}
