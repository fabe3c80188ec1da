package undermine.agent.net;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectableChannel;
import undermine.agent.lib.Buffers;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/**
 * Entries of the lowest methods for datagrams in the JDK; each datagram has its own peer. True: answer 0 or nothing at
 * once.
 */
public final class DatagramHooks {
    private DatagramHooks() {
    }

    public static boolean sendTo(Object channel, Object descriptor, Object buffer, Object target) {
        boolean isTold = onDatagram(Ops.send, channel, descriptor, target, Buffers.length(buffer));
        if (isTold && ThreadState.get().answer != 0) {
            Buffers.take(buffer); // it is lost
        }
        return isTold;
    }

    public static boolean sendTo(Object channel, Object descriptor, Object buffers, int offset, int length, Object target) {
        boolean isTold =
                onDatagram(Ops.send, channel, descriptor, target, Buffers.remaining(buffers, offset, length));
        if (isTold && ThreadState.get().answer != 0) {
            Buffers.take(buffers, offset, length);
        }
        return isTold;
    }

    public static boolean receive(Object channel, Object descriptor, Object buffers, int offset, int length) {
        return onDatagram(Ops.recv, channel, descriptor, null, Buffers.remaining(buffers, offset, length));
    }

    public static boolean sendPacket(Object channel, Object packet) {
        DatagramPacket data = (DatagramPacket) packet;
        Object target = data != null && data.getAddress() != null && data.getPort() > 0 ? data.getSocketAddress() : null;
        return onDatagram(Ops.send, channel, null, target, data == null ? 0 : data.getLength());
    }

    /** The sender is known only afterwards. */
    public static boolean receive(Object channel, Object descriptor, Object buffer) {
        return onDatagram(Ops.recv, channel, descriptor, null, Buffers.length(buffer), buffer);
    }

    public static boolean receiveBlocking(Object channel, Object buffer) {
        return onDatagram(Ops.recv, channel, null, null, Buffers.length(buffer), buffer);
    }

    public static boolean receivePacket(Object channel, Object packet) {
        return onDatagram(Ops.recv, channel, null, null, 0, packet);
    }

    private static boolean onDatagram(
            Operation operation, Object channel, Object descriptor, Object remote, long size) {
        return onDatagram(operation, channel, descriptor, remote, size, null);
    }

    /** With a descriptor, the channel may be non-blocking. `into` receives the datagram. */
    private static boolean onDatagram(
            Operation operation, Object channel, Object descriptor, Object remote, long size, Object into) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        Subject subject = datagramSubject(state, channel, remote);
        frame.handle = channel;
        frame.datagram = into;
        if (descriptor == null || ((SelectableChannel) channel).isBlocking()) {
            return MethodEntry.enter(state, frame, operation, subject, size, WovenFrame.RAISE);
        }
        return SocketOperations.withoutBlocking(state, frame, operation, subject, descriptor, size);
    }

    /** The subject for this address or, without one, for the peer that the channel is connected to, or anybody. */
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
}
