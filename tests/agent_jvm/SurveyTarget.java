import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** A program in which the agent looks for variables. Each scenario is a method. */
public class SurveyTarget {
    enum Status { UP, DOWN }

    /** The program fails if one of its own methods is called. */
    static class Peer {
        final String id;
        Status state = Status.UP;
        double load = 0.5;

        Peer(String id) {
            this.id = id;
        }

        @Override
        public int hashCode() {
            return isReady ? fail() : 1;
        }

        @Override
        public boolean equals(Object other) {
            return isReady ? fail() == 0 : this == other;
        }

        @Override
        public String toString() {
            return String.valueOf(fail());
        }

        private static int fail() {
            throw new IllegalStateException("called");
        }
    }

    static class Server {
        protected volatile long epoch = 1;
    }

    static class Node extends Server {
        private final int number = 7;
        private final Thread thread = Thread.currentThread();
        private Thread later;
        private Peer leader;
        private final AtomicReference<Peer> vote = new AtomicReference<Peer>();
        private final AtomicInteger term = new AtomicInteger(3);
        private final Map<String, long[]> view = new LinkedHashMap<String, long[]>();
        private final Map<Peer, Integer> byPeer = new HashMap<Peer, Integer>();
        private final Set<Peer> peers = new HashSet<Peer>();
        private final List<String> members = new ArrayList<String>();

        Node() {
            this(3);
        }

        Node(int count) {
            view.put("s2", new long[] {5, 6});
            members.add("s1");
            for (int i = 0; i < count; i++) {
                Peer peer = new Peer("p" + i);
                peers.add(peer);
                byPeer.put(peer, 10 + i);
            }
        }
    }

    static class Part extends Server {
        private int size = 1;
    }

    /** Is loaded, but nothing initialises it. */
    static final class Late {
        static int value = fail();

        static int fail() {
            throw new IllegalStateException("initialised");
        }
    }

    static volatile boolean isReady;
    static int round;
    static final int LIMIT = 10;
    static final Map<String, Status> STATES = new HashMap<String, Status>();
    static Node node;
    static final List<Object> kept = new ArrayList<Object>();

    public static void main(String[] names) throws Exception {
        for (String name : names) {
            SurveyTarget.class.getDeclaredMethod(name).invoke(null);
        }
    }

    private static void send() throws Exception {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.send(new DatagramPacket(new byte[3], 3, InetAddress.getLoopbackAddress(), 9));
        }
    }

    static void once() throws Exception {
        Class.forName("SurveyTarget$Late", false, SurveyTarget.class.getClassLoader());
        node = new Node();
        STATES.put("s2", Status.DOWN);
        isReady = true;
        send();
    }

    /** Values change until the survey, which pauses, has seen them all. */
    static void changes() throws Exception {
        node = new Node();
        Peer leader = (Peer) node.peers.toArray()[0];
        node.vote.set(leader);
        isReady = true;
        for (round = 1; round <= 50; round++) {
            node.epoch = round;
            node.leader = round < 25 ? null : leader;
            send();
            Thread.sleep(20);
        }
    }

    /** Many instances of a class, and one of another class with the same base. */
    static void many() throws Exception {
        node = new Node();
        for (int i = 0; i < 5; i++) {
            kept.add(new Part());
        }
        isReady = true;
        send();
    }
}
