package undermine.agent;

import java.io.FileDescriptor;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.SocketImpl;

/** What the JDK does not tell the public of its sockets. Opened to us by Modules; if that fails, nothing is known. */
final class Inside {
    private static final short POLL_IN = 1;
    private static final short POLL_OUT = 4;
    private static Method poll;
    private static Method localAddress;
    private static boolean isSought;

    private Inside() {
    }

    private static synchronized void seek() {
        if (isSought) {
            return;
        }
        isSought = true;
        try {
            Class<?> net = Class.forName("sun.nio.ch.Net", true, null);
            localAddress = net.getDeclaredMethod("localAddress", FileDescriptor.class);
            localAddress.setAccessible(true);
            poll = net.getDeclaredMethod("poll", FileDescriptor.class, int.class, long.class);
            poll.setAccessible(true);
        } catch (Throwable trouble) {
            Agent.current.note(trouble);
        }
    }

    /** True if a socket would not block now, or that cannot be found out. The agent must be at work in this thread. */
    static boolean isReady(Object descriptor, boolean sends) {
        seek();
        try {
            return poll == null || (Integer) poll.invoke(null, descriptor, (int) (sends ? POLL_OUT : POLL_IN), 0L) != 0;
        } catch (ReflectiveOperationException trouble) {
            return true; // closed: let the operation say so
        }
    }

    /** Closes what no socket has been made of yet. */
    static void close(SocketImpl socket) throws IOException {
        try {
            Method close = SocketImpl.class.getDeclaredMethod("close");
            close.setAccessible(true);
            close.invoke(socket);
        } catch (ReflectiveOperationException trouble) {
            throw new IOException(trouble);
        }
    }

    /** The own port of a socket, or 0. */
    static int localPort(Object descriptor) {
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            seek();
            return localAddress == null ? 0 : ((InetSocketAddress) localAddress.invoke(null, descriptor)).getPort();
        } catch (Throwable trouble) {
            return 0;
        } finally {
            state.busy = wasBusy;
        }
    }
}
