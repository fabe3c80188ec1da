package undermine.agent.net;

import java.io.Closeable;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import undermine.agent.faults.SystemErrors;
import undermine.agent.operations.Call;
import undermine.agent.operations.ForeignSocket;
import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;

/**
 * Uses the methods of one class of Netty's sockets, found by reflection once for each class, and raises errors as Netty
 * does.
 *
 * The caller of `of` has set `busy`.
 */
public final class NettySocketClass extends ForeignSocket {
    private static final int SO_TYPE = 3;
    private static final int SO_DOMAIN = 39;
    private static final int AF_INET = 2;
    private static final int AF_INET6 = 10;
    private static final int SOCK_DGRAM = 2;

    private static final ClassValue<NettySocketClass> SIDES = new ClassValue<NettySocketClass>() {
        @Override
        protected NettySocketClass computeValue(Class<?> type) {
            return new NettySocketClass(type, lowestOf(type));
        }
    };

    /** False for pipes, timers and the like. */
    final boolean isSocket;
    private final Class<?> type;
    /** `…channel.`, also if Netty is shipped under another name. */
    private final String prefix;
    private final Method intValue;
    private final Method isOpen;

    private NettySocketClass(Class<?> type, Class<?> lowest) {
        super(AgentCore.current.sites.isOfTarget(lowest.getName()));
        this.type = type;
        boolean hasAddress = false;
        for (Class<?> each = type; each != lowest; each = each.getSuperclass()) {
            hasAddress |= each.getName().endsWith(".unix.Socket");
        }
        isSocket = hasAddress;
        prefix = lowest.getName().substring(0, lowest.getName().length() - "unix.FileDescriptor".length());
        intValue = method(lowest, "intValue");
        isOpen = method(lowest, "isOpen");
    }

    /** Netty's FileDescriptor, the base of its sockets; else the last class below Object. */
    private static Class<?> lowestOf(Class<?> type) {
        Class<?> lowest = type;
        while (!lowest.getName().endsWith(".unix.FileDescriptor") && lowest.getSuperclass() != Object.class) {
            lowest = lowest.getSuperclass();
        }
        return lowest;
    }

    /** True for a socket of Netty's native transport. */
    static boolean isOf(Object handle) {
        return handle != null && handle.getClass().getName().endsWith(".epoll.LinuxSocket");
    }

    static NettySocketClass of(Object socket) {
        return SIDES.get(socket.getClass());
    }

    private static Method method(Class<?> owner, String name, Class<?>... parameters) {
        try {
            Method found = owner.getDeclaredMethod(name, parameters);
            found.setAccessible(true);
            return found;
        } catch (ReflectiveOperationException | RuntimeException absent) {
            throw new IllegalStateException("not seen in this Netty: " + owner.getName() + "." + name, absent);
        }
    }

    private Class<?> sibling(String name) throws ClassNotFoundException {
        return Class.forName(prefix + name, true, type.getClassLoader());
    }

    // --- a socket

    /** The number of its descriptor. */
    int number(Object socket) {
        try {
            return (Integer) intValue.invoke(socket);
        } catch (ReflectiveOperationException trouble) {
            throw new IllegalStateException(trouble);
        }
    }

    Object descriptor(Object socket) {
        return JdkSockets.descriptor(number(socket));
    }

    boolean isOpen(Object socket) {
        try {
            return (Boolean) isOpen.invoke(socket);
        } catch (ReflectiveOperationException trouble) {
            return false;
        }
    }

    boolean isOfInternet(Object socket) {
        int family = isSocket ? JdkSockets.option(descriptor(socket), SO_DOMAIN) : -1;
        return family == AF_INET || family == AF_INET6;
    }

    boolean isOfDatagrams(Object socket) {
        return isOfInternet(socket) && JdkSockets.option(descriptor(socket), SO_TYPE) == SOCK_DGRAM;
    }

    /** Make the program's epoll report the descriptor again. */
    void watch(int epoll, int descriptor, int flags) {
        try {
            method(sibling("epoll.Native"), "epollCtlMod", int.class, int.class, int.class)
                    .invoke(null, epoll, descriptor, flags);
        } catch (InvocationTargetException closed) {
            return;
        } catch (ReflectiveOperationException trouble) {
            AgentCore.current.note(trouble);
        }
    }

    /** The accepted connection, to be closed. */
    @Override
    public Accepted accepted(int descriptor) {
        return new Accepted(this, descriptor);
    }

    static final class Accepted implements Closeable {
        private final NettySocketClass side;
        private final int descriptor;

        Accepted(NettySocketClass side, int descriptor) {
            this.side = side;
            this.descriptor = descriptor;
        }

        @Override
        public void close() throws IOException {
            try {
                method(side.sibling("unix.FileDescriptor"), "close", int.class).invoke(null, descriptor);
            } catch (ReflectiveOperationException trouble) {
                throw new IOException(trouble);
            }
        }
    }

    // --- errors

    /** The error as Netty raises it for the errno. */
    @Override
    public Throwable raised(Call call) {
        ThreadState state = ThreadState.get();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            int number = SystemErrors.numberOf(SystemErrors.nameOf(call.error));
            String op = call.operation.name.substring("net.".length());
            String method = op.equals("connect") ? "handleConnectErrno" : "ioResult";
            method(sibling("unix.Errors"), method, String.class, int.class).invoke(null, op, -number);
        } catch (InvocationTargetException raised) {
            return SystemErrors.bare(raised.getCause());
        } catch (ReflectiveOperationException | RuntimeException | LinkageError trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
        return call.error;
    }

    // --- datagrams

    /** Several datagrams that are received at once. */
    static final class Packets {
        final Object[] all;
        final int offset;

        Packets(Object all, int offset) {
            this.all = (Object[]) all;
            this.offset = offset;
        }
    }

    /** The bytes that were received: in `count` packets, or in one datagram, given by Netty's address of its sender. */
    @Override
    public long received(Object datagram, long count) {
        try {
            if (!(datagram instanceof Packets)) {
                return (Integer) method(datagram.getClass(), "receivedAmount").invoke(datagram);
            }
            Packets packets = (Packets) datagram;
            long sum = 0;
            for (int i = 0; i < count; i++) {
                sum += number(packets.all[packets.offset + i], "count");
            }
            return sum;
        } catch (ReflectiveOperationException | RuntimeException trouble) {
            return 0;
        }
    }

    /** The recipient of the first of several packets, or null. */
    InetSocketAddress recipient(Object packets, int offset) {
        try {
            Object packet = ((Object[]) packets)[offset];
            byte[] address = (byte[]) field(packet, "recipientAddr").get(packet);
            int length = number(packet, "recipientAddrLen");
            InetAddress host = InetAddress.getByAddress(Arrays.copyOf(address, length));
            return new InetSocketAddress(host, number(packet, "recipientPort"));
        } catch (ReflectiveOperationException | RuntimeException | UnknownHostException connected) {
            return null;
        }
    }

    private static int number(Object packet, String name) throws ReflectiveOperationException {
        return field(packet, name).getInt(packet);
    }

    private static Field field(Object packet, String name) throws ReflectiveOperationException {
        Field found = packet.getClass().getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }
}
