package undermine.agent.net;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.channels.Channel;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import undermine.agent.lib.Buffers;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/** Entries of the lowest methods of socket channels in the JDK. True: the method answers 0 or nothing at once. */
public final class ChannelHooks {
    private ChannelHooks() {
    }

    public static boolean connectChannel(Object channel, Object remote) {
        return SocketHooks.connect(channel, remote, 0);
    }

    public static boolean connectChannel(Object channel, Object remote, long timeoutNs) {
        return SocketHooks.connect(channel, remote, (int) Math.min(Integer.MAX_VALUE, (timeoutNs + 999999) / 1000000));
    }

    /** Connecting has begun, and may have ended. */
    public static void connectingFrom(Object channel, Object descriptor, Object remote) {
        AgentCore agent = AgentCore.current;
        if (agent == null || agent.off || !(remote instanceof InetSocketAddress) || ThreadState.get().busy) {
            return;
        }
        SocketHooks.connectedFrom(JdkSockets.localPort(descriptor), remote);
    }

    public static boolean readChannel(Object channel, Object remote, Object local, Object descriptor, Object buffer) {
        return onChannel(Ops.recv, channel, remote, local, descriptor, Buffers.length(buffer));
    }

    public static boolean readChannel(Object channel, Object remote, Object local, Object descriptor, Object buffers,
            int offset, int length) {
        return onChannel(Ops.recv, channel, remote, local, descriptor, Buffers.remaining(buffers, offset, length));
    }

    public static boolean writeChannel(Object channel, Object remote, Object local, Object descriptor, Object buffer) {
        boolean isTold = onChannel(Ops.send, channel, remote, local, descriptor, Buffers.length(buffer));
        if (isTold && ThreadState.get().answer != 0) {
            Buffers.take(buffer); // it is lost
        }
        return isTold;
    }

    public static boolean writeChannel(Object channel, Object remote, Object local, Object descriptor, Object buffers,
            int offset, int length) {
        boolean isTold =
                onChannel(Ops.send, channel, remote, local, descriptor, Buffers.remaining(buffers, offset, length));
        if (isTold && ThreadState.get().answer != 0) {
            Buffers.take(buffers, offset, length);
        }
        return isTold;
    }

    public static boolean readBlocking(Object channel, Object remote, Object local, int size) {
        return onBlocking(Ops.recv, channel, remote, local, size);
    }

    public static boolean writeBlocking(Object channel, Object remote, Object local, int size) {
        return onBlocking(Ops.send, channel, remote, local, size);
    }

    private static boolean onBlocking(Operation operation, Object channel, Object remote, Object local, int size) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        Subject subject = channelSubject(state, channel, remote, local);
        frame.handle = channel;
        return MethodEntry.enter(state, frame, operation, subject, size, WovenFrame.RAISE);
    }

    private static boolean onChannel(
            Operation operation, Object channel, Object remote, Object local, Object descriptor, long size) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        Subject subject = channelSubject(state, channel, remote, local);
        if (subject == null) {
            return false;
        }
        frame.handle = channel;
        if (((SelectableChannel) channel).isBlocking()) {
            return MethodEntry.enter(state, frame, operation, subject, size, WovenFrame.RAISE);
        }
        return size > 0 && SocketOperations.withoutBlocking(state, frame, operation, subject, descriptor, size);
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

    public static boolean acceptChannel(Object channel, Object local, Object descriptor) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state) || !(local instanceof InetSocketAddress)) {
            return false;
        }
        Subject subject = SocketOperations.listening(state, channel, local);
        frame.isValue = true;
        if (((SelectableChannel) channel).isBlocking()) {
            return MethodEntry.enter(state, frame, Ops.accept, subject, 0, WovenFrame.RAISE);
        }
        frame.handle = channel;
        return SocketOperations.withoutBlocking(state, frame, Ops.accept, subject, descriptor, 0);
    }

    /** Called for any channel; only those of sockets are recorded. */
    public static boolean closeChannel(Object channel) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (AgentCore.current == null || state.busy || !((Channel) channel).isOpen()) {
            return false;
        }
        Connection known = Connections.get(channel);
        if (known != null && known.isClosed) {
            return false;
        }
        boolean isNamed = known != null && (known.name != null || !(channel instanceof SocketChannel));
        Subject subject = isNamed ? known.subject : closedSubject(state, channel);
        return subject != null && SocketOperations.closing(state, frame, channel, subject);
    }

    /** The subject of a channel that was never used, or couldn't be connected. */
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
                return AgentCore.current.peers.listening((InetSocketAddress) ((ServerSocketChannel) channel).getLocalAddress());
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

    /** The subject of a connected channel; null if it isn't an Internet socket, or this thread isn't recorded now. */
    public static Subject connected(SocketChannel channel) {
        ThreadState state = ThreadState.get();
        return SocketOperations.isIdle(state) ? closedSubject(state, channel) : null;
    }

    /** The kernel copies at most `size` bytes of a file to a channel; the size is known only afterwards. */
    public static boolean sendFile(SocketChannel channel, Subject subject, long size) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        frame.handle = channel;
        frame.isOfUnknownSize = true;
        boolean isTold = channel.isBlocking()
                ? MethodEntry.enter(state, frame, Ops.send, subject, 0, WovenFrame.RAISE)
                : SocketOperations.withoutBlocking(
                        state, frame, Ops.send, subject, JdkSockets.descriptorOf(state, channel), 0);
        if (isTold && state.answer == MethodEntry.ALL) {
            state.answer = size;
        }
        return isTold;
    }
}
