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

/** Entries of the methods of TLS sockets in the JDK: the payload is recorded, not the encrypted bytes. */
public final class TlsHooks {
    private TlsHooks() {
    }

    public static boolean readSecure(Object socket, int size) {
        return onSecure(Ops.recv, socket, size);
    }

    public static boolean writeSecure(Object socket, int size) {
        return onSecure(Ops.send, socket, size);
    }

    /** A handshake that the program asks for; otherwise the first read or write does it. It transfers no payload. */
    public static boolean handshake(Object socket) {
        return onSecure(Ops.recv, socket, 0);
    }

    private static boolean onSecure(Operation operation, Object socket, int size) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (!SocketOperations.isIdle(state)) {
            return false;
        }
        frame.handle = socket;
        return MethodEntry.enter(state, frame, operation, secureSubject(state, (SSLSocket) socket), size, WovenFrame.RAISE);
    }

    public static boolean closeSecure(Object socket) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        SSLSocket secure = (SSLSocket) socket;
        if (AgentCore.current == null || state.busy || secure.isClosed() || !secure.isConnected()) {
            return false;
        }
        Connection known = Connections.get(socket);
        if (known != null && known.isClosed) {
            return false;
        }
        return SocketOperations.closing(state, frame, socket, secureSubject(state, secure));
    }

    static Subject secureSubject(ThreadState state, SSLSocket socket) {
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
            Connections.put(socket, Connection.without(SocketOperations.called(state, remote)));
        }
        InetSocketAddress local = new InetSocketAddress(((Socket) socket).getLocalAddress(), socket.getLocalPort());
        return Connections.learn(state, socket, remote, local, Connections.TLS);
    }
}
