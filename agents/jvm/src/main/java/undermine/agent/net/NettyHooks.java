package undermine.agent.net;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import undermine.agent.lib.Buffers;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/**
 * Entries of the methods of Netty's native transport. Its sockets never block: see SocketOperations. Unix sockets are
 * never observed.
 *
 * epoll reports a socket only once, when its readiness changes. If the agent makes a ready socket wait, Netty would never
 * ask it again. So the background thread makes epoll report it again, until the socket may continue.
 */
public final class NettyHooks {
    /** The descriptors that the program's epoll watches: the descriptor of the epoll, and its flags. */
    private static final Map<Integer, int[]> WATCHED = new HashMap<Integer, int[]>();
    /** The sockets that were made to wait, by descriptor. */
    private static final Map<Integer, NettySocketClass> WAITING = new HashMap<Integer, NettySocketClass>();
    /** The answer of accept if nobody calls. */
    private static final int NOBODY = -1;
    private static final Connection UNSEEN = Connection.without(null);

    private NettyHooks() {
    }

    // --- connections

    public static boolean connect(Object socket, Object remote) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state) || !(remote instanceof InetSocketAddress)) {
            return false;
        }
        frame.side = sideOf(state, socket);
        return SocketOperations.connecting(state, frame, socket, remote, 0);
    }

    /** Connecting has begun, and may have ended. */
    public static void connecting(Object socket, Object remote) {
        AgentCore agent = AgentCore.current;
        ThreadState state = ThreadState.get();
        if (agent == null || agent.off || state.busy || !(remote instanceof InetSocketAddress)) {
            return;
        }
        state.busy = true;
        try {
            InetSocketAddress local = JdkSockets.localOf(NettySocketClass.of(socket).descriptor(socket));
            agent.peers.told(local == null ? 0 : local.getPort(), (InetSocketAddress) remote);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    /** A socket at an Internet address listens. */
    public static void listen(Object socket) {
        ThreadState state = ThreadState.get();
        if (!SocketOperations.isIdle(state)) {
            return;
        }
        AgentCore agent = AgentCore.current;
        state.busy = true;
        try {
            NettySocketClass side = NettySocketClass.of(socket);
            if (side.isOfInternet(socket)) {
                InetSocketAddress local = JdkSockets.localOf(side.descriptor(socket));
                Connections.put(socket, Connection.without(agent.peers.listening(local)));
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    public static boolean accept(Object socket) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        Connection known = SocketOperations.isIdle(state) ? Connections.get(socket) : null;
        if (known == null || known.subject == null) {
            return false;
        }
        frame.isDescriptor = true;
        frame.isValue = true;
        boolean isTold = begun(state, frame, Ops.accept, socket, known.subject, 0);
        state.answer = isTold ? NOBODY : 0;
        return isTold;
    }

    public static boolean read(Object socket, int from, int to) {
        return onStream(Ops.recv, socket, (long) to - from);
    }

    public static boolean write(Object socket, int from, int to) {
        return onStream(Ops.send, socket, (long) to - from);
    }

    public static boolean write(Object socket, Object buffers, int offset, int length) {
        return onStream(Ops.send, socket, Buffers.remaining(buffers, offset, length));
    }

    /** `count` pieces of memory, given by an array of their addresses and sizes. The sum is found out only if it gets lost. */
    public static boolean writeAll(Object socket, long pieces, int count) {
        ThreadState state = ThreadState.get();
        state.top().isOfUnknownSize = true;
        return isTold(state, onStream(Ops.send, socket, 0), pieces, count);
    }

    private static boolean isTold(ThreadState state, boolean isTold, long pieces, int count) {
        if (isTold && state.answer == MethodEntry.ALL) {
            state.answer = NativeMemory.sizeOf(pieces, count);
        }
        return isTold;
    }

    public static boolean sendFile(Object socket, long size) {
        return onStream(Ops.send, socket, size);
    }

    private static boolean onStream(Operation operation, Object socket, long size) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        return begun(state, frame, operation, socket, subjectOf(state, socket), size);
    }

    /** Begin an operation of a socket that never blocks. */
    private static boolean begun(
            ThreadState state, WovenFrame frame, Operation operation, Object socket, Subject subject, long size) {
        frame.side = subject == null ? null : sideOf(state, socket);
        if (frame.side == null) {
            return false;
        }
        frame.handle = socket;
        boolean isTold = SocketOperations.withoutBlocking(state, frame, operation, subject, socket, size);
        if (isTold && state.answer == 0) { // otherwise the answer is final
            waits(state, socket);
        }
        return isTold;
    }

    public static boolean close(Object socket) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (AgentCore.current == null || state.busy) {
            return false;
        }
        Connection known = Connections.get(socket);
        if (known != null && (known.isClosed || known.subject == null)) {
            return false;
        }
        boolean isNamed = known != null && known.name != null;
        Subject subject = isNamed ? known.subject : closedSubject(state, socket, known);
        if (subject == null) {
            return false;
        }
        frame.side = sideOf(state, socket);
        return SocketOperations.closing(state, frame, socket, subject);
    }

    // --- its subject

    private static Subject subjectOf(ThreadState state, Object socket) {
        Connection known = Connections.get(socket);
        boolean isFound = known != null && (known.subject == null || known.isWhole());
        return isFound ? known.subject : connected(state, socket, known);
    }

    /** The subject of a socket without a name: if this process didn't connect it, the other side called. */
    private static Subject connected(ThreadState state, Object socket, Connection known) {
        InetSocketAddress remote = null;
        InetSocketAddress local = null;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            NettySocketClass side = NettySocketClass.of(socket);
            if (!side.isOfInternet(socket)) {
                Connections.put(socket, UNSEEN);
                return null;
            }
            Object descriptor = side.descriptor(socket);
            remote = JdkSockets.remoteOf(descriptor);
            local = JdkSockets.localOf(descriptor);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
        if (remote == null) {
            return known == null ? null : known.subject;
        }
        return Connections.learn(state, socket, remote, local, "");
    }

    /** The subject of a socket that was never used. */
    private static Subject closedSubject(ThreadState state, Object socket, Connection known) {
        NettySocketClass side = sideOf(state, socket);
        if (side == null || !side.isSocket || !side.isOpen(socket)) {
            return null;
        }
        return isOfDatagrams(state, side, socket) ? datagram(state, socket, null) : connected(state, socket, known);
    }

    private static boolean isOfDatagrams(ThreadState state, NettySocketClass side, Object socket) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            return side.isOfDatagrams(socket);
        } finally {
            state.busy = wasBusy;
        }
    }

    private static NettySocketClass sideOf(ThreadState state, Object socket) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            return NettySocketClass.of(socket);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    // --- datagrams: each one has its own peer

    public static boolean sendTo(Object socket, int from, int to, Object address, int port) {
        return onDatagram(Ops.send, socket, address, port, (long) to - from, null);
    }

    public static boolean sendAllTo(Object socket, long pieces, int count, Object address, int port) {
        ThreadState state = ThreadState.get();
        state.top().isOfUnknownSize = true;
        return isTold(state, onDatagram(Ops.send, socket, address, port, 0, null), pieces, count);
    }

    /** Several datagrams at once are one operation, to the peer of the first one. The size is unknown. */
    public static boolean sendAll(Object socket, Object packets, int offset) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        NettySocketClass side = sideOf(state, socket);
        InetSocketAddress remote = side == null ? null : side.recipient(packets, offset);
        frame.isValue = true;
        return onDatagram(Ops.send, socket, remote == null ? null : remote.getAddress(),
                remote == null ? 0 : remote.getPort(), 0, null);
    }

    /** The sender is known only afterwards. */
    public static boolean receive(Object socket, int from, int to) {
        return onDatagram(Ops.recv, socket, null, 0, (long) to - from, null);
    }

    public static boolean receive(Object socket) {
        return onDatagram(Ops.recv, socket, null, 0, 0, null);
    }

    public static boolean receiveAll(Object socket, Object packets, int offset) {
        return onDatagram(Ops.recv, socket, null, 0, 0, new NettySocketClass.Packets(packets, offset));
    }

    private static boolean onDatagram(
            Operation operation, Object socket, Object address, int port, long size, NettySocketClass.Packets into) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        InetSocketAddress remote = address instanceof InetAddress
                ? new InetSocketAddress((InetAddress) address, port) : null;
        Subject subject = datagram(state, socket, remote);
        frame.datagram = into;
        return begun(state, frame, operation, socket, subject, size);
    }

    /** The subject for this address or, without one, for the peer that the socket is connected to, or anybody. */
    private static Subject datagram(ThreadState state, Object socket, InetSocketAddress remote) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Object descriptor = NettySocketClass.of(socket).descriptor(socket);
            InetSocketAddress local = JdkSockets.localOf(descriptor);
            return Connections.datagram(state, socket, remote == null ? JdkSockets.remoteOf(descriptor) : remote, local);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    // --- waits for descriptors

    /** A wait with a limit. */
    public static boolean poll(int seconds, int nanoseconds) {
        return polling(seconds == Integer.MAX_VALUE ? 0 : Math.max(1, seconds * 1_000_000_000L + nanoseconds));
    }

    /** The same; the returned number has another value in its lower half. */
    public static boolean pollPacked(int seconds, int nanoseconds) {
        ThreadState.get().top().isPacked = true;
        return poll(seconds, nanoseconds);
    }

    /** `milliseconds` less than 0: no limit. */
    public static boolean poll(int milliseconds) {
        return polling(milliseconds < 0 ? 0 : Math.max(1, milliseconds * 1_000_000L));
    }

    public static boolean poll(boolean isAtOnce) {
        return polling(isAtOnce ? 1 : 0);
    }

    private static boolean polling(long limit) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (state.polls++ == 0) {
            frame.call = Observer.poll(state, limit);
        }
        frame.isPoll = true;
        frame.isTaking = true;
        return false;
    }

    // --- sockets that were made to wait

    /**
     * The program's epoll is about to watch a descriptor. Called before it does, so that this knowledge is never
     * outdated.
     */
    public static void watched(int epoll, int descriptor, int flags) {
        synchronized (WATCHED) {
            WATCHED.put(descriptor, new int[] {epoll, flags});
        }
    }

    public static void unwatched(int descriptor) {
        synchronized (WATCHED) {
            WATCHED.remove(descriptor);
            WAITING.remove(descriptor);
        }
    }

    private static void waits(ThreadState state, Object socket) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            NettySocketClass side = NettySocketClass.of(socket);
            synchronized (WATCHED) {
                WAITING.put(side.number(socket), side);
            }
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** Let the sockets that were made to wait be asked again. The caller has set `busy`. */
    public static void wake() {
        synchronized (WATCHED) {
            for (Map.Entry<Integer, NettySocketClass> each : WAITING.entrySet()) {
                int[] found = WATCHED.get(each.getKey());
                if (found != null) {
                    each.getValue().watch(found[0], each.getKey(), found[1]);
                }
            }
            WAITING.clear();
        }
    }
}
