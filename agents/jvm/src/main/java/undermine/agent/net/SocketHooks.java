package undermine.agent.net;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import javax.net.ssl.SSLSocket;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/** Entries of the lowest methods of java.net.Socket in the JDK. True: the method answers 0 or nothing at once. */
public final class SocketHooks {
    private SocketHooks() {
    }

    public static boolean connect(Object socket, Object remote, int timeoutMs) {
        ThreadState state = ThreadState.get();
        return SocketOperations.connecting(state, state.top(), socket, remote, timeoutMs);
    }

    /** Connecting is done: publish the port, so that the other side knows who called. */
    public static void connectedFrom(int localPort, Object remote) {
        AgentCore agent = AgentCore.current;
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
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        Subject subject = subject(state, socket, address, port, descriptor);
        frame.handle = socket;
        return MethodEntry.enter(state, frame, operation, subject, size, WovenFrame.RAISE);
    }

    public static boolean close(Object socket, Object address, int port, Object descriptor) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (AgentCore.current == null || state.busy) {
            return false;
        }
        Connection known = Connections.get(socket);
        if (known != null && known.isClosed) {
            return false;
        }
        Subject subject = subject(state, socket, address, port, descriptor);
        return SocketOperations.closing(state, frame, socket, subject);
    }

    /** `accepted` is the socket that receives the connection. */
    public static boolean accept(Object socket, Object descriptor, Object accepted) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        frame.handle = accepted;
        Subject subject = SocketOperations.listening(state, socket, descriptor);
        return MethodEntry.enter(state, frame, Ops.accept, subject, 0, WovenFrame.RAISE);
    }

    /** The subject of a socket; null while it isn't connected. */
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

    /** The name of a socket's connection; empty while it isn't connected. */
    public static String nameOf(Socket socket) {
        ThreadState state = ThreadState.get();
        if (!SocketOperations.isIdle(state) || !socket.isConnected() || socket.isClosed()) {
            return "";
        }
        if (socket instanceof SSLSocket) {
            Subject subject = TlsHooks.secureSubject(state, (SSLSocket) socket);
            return subject == null ? "" : subject.resource;
        }
        Object own = socket.getChannel() != null ? socket.getChannel() : JdkSockets.implementation(state, socket);
        Connection known = own == null ? null : Connections.get(own);
        if (own != null && (known == null || !known.isWhole())) {
            InetSocketAddress remote = new InetSocketAddress(socket.getInetAddress(), socket.getPort());
            InetSocketAddress local = new InetSocketAddress(socket.getLocalAddress(), socket.getLocalPort());
            Connections.learn(state, own, remote, local, "");
        }
        return own == null ? "" : Connections.nameOf(own);
    }
}
