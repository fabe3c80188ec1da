package undermine.agent;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.StackWalker.StackFrame;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.Spliterator;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;

/** What only newer JVMs have: walking stacks without making texts, and Unix sockets. Loaded by name. */
final class Modern extends Walker {
    private static final int ANSWER_MAX = 1 << 20;
    private static final long SPIN_NS = 2_000_000;
    private static final long PAUSE_NS = 1_000_000;
    private static final int FRAMES_EXPECTED = 16;

    private final StackWalker walker =
        StackWalker.getInstance(Set.of(StackWalker.Option.RETAIN_CLASS_REFERENCE), FRAMES_EXPECTED);

    @Override
    Stack here(Sites sites, Cursor cursor) {
        Walk walk = (Walk) cursor.walk;
        if (walk == null) {
            walk = new Walk(sites, cursor);
            cursor.walk = walk;
        }
        return walker.walk(walk);
    }

    /** A thread's walks, one at a time. */
    private static final class Walk implements Function<Stream<StackFrame>, Stack>, Consumer<StackFrame> {
        private final Sites sites;
        private final Cursor cursor;
        private int count;
        private int hash;
        /** The innermost frame outside the agent, for stacks without any of the target's. */
        private StackFrame innermost;

        Walk(Sites sites, Cursor cursor) {
            this.sites = sites;
            this.cursor = cursor;
        }

        @Override
        public Stack apply(Stream<StackFrame> stream) {
            count = 0;
            hash = Sites.HASH_START;
            Spliterator<StackFrame> frames = stream.spliterator();
            int left = Sites.WALK_MAX;
            while (count < Sites.DEPTH_MAX && left > 0 && frames.tryAdvance(this)) {
                left--;
            }
            StackFrame inner = innermost;
            innermost = null;
            if (count > 0) {
                return sites.stack(cursor, cursor.frames, count, hash);
            }
            if (inner == null) {
                return sites.nowhere(cursor);
            }
            return sites.alone(cursor, find(sites.code(inner.getDeclaringClass()), inner));
        }

        @Override
        public void accept(StackFrame frame) {
            Code code = sites.code(frame.getDeclaringClass());
            if (code.isOwn) {
                Site found = find(code, frame);
                cursor.frames[count++] = found;
                hash = Sites.mix(hash, found.id);
            } else if (innermost == null && !code.isAgents) {
                innermost = frame;
            }
        }

        private Site find(Code code, StackFrame frame) {
            int bci = frame.getByteCodeIndex();
            Site found = code.at(bci);
            if (found == Code.ASK) {
                found = code.at(frame.getMethodName(), bci);
            }
            if (found == Code.ASK) {
                found = code.at(frame.getMethodName() + frame.getDescriptor(), bci);
            }
            return found != null ? found : define(frame, bci);
        }

        private Site define(StackFrame frame, int bci) {
            return sites.define(cursor, frame.getDeclaringClass(), frame.getMethodName(), frame.getDescriptor(), bci,
                frame.getLineNumber());
        }
    }

    /**
     * Connect to a Unix socket, send the lines, each when the answer to the one before has come, and return the last
     * answer. The channel never blocks, so an interrupt of this thread neither closes it nor gets lost.
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
        ByteBuffer bytes = ByteBuffer.wrap(Texts.utf8(line));
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
     * Waiting for the tool, which mostly answers at once. By yielding and sleeping: to park the thread would eat a permit
     * that the program gave it, and it might never wake up from its own parking.
     */
    private static final class Patience {
        private final long start = System.nanoTime();
        private final long limitNs;

        Patience(int timeoutMs) {
            limitNs = timeoutMs * 1_000_000L;
        }

        /** Wait a little. */
        void pause() throws IOException {
            long passed = System.nanoTime() - start;
            if (passed > limitNs) {
                throw new SocketTimeoutException("no answer in time");
            }
            if (passed < SPIN_NS) {
                Thread.yield();
            } else {
                Hold.sleep(PAUSE_NS);
            }
        }
    }
}
