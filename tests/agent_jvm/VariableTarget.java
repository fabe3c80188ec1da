import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.Selector;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;

/** A program whose variables the agent reads. Each scenario is a method. */
public class VariableTarget {
    enum Status { UP, DOWN }

    /** The program fails if one of its own methods is called. */
    static final class Id {
        private final String text;

        Id(String text) {
            this.text = text;
        }

        @Override
        public String toString() {
            throw new IllegalStateException("called");
        }
    }

    static class Membership {
        private final Map<String, Status> view = Collections.synchronizedMap(new LinkedHashMap<String, Status>());
        private final Map<Id, long[]> epochs = new HashMap<Id, long[]>();
        private final AtomicLong term = new AtomicLong(1);
        final ReentrantLock lock = new ReentrantLock();
        private Object leader;
    }

    static Membership membership;

    public static void main(String[] names) throws Exception {
        membership = new Membership();
        for (String name : names) {
            VariableTarget.class.getDeclaredMethod(name).invoke(null);
        }
    }

    private static void send(int port) throws Exception {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.send(new DatagramPacket(new byte[3], 3, InetAddress.getLoopbackAddress(), port));
        }
    }

    static final class Late {
        static int value = 1;

        static {
            if (true) {
                throw new IllegalStateException("initialised");
            }
        }
    }

    /** Load a class, but don't initialise it. */
    static void load() throws Exception {
        Class.forName("VariableTarget$Late", false, VariableTarget.class.getClassLoader());
    }

    static void changes() throws Exception {
        membership.view.put("s2", Status.UP);
        membership.epochs.put(new Id("a"), new long[] {5, 6});
        send(9);
        membership.view.put("s3", Status.DOWN);
        membership.term.incrementAndGet();
        membership.leader = new Id("x");
        send(9);
        send(9);
        membership.view.remove("s2");
        membership.epochs.clear();
        send(9);
    }

    static void receive() throws Exception {
        try (DatagramSocket mailbox = new DatagramSocket(0, InetAddress.getLoopbackAddress())) {
            send(mailbox.getLocalPort());
            membership.term.set(20);
            mailbox.receive(new DatagramPacket(new byte[3], 3));
        }
    }

    static void connect() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            membership.term.set(30);
            new Socket(server.getInetAddress(), server.getLocalPort()).close();
        }
    }

    /** A thread changes a value, sends nothing and ends. */
    static void thread() throws Exception {
        Thread worker = new Thread("worker") {
            @Override
            public void run() {
                membership.term.set(40);
            }
        };
        worker.start();
        worker.join();
    }

    static void select() throws Exception {
        try (Selector selector = Selector.open()) {
            membership.term.set(50);
            selector.selectNow();
        }
    }

    static void queue() throws Exception {
        membership.term.set(60);
        new LinkedBlockingQueue<String>(Collections.singleton("a")).take();
    }

    static void task() throws Exception {
        ExecutorService pool = Executors.newSingleThreadExecutor();
        pool.submit(new Runnable() {
            @Override
            public void run() {
                membership.term.set(70);
            }
        }).get();
        pool.shutdown();
        while (!pool.isTerminated()) {
            Thread.yield();
        }
    }

    /** A map changes all the time while it is read; `s2` stays. */
    static void busy() throws Exception {
        final Map<String, Status> view = new TreeMap<String, Status>();
        view.put("s2", Status.UP);
        many = view;
        Thread changing = new Thread("changing") {
            @Override
            public void run() {
                for (int i = 0; !isDone; i++) {
                    view.put("t" + i % 100, Status.UP);
                    view.remove("t" + (i + 50) % 100);
                }
            }
        };
        changing.start();
        for (int i = 0; i < 2000; i++) {
            send(9);
        }
        isDone = true;
        changing.join();
        send(9);
    }

    static Map<String, Status> many;
    static volatile boolean isDone;
}
