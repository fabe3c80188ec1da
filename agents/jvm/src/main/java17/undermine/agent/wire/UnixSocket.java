package undermine.agent.wire;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import undermine.agent.lib.Utf8;
import undermine.agent.process.Clock;
import undermine.agent.process.Threads;

/** Conversations over a Unix socket. Loaded by name, since the oldest supported JVMs don't have such sockets. */
final class UnixSocket {
    private static final int ANSWER_MAX = 1 << 20;
    private static final long SPIN_NS = 2_000_000;
    private static final long PAUSE_NS = 1_000_000;

    private UnixSocket() {
    }

    /**
     * Connect, send the lines one by one, wait for the answer to each, and return the last answer. The channel never
     * blocks, so an interrupt neither closes it nor gets lost.
     */
    static String talk(String path, String lines, int answers, int timeoutMs) throws IOException {
        Patience patience = new Patience(timeoutMs);
        try (SocketChannel channel = connect(path, patience)) {
            String answer = "";
            int from = 0;
            for (int i = 0; i < answers; i++) {
                int to = lines.indexOf('\n', from) + 1;
                send(channel, lines.substring(from, to > 0 ? to : lines.length()), patience);
                answer = receive(channel, patience);
                from = to;
            }
            return answer;
        }
    }

    private static SocketChannel connect(String path, Patience patience) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.configureBlocking(false);
            boolean isConnected = channel.connect(UnixDomainSocketAddress.of(path));
            while (!isConnected) {
                patience.pause();
                isConnected = channel.finishConnect();
            }
            return channel;
        } catch (IOException | RuntimeException error) {
            channel.close();
            throw error;
        }
    }

    private static void send(SocketChannel channel, String line, Patience patience) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Utf8.bytes(line));
        while (bytes.hasRemaining()) {
            if (channel.write(bytes) == 0) {
                patience.pause();
            }
        }
    }

    private static String receive(SocketChannel channel, Patience patience) throws IOException {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        ByteBuffer part = ByteBuffer.allocate(1 << 13);
        while (part.position() == 0 || part.get(part.position() - 1) != '\n') {
            found.write(part.array(), 0, part.position());
            part.clear();
            int size = channel.read(part);
            if (size < 0 || found.size() > ANSWER_MAX) {
                throw new EOFException("no answer");
            }
            if (size == 0) {
                patience.pause();
            }
        }
        found.write(part.array(), 0, part.position() - 1);
        return found.toString(StandardCharsets.UTF_8);
    }

    /**
     * Waits for the tool, which mostly answers at once. It yields and sleeps: parking would use up a permit of the
     * program, whose own park might then never end.
     */
    private static final class Patience {
        private final long start = System.nanoTime();
        private final long limitNs;

        Patience(int timeoutMs) {
            limitNs = Clock.ofTrueLength(timeoutMs * 1_000_000L);
        }

        /** Wait a moment; throws if the time is up. */
        void pause() throws IOException {
            long passed = System.nanoTime() - start;
            if (passed > limitNs) {
                throw new SocketTimeoutException("no answer in time");
            }
            if (passed < SPIN_NS) {
                Thread.yield();
            } else {
                Threads.sleep(PAUSE_NS);
            }
        }
    }
}
