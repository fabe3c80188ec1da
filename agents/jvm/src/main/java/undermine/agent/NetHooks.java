package undermine.agent;

import java.net.DatagramPacket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
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
    private static final Known<Peer> SOCKETS = new Known<Peer>();

    private NetHooks() {
    }

    /** Whom a socket talks to. */
    private static final class Peer {
        final Subject subject;
        /** Of somebody who called and is not known yet: where to look again; else null. */
        final InetSocketAddress caller;
        final int localPort;
        final boolean isClosed;

        Peer(Subject subject, InetSocketAddress caller, int localPort, boolean isClosed) {
            this.subject = subject;
            this.caller = caller;
            this.localPort = localPort;
            this.isClosed = isClosed;
        }

        /** False once the port of a caller who was not known has been told by its agent. */
        boolean isCertain() {
            return caller == null
                    || Agent.current.state.callerAt(State.slotOf(caller.getPort(), localPort), caller.getPort()) == 0;
        }
    }

    private static boolean isIdle(ThreadState state) {
        Agent agent = Agent.current;
        return agent != null && !agent.off && !state.busy && state.inside == 0;
    }

    // --- java.net.Socket

    public static boolean connect(Object socket, Object remote) {
        return connected(socket, remote);
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

    public static boolean read(Object socket, Object address, int port, int localPort, int size) {
        return onSocket(Ops.recv, socket, address, port, localPort, size);
    }

    public static boolean write(Object socket, Object address, int port, int localPort, int size) {
        return onSocket(Ops.send, socket, address, port, localPort, size);
    }

    private static boolean onSocket(
            Operation operation, Object socket, Object address, int port, int localPort, int size) {
        ThreadState state = ThreadState.get();
        Frame frame = state.push();
        if (!isIdle(state)) {
            return false;
        }
        Subject subject = subject(state, socket, address, port, localPort);
        frame.thing = socket;
        return Core.enter(state, frame, operation, subject, size, Frame.RAISE);
    }

    public static boolean close(Object socket, Object address, int port, int localPort) {
        ThreadState state = ThreadState.get();
        Frame frame = state.push();
        if (Agent.current == null || state.busy) {
            return false;
        }
        Peer known = SOCKETS.get(socket);
        if (known != null && known.isClosed) {
            return false;
        }
        Subject subject = subject(state, socket, address, port, localPort);
        return closing(state, frame, socket, subject);
    }

    private static boolean closing(ThreadState state, Frame frame, Object socket, Subject subject) {
        SOCKETS.put(socket, new Peer(subject, null, 0, true));
        return Core.enter(state, frame, Ops.close, subject, 0, Frame.RAISE_AT_END);
    }

    /** What is accepted is put into a socket that was made for it. */
    public static boolean accept(Object socket, int localPort, Object accepted) {
        ThreadState state = ThreadState.get();
        Frame frame = state.push();
        if (!isIdle(state)) {
            return false;
        }
        frame.thing = accepted;
        SOCKETS.put(socket, new Peer(Agent.current.peers.listening(), null, localPort, false));
        return Core.enter(state, frame, Ops.accept, Agent.current.peers.listening(), 0, Frame.RAISE);
    }

    /** The subject of a socket; its address is nothing while it is not connected. */
    private static Subject subject(ThreadState state, Object socket, Object address, int port, int localPort) {
        Peer known = SOCKETS.get(socket);
        if (known != null && known.isCertain()) {
            return known.subject;
        }
        if (known == null && (!(address instanceof InetAddress) || port == 0)) {
            return null;
        }
        InetSocketAddress caller = known != null ? known.caller : new InetSocketAddress((InetAddress) address, port);
        return learn(state, socket, caller, localPort);
    }

    /** Somebody called: known now, or to be looked up again. */
    private static Subject learn(ThreadState state, Object socket, InetSocketAddress caller, int localPort) {
        Agent agent = Agent.current;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Subject subject = agent.peers.accepted(caller, localPort);
            boolean isKnown = !subject.target.equals("accepted") || !agent.config.hosts.isEmpty();
            SOCKETS.put(socket, new Peer(subject, isKnown ? null : caller, localPort, false));
            return subject;
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    /** Somebody whom we call. */
    private static Subject called(ThreadState state, InetSocketAddress remote) {
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
    private static boolean connected(Object socket, Object remote) {
        ThreadState state = ThreadState.get();
        Frame frame = state.push();
        if (!isIdle(state) || !(remote instanceof InetSocketAddress)) {
            return false;
        }
        InetSocketAddress address = (InetSocketAddress) remote;
        if (address.isUnresolved()) {
            return false;
        }
        Subject subject = called(state, address);
        SOCKETS.put(socket, new Peer(subject, null, 0, false));
        frame.thing = socket;
        boolean isBegun = false;
        try {
            Core.enter(state, frame, Ops.connect, subject, 0, Frame.RAISE);
            isBegun = true;
        } finally {
            if (!isBegun) {
                SOCKETS.remove(socket); // it was refused: closing it is no event
                Core.undo(Agent.current, state, Ops.connect, socket); // the JDK closes what could not be connected
            }
        }
        return false;
    }

    // --- channels

    public static boolean connectChannel(Object channel, Object remote) {
        return connected(channel, remote);
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
        Frame frame = state.push();
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
        Frame frame = state.push();
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
        Peer known = SOCKETS.get(channel);
        if (known != null && known.isCertain()) {
            return known.subject;
        }
        int localPort = local instanceof InetSocketAddress ? ((InetSocketAddress) local).getPort() : 0;
        return learn(state, channel, (InetSocketAddress) remote, localPort);
    }

    /** An operation of a channel that does not block. See the class's comment. */
    private static boolean withoutBlocking(
            ThreadState state, Frame frame, Operation operation, Subject subject, Object descriptor, long size) {
        Agent agent = Agent.current;
        if (!Core.isSeen(agent, state, operation, subject)) {
            return false;
        }
        boolean isAsked;
        state.busy = true;
        try {
            if (agent.faults.mustWait(operation, subject, frame.thing, agent.cursor(state))) {
                state.pop();
                return true;
            }
            isAsked = operation.before.length > 0 || agent.lasting.any();
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
            Call call = Core.begin(agent, state, operation, subject, size, 0, frame.thing, true);
            return call != null && Core.proceed(agent, state, frame, call);
        }
        frame.late = operation;
        frame.subject = subject;
        frame.size = size;
        frame.since = Clock.now();
        return false;
    }

    public static boolean acceptChannel(Object channel, Object local, Object descriptor) {
        ThreadState state = ThreadState.get();
        Frame frame = state.push();
        if (!isIdle(state) || !(local instanceof InetSocketAddress)) {
            return false;
        }
        Subject subject = Agent.current.peers.listening();
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
        Frame frame = state.push();
        if (Agent.current == null || state.busy || !((Channel) channel).isOpen()) {
            return false;
        }
        Peer known = SOCKETS.get(channel);
        if (known != null && known.isClosed) {
            return false;
        }
        Subject subject = known != null ? known.subject : closedSubject(state, channel);
        return subject != null && closing(state, frame, channel, subject);
    }

    /** Of a channel that was never used. */
    private static Subject closedSubject(ThreadState state, Object channel) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            if (channel instanceof SocketChannel) {
                SocketAddress remote = ((SocketChannel) channel).getRemoteAddress();
                SocketAddress local = remote == null ? null : ((SocketChannel) channel).getLocalAddress();
                return channelSubject(state, channel, remote, local);
            }
            boolean isListening = channel instanceof ServerSocketChannel
                    && ((ServerSocketChannel) channel).getLocalAddress() instanceof InetSocketAddress;
            if (isListening) {
                return Agent.current.peers.listening();
            }
            return channel instanceof DatagramChannel ? new Subject("other", "", false) : null;
        } catch (Throwable trouble) {
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    // --- datagrams: each one has its own peer

    public static boolean sendTo(Object channel, Object descriptor, Object buffer, Object target) {
        return onDatagram(Ops.send, channel, descriptor, target, FileHooks.length(buffer));
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
        Frame frame = state.push();
        if (!isIdle(state)) {
            return false;
        }
        boolean isKnown = remote instanceof InetSocketAddress && !((InetSocketAddress) remote).isUnresolved();
        Subject subject = isKnown ? called(state, (InetSocketAddress) remote)
                : new Subject("other", "", false);
        frame.thing = channel;
        frame.datagram = into;
        if (descriptor == null || ((SelectableChannel) channel).isBlocking()) {
            return Core.enter(state, frame, operation, subject, size, Frame.RAISE);
        }
        return withoutBlocking(state, frame, operation, subject, descriptor, size);
    }

    // --- TLS: the payload

    public static boolean readSecure(Object socket, int size) {
        return onSecure(Ops.recv, socket, size);
    }

    public static boolean writeSecure(Object socket, int size) {
        return onSecure(Ops.send, socket, size);
    }

    private static boolean onSecure(Operation operation, Object socket, int size) {
        ThreadState state = ThreadState.get();
        Frame frame = state.push();
        if (!isIdle(state)) {
            return false;
        }
        frame.thing = socket;
        return Core.enter(state, frame, operation, secureSubject(state, (SSLSocket) socket), size, Frame.RAISE);
    }

    public static boolean closeSecure(Object socket) {
        ThreadState state = ThreadState.get();
        Frame frame = state.push();
        SSLSocket secure = (SSLSocket) socket;
        if (Agent.current == null || state.busy || secure.isClosed() || !secure.isConnected()) {
            return false;
        }
        Peer known = SOCKETS.get(socket);
        if (known != null && known.isClosed) {
            return false;
        }
        return closing(state, frame, socket, secureSubject(state, secure));
    }

    private static Subject secureSubject(ThreadState state, SSLSocket socket) {
        Peer known = SOCKETS.get(socket);
        if (known != null && known.isCertain()) {
            return known.subject;
        }
        InetAddress address = ((Socket) socket).getInetAddress();
        if (address == null) {
            return null;
        }
        InetSocketAddress remote = new InetSocketAddress(address, socket.getPort());
        if (!socket.getUseClientMode()) {
            return learn(state, socket, remote, socket.getLocalPort());
        }
        Subject subject = called(state, remote);
        SOCKETS.put(socket, new Peer(subject, null, 0, false));
        return subject;
    }
}
