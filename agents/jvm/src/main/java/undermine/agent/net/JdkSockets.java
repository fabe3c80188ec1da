package undermine.agent.net;

import java.io.Closeable;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketImpl;
import java.nio.channels.SelectableChannel;
import javax.net.ssl.SSLSocket;
import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;

/** Uses the JDK's private methods for sockets. OpenedPackages makes them accessible; without it nothing is known. */
public final class JdkSockets {
    private static final short POLL_IN = 1;
    private static final short POLL_OUT = 4;
    private static final int SOL_SOCKET = 1;
    private static final int SO_LINGER = 13;
    private static Method poll;
    private static Method localAddress;
    private static Method remoteAddress;
    private static Method intOption;
    private static Method newDescriptor;
    private static Method number;
    private static Method setIntOption;
    private static Method disconnect;
    private static Method duplicate;
    private static boolean isSought;

    private JdkSockets() {
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
            remoteAddress = net.getDeclaredMethod("remoteAddress", FileDescriptor.class);
            remoteAddress.setAccessible(true);
            intOption = net.getDeclaredMethod(
                    "getIntOption0", FileDescriptor.class, boolean.class, int.class, int.class);
            intOption.setAccessible(true);
            Class<?> descriptors = Class.forName("sun.nio.ch.IOUtil", true, null);
            newDescriptor = descriptors.getDeclaredMethod("newFD", int.class);
            newDescriptor.setAccessible(true);
            number = descriptors.getDeclaredMethod("fdVal", FileDescriptor.class);
            number.setAccessible(true);
            poll = net.getDeclaredMethod("poll", FileDescriptor.class, int.class, long.class);
            poll.setAccessible(true);
            seekForDrops(net);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        }
    }

    private static void seekForDrops(Class<?> net) throws ReflectiveOperationException {
        setIntOption = net.getDeclaredMethod("setIntOption0", FileDescriptor.class, boolean.class, int.class, int.class,
                int.class, boolean.class);
        setIntOption.setAccessible(true);
        disconnect = Class.forName("sun.nio.ch.DatagramChannelImpl", true, null)
                .getDeclaredMethod("disconnect0", FileDescriptor.class, boolean.class);
        disconnect.setAccessible(true);
        duplicate = Class.forName("sun.nio.fs.UnixNativeDispatcher", true, null).getDeclaredMethod("dup", int.class);
        duplicate.setAccessible(true);
    }

    /**
     * True if the socket, given by its descriptor or as Netty's, wouldn't block now, or if that is unknown. The caller
     * has set `busy`.
     */
    static boolean isReady(Object socket, boolean sends) {
        seek();
        if (socket == null) {
            return true;
        }
        try {
            Object descriptor = socket instanceof FileDescriptor ? socket : NettySocketClass.of(socket).descriptor(socket);
            return poll == null || (Integer) poll.invoke(null, descriptor, (int) (sends ? POLL_OUT : POLL_IN), 0L) != 0;
        } catch (ReflectiveOperationException trouble) {
            return true; // closed: the operation will fail
        }
    }

    /** A descriptor for the JDK's own methods, or null. The caller has set `busy`. */
    static Object descriptor(int number) {
        seek();
        try {
            return newDescriptor == null ? null : newDescriptor.invoke(null, number);
        } catch (ReflectiveOperationException trouble) {
            return null;
        }
    }

    /** The remote address of an Internet socket, or null. */
    static InetSocketAddress remoteOf(Object descriptor) {
        try {
            InetSocketAddress found = (InetSocketAddress) remoteAddress.invoke(null, descriptor);
            return found.getPort() == 0 ? null : found;
        } catch (ReflectiveOperationException | RuntimeException notConnected) {
            return null;
        }
    }

    /** The local address of an Internet socket, or null. */
    static InetSocketAddress localOf(Object descriptor) {
        seek();
        try {
            return (InetSocketAddress) localAddress.invoke(null, descriptor);
        } catch (ReflectiveOperationException | RuntimeException nowhere) {
            return null;
        }
    }

    /** The value of a socket option; -1 if unknown. */
    static int option(Object descriptor, int name) {
        try {
            return (Integer) intOption.invoke(null, descriptor, false, SOL_SOCKET, name);
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            return -1;
        }
    }

    /** The implementation of a socket, or null. */
    static Object implementation(ThreadState state, Socket socket) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Field field = Socket.class.getDeclaredField("impl");
            field.setAccessible(true);
            Object found = field.get(socket);
            Class<?> delegating = Class.forName("java.net.DelegatingSocketImpl", true, null);
            if (delegating.isInstance(found)) {
                Field inner = delegating.getDeclaredField("delegate");
                inner.setAccessible(true);
                found = inner.get(found);
            }
            return found;
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    /** The descriptor of a channel, or null. */
    static Object descriptorOf(ThreadState state, Object channel) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Method get = Class.forName("sun.nio.ch.SelChImpl", true, null).getMethod("getFD");
            get.setAccessible(true);
            return get.invoke(channel);
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    /** The number of a descriptor; -1 if it is unknown. The caller has set `busy`. */
    public static int number(Object descriptor) {
        seek();
        try {
            return number == null ? -1 : (Integer) number.invoke(null, descriptor);
        } catch (ReflectiveOperationException trouble) {
            return -1;
        }
    }

    // --- connections that lose bytes. The caller has set `busy`.

    /** The descriptor of a channel, of a socket or its implementation, or of Netty's socket; null if it is unknown. */
    static Object descriptorOfAny(Object handle) {
        seek();
        ThreadState state = ThreadState.get();
        try {
            if (handle instanceof SelectableChannel) {
                return descriptorOf(state, handle);
            }
            if (handle instanceof SocketImpl) {
                return field(SocketImpl.class, "fd", handle);
            }
            if (handle instanceof SSLSocket) {
                Object below = field(Class.forName("sun.security.ssl.BaseSSLSocketImpl", true, null), "self", handle);
                return below == handle ? descriptorOfAny(implementation(state, (Socket) handle)) : descriptorOfAny(below);
            }
            if (handle instanceof Socket) {
                Object channel = ((Socket) handle).getChannel();
                return descriptorOfAny(channel == null ? implementation(state, (Socket) handle) : channel);
            }
            return NettySocketClass.isOf(handle) ? NettySocketClass.of(handle).descriptor(handle) : null;
        } catch (ReflectiveOperationException | RuntimeException unknown) {
            return null;
        }
    }

    private static Object field(Class<?> owner, String name, Object of) throws ReflectiveOperationException {
        Field found = owner.getDeclaredField(name);
        found.setAccessible(true);
        return found.get(of);
    }

    /** A stream that reads from a socket. It has a descriptor object of its own, since the program's would keep it. */
    static FileInputStream stream(Object descriptor) {
        return new FileInputStream((FileDescriptor) descriptor(number(descriptor)));
    }

    /** Reset a connection at both ends, and leave the descriptor open. */
    static void reset(Object descriptor) {
        seek();
        try {
            if (disconnect != null && descriptor != null) {
                disconnect.invoke(null, descriptor, true);
            }
        } catch (ReflectiveOperationException closed) {
            return;
        }
    }

    /**
     * A second descriptor of a connection, or null. Closing it resets the connection. Without linger time, the JDK
     * doesn't shut the connection down when the program closes it.
     */
    static Closeable duplicate(Object descriptor) {
        seek();
        try {
            if (duplicate == null || descriptor == null) {
                return null;
            }
            setIntOption.invoke(null, descriptor, false, SOL_SOCKET, SO_LINGER, 0, false);
            return new FileOutputStream((FileDescriptor) descriptor((Integer) duplicate.invoke(null, number(descriptor))));
        } catch (ReflectiveOperationException closed) {
            return null;
        }
    }

    /** Close a socket or channel that was accepted or connected. */
    public static void closeAny(Object handle) throws IOException {
        if (handle instanceof SocketImpl) {
            close((SocketImpl) handle);
        } else if (handle instanceof Closeable) {
            ((Closeable) handle).close();
        }
    }

    /** Close an implementation that no Socket uses yet. */
    private static void close(SocketImpl socket) throws IOException {
        try {
            Method close = SocketImpl.class.getDeclaredMethod("close");
            close.setAccessible(true);
            close.invoke(socket);
        } catch (ReflectiveOperationException trouble) {
            throw new IOException(trouble);
        }
    }

    /** The local port of a socket, or 0. */
    static int localPort(Object descriptor) {
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            InetSocketAddress local = localOf(descriptor);
            return local == null ? 0 : local.getPort();
        } finally {
            state.busy = wasBusy;
        }
    }
}
