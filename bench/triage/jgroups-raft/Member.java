import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.TreeMap;

import org.jgroups.JChannel;
import org.jgroups.protocols.raft.RAFT;
import org.jgroups.protocols.raft.Role;
import org.jgroups.raft.blocks.ReplicatedStateMachine;
import org.jgroups.raft.util.Utils;
import org.jgroups.util.ByteArrayDataInputStream;
import org.jgroups.util.Util;

/**
 * One member of the cluster: the library's own ReplicatedStateMachine behind a line protocol.
 *
 *     java -Draft_id=n1 ... Member HOST PORT FOLDER STACK.xml ALL_FOLDERS
 *
 * Requests and answers are lines of words. `put KEY VALUE`, `get KEY`, `add KEY NUMBER`, `cas KEY OLD NEW`, `dump`, `status`,
 * `led`, `snapshot`, `stop` and `start` get `ok WORDS`, `refused TEXT` (it certainly did not happen) or `error TEXT`.
 *
 * At its first start, a member waits until the members before it in the list have joined, so that views, and with them leaders, are the same in
 * every run. The files for this, and the list of terms in which the member led, are beside the member's folder: they are not
 * the library's, and outlive a crash.
 */
public class Member {
    private static final long WAIT_MS = 15_000;
    private static final long REQUEST_MS = 2000;
    private static final String NONE = "-";

    private final Path led;
    private final String stack;
    private Store store;

    Member(String folder, String stack) {
        this.led = Path.of(folder + ".led");
        this.stack = stack;
    }

    public static void main(String[] args) throws Exception {
        String folder = args[2];
        Member member = new Member(folder, args[3]);
        if (!new File(folder + ".joined").exists()) {
            for (int i = 4; !args[i].equals(folder); i++) {
                await(new File(args[i] + ".joined"));
            }
        }
        member.start();
        Files.writeString(Path.of(folder + ".joined"), "joined\n");
        member.serve(args[0], Integer.parseInt(args[1]));
    }

    private static void await(File file) throws InterruptedException {
        long until = System.nanoTime() + WAIT_MS * 1_000_000;
        while (!file.exists() && System.nanoTime() < until) {
            Thread.sleep(10);
        }
    }

    // -- the library ---------------------------------------------------------------------------------------------------

    private synchronized void start() throws Exception {
        if (store == null) {
            Store made = new Store(new JChannel(stack));
            made.addRoleChangeListener(role -> note(role, made));
            try {
                made.timeout(REQUEST_MS).channel().connect("members");
            } catch (Exception e) {
                made.channel().close();
                throw e;
            }
            store = made;
        }
    }

    private synchronized void stop() {
        if (store != null) {
            store.channel().close();
            store = null;
        }
    }

    private synchronized Store running() {
        return store;
    }

    private void note(Role role, Store of) {
        if (role == Role.Leader) {
            try {
                Files.writeString(led, of.raft().currentTerm() + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                System.out.println("cannot record the term: " + e);
            }
        }
    }

    /** The library's map, with two more commands. Like its own, they are deterministic, and only `apply` changes the map. */
    private static final class Store extends ReplicatedStateMachine<String, String> {
        private static final byte ADD = 10;
        private static final byte CAS = 11;

        Store(JChannel channel) {
            super(channel);
        }

        RAFT raft() {
            return raft.raft();
        }

        String add(String key, String number) throws Exception {
            return invoke(ADD, key, number, false, false);
        }

        String cas(String key, String oldAndNew) throws Exception {
            return invoke(CAS, key, oldAndNew, false, false);
        }

        TreeMap<String, String> copy() {
            synchronized (map) {
                return new TreeMap<>(map);
            }
        }

        @Override
        public byte[] apply(byte[] data, int offset, int length, boolean serialize) throws Exception {
            if (data[offset] != ADD && data[offset] != CAS) {
                return super.apply(data, offset, length, serialize);
            }
            ByteArrayDataInputStream in = new ByteArrayDataInputStream(data, offset + 1, length - 1);
            String key = Util.objectFromStream(in);
            String argument = Util.objectFromStream(in);
            synchronized (map) {
                return Util.objectToByteBuffer(data[offset] == ADD ? added(key, argument) : swapped(key, argument));
            }
        }

        private String added(String key, String number) {
            String sum = String.valueOf(Long.parseLong(map.getOrDefault(key, "0")) + Long.parseLong(number));
            map.put(key, sum);
            return sum;
        }

        private String swapped(String key, String oldAndNew) {
            String[] words = oldAndNew.split(" ");
            if (!map.getOrDefault(key, NONE).equals(words[0])) {
                return "no";
            }
            map.put(key, words[1]);
            return "yes";
        }
    }

    // -- clients -------------------------------------------------------------------------------------------------------

    private void serve(String host, int port) throws IOException {
        try (ServerSocket server = new ServerSocket()) {
            server.setReuseAddress(true);
            server.bind(new InetSocketAddress(InetAddress.getByName(host), port));
            while (true) {
                Socket client = server.accept();
                Thread thread = new Thread(() -> answerAll(client), "client");
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private void answerAll(Socket client) {
        try (client) {
            client.setTcpNoDelay(true);
            BufferedReader in = new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
            OutputStream out = client.getOutputStream();
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.write((answer(line.split(" ")) + "\n").getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException e) {
            System.out.println("a client is gone: " + e);
        }
    }

    private String answer(String[] words) {
        try {
            return "ok " + done(words);
        } catch (Exception e) {
            String kind = e.getClass().getSimpleName().equals("RaftLeaderException") || e instanceof Stopped ? "refused " : "error ";
            return kind + e.toString().replace('\n', ' ');
        }
    }

    private String done(String[] words) throws Exception {
        switch (words[0]) {
            case "start": start(); return "";
            case "stop": stop(); return "";
            case "led": return Files.exists(led) ? Files.readString(led).replace('\n', ' ').trim() : "";
            default:
        }
        Store map = running();
        if (map == null) {
            throw new Stopped();
        }
        switch (words[0]) {
            case "put": return word(map.put(words[1], words[2]));
            case "get": return word(map.get(words[1]));
            case "add": return map.add(words[1], words[2]);
            case "cas": return map.cas(words[1], words[2] + " " + words[3]);
            case "dump": return map.copy().toString().replace(" ", "");
            case "snapshot": map.snapshot(); return "";
            case "status": return status(map.raft());
            default: throw new IllegalArgumentException("unknown request " + words[0]);
        }
    }

    private static String status(RAFT raft) {
        String leader = raft.leader() == null ? NONE : Utils.extractRaftId(raft.leader());
        return String.join(" ", raft.role(), leader, "" + raft.currentTerm(), "" + raft.commitIndex(), "" + raft.lastAppended());
    }

    private static String word(String value) {
        return value == null ? NONE : value;
    }

    private static final class Stopped extends Exception {
        private static final long serialVersionUID = 1;

        Stopped() {
            super("the member is stopped");
        }
    }
}
