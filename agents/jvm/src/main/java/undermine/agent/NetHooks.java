package undermine.agent;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channel;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLSocket;

/**
 * Entries of the JDK's lowest methods for sockets. True: the method is to answer 0 or nothing at once.
 *
 * What a channel that does not block is asked for in vain leaves no trace; so it is recorded after it was done, unless a
 * step waits before it: then the channel is asked first whether it is ready. Unix sockets are never seen.
 */
public final class NetHooks {
    private NetHooks() {
    }

    static boolean isIdle(ThreadState state) {
        Agent agent = Agent.current;
        return agent != null && !agent.off && !state.busy && state.inside == 0;
    }

    // --- java.net.Socket

    public static boolean connect(Object socket, Object remote) {
        ThreadState state = ThreadState.get();
        return connecting(state, state.top(), socket, remote);
    }

    /** The last of connecting: the other side can learn who called. */
    public static void connectedFrom(int localPort, Object remote) {
        Agent agent = Agent.current;
        if (agent != null && !agent.off && remote instanceof InetSocketAddress && localPort > 0) {
            ThreadState state = ThreadState.get();
            boolean wasBusy = state.busy;
            state.busy = true;
            try {
                agent.peers.told(localPort, (InetSocketAddress) remote);
            } catch (Throwable trouble) {
                agent.note(trouble);
            } finally {
                state.busy = wasBusy;
            }
        }
    }

    public static boolean read(Object socket, Object address, int port, Object descriptor, int size) {
        return onSocket(Ops.recv, socket, address, port, descriptor, size);
    }

    public static boolean write(Object socket, Object address, int port, Object descriptor, int size) {
        return onSocket(Ops.send, socket, address, port, descriptor, size);
    }

    private static boolean onSocket(
            Operation operation, Object socket, Object address, int port, Object descriptor, int size) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (!isIdle(state)) {
            return false;
        }
        Subject subject = subject(state, socket, address, port, descriptor);
        frame.thing = socket;
        return Core.enter(state, frame, operation, subject, size, Frame.RAISE);
    }

    public static boolean close(Object socket, Object address, int port, Object descriptor) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (Agent.current == null || state.busy) {
            return false;
        }
        Connection known = Connections.get(socket);
        if (known != null && known.isClosed) {
            return false;
        }
        Subject subject = subject(state, socket, address, port, descriptor);
        return closing(state, frame, socket, subject);
    }

    static boolean closing(ThreadState state, Frame frame, Object socket, Subject subject) {
        Connections.put(socket, Connection.without(subject).closed());
        return Core.enter(state, frame, Ops.close, subject, 0, Frame.RAISE_AT_END);
    }

    /** What is accepted is put into a socket that was made for it. */
    public static boolean accept(Object socket, Object descriptor, Object accepted) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (!isIdle(state)) {
            return false;
        }
        frame.thing = accepted;
        return Core.enter(state, frame, Ops.accept, listening(state, socket, descriptor), 0, Frame.RAISE);
    }

    /** The subject of a socket that accepts; where it does so is given as an address or by its descriptor. */
    private static Subject listening(ThreadState state, Object socket, Object where) {
        Connection known = Connections.get(socket);
        if (known != null) {
            return known.subject;
        }
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Subject subject = Agent.current.peers.listening(
                    where instanceof InetSocketAddress ? (InetSocketAddress) where : Inside.localOf(where));
            Connections.put(socket, Connection.without(subject));
            return subject;
        } finally {
            state.busy = wasBusy;
        }
    }

    /** The subject of a socket; its address is nothing while it is not connected. */
    private static Subject subject(ThreadState state, Object socket, Object address, int port, Object descriptor) {
        Connection known = Connections.get(socket);
        if (known != null && known.isWhole()) {
            return known.subject;
        }
        if (!(address instanceof InetAddress) || port == 0) {
            return known == null ? null : known.subject;
        }
        return Connections.learn(state, socket, new InetSocketAddress((InetAddress) address, port), descriptor, "");
    }

    /** Somebody whom we call. */
    static Subject called(ThreadState state, InetSocketAddress remote) {
        Agent agent = Agent.current;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            return agent.peers.connected(remote);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return new Subject("other", "", false);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** A socket begins to connect. */
    static boolean connecting(ThreadState state, Frame frame, Object socket, Object remote) {
        if (!isIdle(state) || !(remote instanceof InetSocketAddress)) {
            return false;
        }
        InetSocketAddress address = (InetSocketAddress) remote;
        if (address.isUnresolved()) {
            return false;
        }
        Subject subject = called(state, address);
        Connections.put(socket, Connection.without(subject));
        frame.thing = socket;
        boolean isBegun = false;
        try {
            Core.enter(state, frame, Ops.connect, subject, 0, Frame.RAISE);
            isBegun = true;
        } finally {
            if (!isBegun) {
                Connections.remove(socket); // it was refused: closing it is no event
                Core.undo(Agent.current, state, Ops.connect, socket); // the JDK closes what could not be connected
            }
        }
        return false;
    }

    /** What the connection of a socket is called; nothing while it is not connected. */
    static String nameOf(Socket socket) {
        ThreadState state = ThreadState.get();
        if (!isIdle(state) || !socket.isConnected() || socket.isClosed()) {
            return "";
        }
        if (socket instanceof SSLSocket) {
            Subject subject = secureSubject(state, (SSLSocket) socket);
            return subject == null ? "" : subject.resource;
        }
        Object own = socket.getChannel() != null ? socket.getChannel() : Inside.implementation(state, socket);
        Connection known = own == null ? null : Connections.get(own);
        if (own != null && (known == null || !known.isWhole())) {
            InetSocketAddress remote = new InetSocketAddress(socket.getInetAddress(), socket.getPort());
            InetSocketAddress local = new InetSocketAddress(socket.getLocalAddress(), socket.getLocalPort());
            Connections.learn(state, own, remote, local, "");
        }
        return own == null ? "" : Connections.nameOf(own);
    }

    // --- channels

    public static boolean connectChannel(Object channel, Object remote) {
        return connect(channel, remote);
    }

    /** Connecting has begun, and may have ended. */
    public static void connectingFrom(Object channel, Object descriptor, Object remote) {
        Agent agent = Agent.current;
        if (agent == null || agent.off || !(remote instanceof InetSocketAddress) || ThreadState.get().busy) {
            return;
        }
        connectedFrom(Inside.localPort(descriptor), remote);
    }

    public static boolean readChannel(Object channel, Object remote, Object local, Object descriptor, Object buffer) {
        return onChannel(Ops.recv, channel, remote, local, descriptor, FileHooks.length(buffer));
    }

    public static boolean readChannel(Object channel, Object remote, Object local, Object descriptor, Object buffers,
            int offset, int length) {
        return onChannel(Ops.recv, channel, remote, local, descriptor, FileHooks.remaining(buffers, offset, length));
    }

    public static boolean writeChannel(Object channel, Object remote, Object local, Object descriptor, Object buffer) {
        return onChannel(Ops.send, channel, remote, local, descriptor, FileHooks.length(buffer));
    }

    public static boolean writeChannel(Object channel, Object remote, Object local, Object descriptor, Object buffers,
            int offset, int length) {
        return onChannel(Ops.send, channel, remote, local, descriptor, FileHooks.remaining(buffers, offset, length));
    }

    public static boolean readBlocking(Object channel, Object remote, Object local, int size) {
        return onBlocking(Ops.recv, channel, remote, local, size);
    }

    public static boolean writeBlocking(Object channel, Object remote, Object local, int size) {
        return onBlocking(Ops.send, channel, remote, local, size);
    }

    private static boolean onBlocking(Operation operation, Object channel, Object remote, Object local, int size) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (!isIdle(state)) {
            return false;
        }
        Subject subject = channelSubject(state, channel, remote, local);
        frame.thing = channel;
        return Core.enter(state, frame, operation, subject, size, Frame.RAISE);
    }

    private static boolean onChannel(
            Operation operation, Object channel, Object remote, Object local, Object descriptor, long size) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (!isIdle(state)) {
            return false;
        }
        Subject subject = channelSubject(state, channel, remote, local);
        if (subject == null) {
            return false;
        }
        frame.thing = channel;
        if (((SelectableChannel) channel).isBlocking()) {
            return Core.enter(state, frame, operation, subject, size, Frame.RAISE);
        }
        return size > 0 && withoutBlocking(state, frame, operation, subject, descriptor, size);
    }

    private static Subject channelSubject(ThreadState state, Object channel, Object remote, Object local) {
        if (!(remote instanceof InetSocketAddress)) {
            return null;
        }
        Connection known = Connections.get(channel);
        if (known != null && known.isWhole()) {
            return known.subject;
        }
        Object where = local instanceof InetSocketAddress ? local : null;
        return Connections.learn(state, channel, (InetSocketAddress) remote, where, "");
    }

    /** An operation of a channel that does not block. See the class's comment. */
    static boolean withoutBlocking(
            ThreadState state, Frame frame, Operation operation, Subject subject, Object descriptor, long size) {
        Agent agent = Agent.current;
        Operation seen = Core.seen(agent, state, operation, subject);
        if (seen == null) {
            return false;
        }
        boolean isAsked;
        state.busy = true;
        try {
            if (seen == operation && agent.faults.mustWait(operation, subject, frame.thing, agent.cursor(state))) {
                state.pop();
                return true;
            }
            isAsked = seen == operation && (operation.before.length > 0 || agent.lasting.any());
            if (isAsked && agent.lasting.errorOf(operation, subject) == null
                    && !Inside.isReady(descriptor, operation == Ops.send)) {
                return false;
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
            return false;
        } finally {
            state.busy = false;
        }
        if (isAsked) {
            frame.size = size;
            Call call = Core.begin(
                    agent, state, operation, subject, size, 0, frame.thing, true, Core.isOfCaller(frame));
            return call != null && Core.proceed(agent, state, frame, call);
        }
        frame.late = seen;
        frame.subject = subject;
        frame.size = size;
        frame.since = Clock.now();
        return false;
    }

    public static boolean acceptChannel(Object channel, Object local, Object descriptor) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (!isIdle(state) || !(local instanceof InetSocketAddress)) {
            return false;
        }
        Subject subject = listening(state, channel, local);
        frame.isValue = true;
        if (((SelectableChannel) channel).isBlocking()) {
            return Core.enter(state, frame, Ops.accept, subject, 0, Frame.RAISE);
        }
        frame.thing = channel;
        return withoutBlocking(state, frame, Ops.accept, subject, descriptor, 0);
    }

    /** Any channel: those of sockets count. */
    public static boolean closeChannel(Object channel) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (Agent.current == null || state.busy || !((Channel) channel).isOpen()) {
            return false;
        }
        Connection known = Connections.get(channel);
        if (known != null && known.isClosed) {
            return false;
        }
        boolean isNamed = known != null && (known.name != null || !(channel instanceof SocketChannel));
        Subject subject = isNamed ? known.subject : closedSubject(state, channel);
        return subject != null && closing(state, frame, channel, subject);
    }

    /** Of a channel that was never used; also one that could not be connected. */
    private static Subject closedSubject(ThreadState state, Object channel) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            if (channel instanceof SocketChannel) {
                SocketAddress remote = ((SocketChannel) channel).getRemoteAddress();
                SocketAddress local = remote == null ? null : ((SocketChannel) channel).getLocalAddress();
                Connection known = remote == null ? Connections.get(channel) : null;
                return known != null ? known.subject : channelSubject(state, channel, remote, local);
            }
            boolean isListening = channel instanceof ServerSocketChannel
                    && ((ServerSocketChannel) channel).getLocalAddress() instanceof InetSocketAddress;
            if (isListening) {
                return Agent.current.peers.listening((InetSocketAddress) ((ServerSocketChannel) channel).getLocalAddress());
            }
            return channel instanceof DatagramChannel ? closedSubject(state, (DatagramChannel) channel) : null;
        } catch (Throwable trouble) {
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    private static Subject closedSubject(ThreadState state, DatagramChannel channel) throws IOException {
        SocketAddress remote = channel.getRemoteAddress();
        InetSocketAddress other = remote instanceof InetSocketAddress ? (InetSocketAddress) remote : null;
        return Connections.datagram(state, channel, other, channel.getLocalAddress());
    }

    // --- datagrams: each one has its own peer

    public static boolean sendTo(Object channel, Object descriptor, Object buffer, Object target) {
        boolean isTold = onDatagram(Ops.send, channel, descriptor, target, FileHooks.length(buffer));
        return isTold && isTaken(buffer);
    }

    /** What is lost is taken from its buffer as if it were sent. Always true. */
    private static boolean isTaken(Object buffer) {
        if (ThreadState.get().answer != 0) {
            ((ByteBuffer) buffer).position(((ByteBuffer) buffer).limit());
        }
        return true;
    }

    public static boolean sendTo(Object channel, Object descriptor, Object buffers, int offset, int length, Object target) {
        boolean isTold =
                onDatagram(Ops.send, channel, descriptor, target, FileHooks.remaining(buffers, offset, length));
        for (int i = offset; isTold && i < offset + length; i++) {
            isTaken(((Object[]) buffers)[i]);
        }
        return isTold;
    }

    public static boolean receive(Object channel, Object descriptor, Object buffers, int offset, int length) {
        return onDatagram(Ops.recv, channel, descriptor, null, FileHooks.remaining(buffers, offset, length));
    }

    public static boolean sendPacket(Object channel, Object packet) {
        DatagramPacket data = (DatagramPacket) packet;
        Object target = data != null && data.getAddress() != null && data.getPort() > 0 ? data.getSocketAddress() : null;
        return onDatagram(Ops.send, channel, null, target, data == null ? 0 : data.getLength());
    }

    /** Who sent it is known only afterwards: somebody. */
    public static boolean receive(Object channel, Object descriptor, Object buffer) {
        return onDatagram(Ops.recv, channel, descriptor, null, FileHooks.length(buffer), buffer);
    }

    public static boolean receiveBlocking(Object channel, Object buffer) {
        return onDatagram(Ops.recv, channel, null, null, FileHooks.length(buffer), buffer);
    }

    public static boolean receivePacket(Object channel, Object packet) {
        return onDatagram(Ops.recv, channel, null, null, 0, packet);
    }

    private static boolean onDatagram(
            Operation operation, Object channel, Object descriptor, Object remote, long size) {
        return onDatagram(operation, channel, descriptor, remote, size, null);
    }

    /** A descriptor: the channel may be one that does not block. What is received is put into the last. */
    private static boolean onDatagram(
            Operation operation, Object channel, Object descriptor, Object remote, long size, Object into) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (!isIdle(state)) {
            return false;
        }
        Subject subject = datagramSubject(state, channel, remote);
        frame.thing = channel;
        frame.datagram = into;
        if (descriptor == null || ((SelectableChannel) channel).isBlocking()) {
            return Core.enter(state, frame, operation, subject, size, Frame.RAISE);
        }
        return withoutBlocking(state, frame, operation, subject, descriptor, size);
    }

    /** To an address or, without one, to or from whom the channel is connected to, or anybody. */
    private static Subject datagramSubject(ThreadState state, Object channel, Object remote) {
        boolean isKnown = remote instanceof InetSocketAddress && !((InetSocketAddress) remote).isUnresolved();
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            SocketAddress local = ((DatagramChannel) channel).getLocalAddress();
            Object other = isKnown ? remote : ((DatagramChannel) channel).getRemoteAddress();
            return Connections.datagram(state, channel, (InetSocketAddress) other, local);
        } catch (IOException closed) {
            return new Subject("other", "", false);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** The subject of a connected channel; null if it is none of the Internet, or this is part of something else. */
    static Subject connected(SocketChannel channel) {
        ThreadState state = ThreadState.get();
        return isIdle(state) ? closedSubject(state, channel) : null;
    }

    /** A file that the kernel copies to a channel: how much it is will be known afterwards. */
    static boolean sendFile(SocketChannel channel, Subject subject) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        frame.thing = channel;
        if (channel.isBlocking()) {
            return Core.enter(state, frame, Ops.send, subject, 0, Frame.RAISE);
        }
        return withoutBlocking(state, frame, Ops.send, subject, Inside.descriptorOf(state, channel), 0);
    }

    // --- TLS: the payload

    public static boolean readSecure(Object socket, int size) {
        return onSecure(Ops.recv, socket, size);
    }

    public static boolean writeSecure(Object socket, int size) {
        return onSecure(Ops.send, socket, size);
    }

    /** What a program asks for itself; else the first reading or writing does it. It brings no payload. */
    public static boolean handshake(Object socket) {
        return onSecure(Ops.recv, socket, 0);
    }

    private static boolean onSecure(Operation operation, Object socket, int size) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        if (!isIdle(state)) {
            return false;
        }
        frame.thing = socket;
        return Core.enter(state, frame, operation, secureSubject(state, (SSLSocket) socket), size, Frame.RAISE);
    }

    public static boolean closeSecure(Object socket) {
        ThreadState state = ThreadState.get();
        Frame frame = state.top();
        SSLSocket secure = (SSLSocket) socket;
        if (Agent.current == null || state.busy || secure.isClosed() || !secure.isConnected()) {
            return false;
        }
        Connection known = Connections.get(socket);
        if (known != null && known.isClosed) {
            return false;
        }
        return closing(state, frame, socket, secureSubject(state, secure));
    }

    private static Subject secureSubject(ThreadState state, SSLSocket socket) {
        Connection known = Connections.get(socket);
        if (known != null && known.isWhole()) {
            return known.subject;
        }
        InetAddress address = ((Socket) socket).getInetAddress();
        if (address == null) {
            return null;
        }
        InetSocketAddress remote = new InetSocketAddress(address, socket.getPort());
        if (known == null && socket.getUseClientMode()) {
            Connections.put(socket, Connection.without(called(state, remote)));
        }
        InetSocketAddress local = new InetSocketAddress(((Socket) socket).getLocalAddress(), socket.getLocalPort());
        return Connections.learn(state, socket, remote, local, Connections.TLS);
    }
}
