import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;

import javax.security.sasl.SaslException;

import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;
import org.apache.zookeeper.server.quorum.QuorumPeerMain;

/**
 * One member of the ensemble: ZooKeeper's own main class, which the workload can stop and start again.
 *
 * The workload writes its request to a file beside the member's folder, `NUMBER start` or `NUMBER stop`. The answer is in another
 * file, `NUMBER running` or `NUMBER stopped`. Requests outlive a crash. Neither file is in the folder that counts as the node's disk.
 * Nothing here repairs or works around ZooKeeper: it ends as its own main class would.
 *
 *     java Member ID FOLDER CLIENT_ADDRESS SERVERS NAME LATE [KEY=VALUE ...]
 *
 * The member whose name is LATE does not start before the workload asks for it.
 */
public class Member {
    private static final long POLL_MS = 10;
    private static final long STOP_MS = 5000;

    private final Path wish;
    private final Path state;
    private final String config;
    private Peer peer;

    Member(String folder, String config) {
        this.wish = Paths.get(folder + ".wish");
        this.state = Paths.get(folder + ".state");
        this.config = config;
    }

    public static void main(String[] args) throws Exception {
        String folder = args[1];
        write(folder + "/data/myid", args[0] + "\n");
        write(folder + "/conf/zoo.cfg", configuration(args));
        new Member(folder, folder + "/conf/zoo.cfg").serve(args[4].equals(args[5]) ? "0 stop" : "0 start");
    }

    private static String configuration(String[] args) {
        StringBuilder text = new StringBuilder("dataDir=" + args[1] + "/data\n");
        int colon = args[2].lastIndexOf(':');
        text.append("clientPortAddress=" + args[2].substring(0, colon) + "\nclientPort=" + args[2].substring(colon + 1) + "\n");
        for (String server : args[3].split(",")) {
            text.append("server." + server + "\n");
        }
        for (int i = 6; i < args.length; i++) {
            text.append(args[i] + "\n");
        }
        return text.toString();
    }

    /** Writes the file unless it exists: later releases rewrite their configuration themselves. */
    private static void write(String name, String text) throws IOException {
        File file = new File(name);
        if (!file.exists()) {
            file.getParentFile().mkdirs();
            replace(file.toPath(), text);
        }
    }

    private static void replace(Path path, String text) throws IOException {
        Path part = Paths.get(path + ".part");
        Files.write(part, text.getBytes(StandardCharsets.UTF_8));
        Files.move(part, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Starts and stops the peer on request, in the main thread. */
    private void serve(String first) throws Exception {
        Thread.currentThread().setName("member");
        String done = "";
        while (true) {
            String wanted = wanted(first);
            if (!wanted.equals(done)) {
                done = wanted;
                fulfil(wanted);
            }
            Thread.sleep(POLL_MS);
        }
    }

    private String wanted(String otherwise) throws IOException {
        File file = wish.toFile();
        return file.exists() ? new String(Files.readAllBytes(wish), StandardCharsets.UTF_8).trim() : otherwise;
    }

    private void fulfil(String wanted) throws Exception {
        String[] words = wanted.split(" ");
        if (words[1].equals("start") && peer == null) {
            peer = new Peer(config);
            peer.thread.start();
        } else if (words[1].equals("stop") && peer != null) {
            peer.stop();
            peer = null;
        }
        replace(state, words[0] + (peer == null ? " stopped" : " running") + "\n");
    }

    /** ZooKeeper from one start to the next stop. */
    private static final class Peer extends QuorumPeerMain implements Runnable {
        final Thread thread = new Thread(this, "main");
        private final String config;
        private volatile boolean stopping;

        Peer(String config) {
            this.config = config;
        }

        @Override
        protected QuorumPeer getQuorumPeer() throws SaslException {
            return new StoppedByUs();
        }

        /** Ends the process when ZooKeeper ends, as QuorumPeerMain.main does. */
        @Override
        public void run() {
            int code = 0;
            try {
                initializeAndRun(new String[] {config});
            } catch (IllegalArgumentException | ConfigException e) {
                e.printStackTrace();
                code = 2;
            } catch (Throwable e) {
                e.printStackTrace();
                code = 1;
            }
            if (!stopping) {
                System.out.println("ZooKeeper ended by itself");
                System.exit(code);
            }
        }

        void stop() throws InterruptedException {
            QuorumPeer running = running();
            stopping = true;
            running.shutdown();
            running.join(STOP_MS);
            thread.join(STOP_MS);
            if (running.isAlive() || thread.isAlive()) {
                System.out.println("ZooKeeper does not stop");
            }
        }

        /** Its thread may find the database closed while it is being stopped. Only this pack stops it so, so the exception is not a bug. */
        private final class StoppedByUs extends QuorumPeer {
            StoppedByUs() throws SaslException {
                super();
            }

            @Override
            public void run() {
                try {
                    super.run();
                } catch (RuntimeException e) {
                    if (!stopping) {
                        throw e;
                    }
                    System.out.println("ZooKeeper was stopped on request, with " + e);
                }
            }
        }

        /** Waits until the peer exists, which is some time after its start. */
        private QuorumPeer running() throws InterruptedException {
            while (quorumPeer == null || !quorumPeer.isAlive()) {
                Thread.sleep(POLL_MS);
            }
            return quorumPeer;
        }
    }
}
