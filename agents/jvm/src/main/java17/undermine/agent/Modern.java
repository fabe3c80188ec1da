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
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;

/** What only newer JVMs have: walking stacks without making texts, and Unix sockets. Loaded by name. */
final class Modern extends Walker {
    private static final int ANSWER_MAX = 1 << 20;
    private static final long PAUSE_NS = 50_000;
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
        long end = System.nanoTime() + timeoutMs * 1_000_000L;
        try (SocketChannel channel = connect(path, end)) {
            String answer = "";
            int from = 0;
            for (int i = 0; i < answers; i++) {
                int to = lines.indexOf('\n', from) + 1;
                send(channel, lines.substring(from, to > 0 ? to : lines.length()), end);
                answer = receive(channel, end);
                from = to;
            }
            return answer;
        }
    }

    private static SocketChannel connect(String path, long end) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.configureBlocking(false);
            boolean isConnected = channel.connect(UnixDomainSocketAddress.of(path));
            while (!isConnected) {
                pause(end);
                isConnected = channel.finishConnect();
            }
            return channel;
        } catch (IOException | RuntimeException error) {
            channel.close();
            throw error;
        }
    }

    private static void send(SocketChannel channel, String line, long end) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Texts.utf8(line));
        while (bytes.hasRemaining()) {
            if (channel.write(bytes) == 0) {
                pause(end);
            }
        }
    }

    private static String receive(SocketChannel channel, long end) throws IOException {
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
                pause(end);
            }
        }
        found.write(part.array(), 0, part.position() - 1);
        return found.toString(StandardCharsets.UTF_8);
    }

    /** Wait a little; not at all if this thread is interrupted. */
    private static void pause(long end) throws IOException {
        if (System.nanoTime() - end > 0) {
            throw new SocketTimeoutException("no answer in time");
        }
        LockSupport.parkNanos(PAUSE_NS);
    }
}
