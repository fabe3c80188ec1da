package undermine.agent.net;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.names.Peers;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;

/**
 * The sockets of this process, by the object that the JDK or Netty uses for each. A connection is named once, when both
 * of its ends are known.
 */
public final class Connections {
    static final String TLS = "+tls";
    static final String UDP = "+udp";
    private static final String ANYBODY = "*";
    private static final String PEER = "peer:";
    private static final WeakIdentityMap<Connection> SOCKETS = new WeakIdentityMap<Connection>();
    private static final WeakIdentityMap<Datagrams> DATAGRAMS = new WeakIdentityMap<Datagrams>();
    /** The sockets that were reset when a partition ended. */
    private static final WeakIdentityMap<Boolean> RESET = new WeakIdentityMap<Boolean>();
    private static final AtomicInteger NUMBER = new AtomicInteger();
    private static volatile boolean areReset;

    private Connections() {
    }

    /** The connection, or null. */
    static Connection get(Object socket) {
        return SOCKETS.get(socket);
    }

    static void put(Object socket, Connection connection) {
        SOCKETS.put(socket, connection);
    }

    static void remove(Object socket) {
        SOCKETS.remove(socket);
    }

    /**
     * The subject of a connected socket, of which the remote address is known and the local one (or its descriptor). If
     * this process didn't connect it, the other side called.
     */
    static Subject learn(ThreadState state, Object socket, InetSocketAddress remote, Object where, String kind) {
        AgentCore agent = AgentCore.current;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            agent.lasting.any(); // a connection that is first seen after the end of a partition isn't reset
            Connection before = SOCKETS.get(socket);
            InetSocketAddress local = addressOf(where);
            Connection found = found(agent, before, remote, local, kind);
            if (found.name != null || before == null) {
                SOCKETS.put(socket, found);
            }
            return found.subject;
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = wasBusy;
        }
    }

    private static InetSocketAddress addressOf(Object where) {
        return where == null || where instanceof InetSocketAddress ? (InetSocketAddress) where : JdkSockets.localOf(where);
    }

    private static Connection found(
            AgentCore agent, Connection before, InetSocketAddress remote, InetSocketAddress local, String kind) {
        boolean isOurs = before != null && before.caller == null;
        int port = local != null ? local.getPort() : before != null ? before.localPort : 0;
        Subject subject = isOurs ? before.subject : agent.peers.accepted(remote, port);
        String name = before != null ? before.name : null;
        if (name == null && port != 0 && local != null) {
            name = Peers.name(local) + ">" + Peers.name(remote) + "/" + NUMBER.incrementAndGet() + kind;
        }
        Subject named = name == null ? subject : new Subject(subject.target, name, false);
        boolean isKnown = isOurs || !subject.target.equals("accepted") || !agent.config.hosts.isEmpty();
        return new Connection(named, isKnown ? null : remote, port, false, name);
    }

    // --- resets

    /** The sockets whose streams lead to one of these nodes. The caller has set `busy`. */
    static List<Object> connectedTo(List<?> nodes) {
        List<Object> found = new ArrayList<Object>();
        for (Object socket : SOCKETS.keys()) {
            Connection known = SOCKETS.get(socket);
            boolean isOpen = known != null && !known.isClosed && known.subject != null;
            if (isOpen && nodes.contains(nodeOf(known)) && isConnected(socket, known)) {
                found.add(socket);
            }
        }
        return found;
    }

    /** A connection without a name may not be established yet. */
    private static boolean isConnected(Object socket, Connection known) {
        return known.name != null || JdkSockets.remoteOf(JdkSockets.descriptorOfAny(socket)) != null;
    }

    private static String nodeOf(Connection known) {
        Subject subject = known.isCertain() ? known.subject
                : AgentCore.current.peers.accepted(known.caller, known.localPort);
        return subject.target.startsWith(PEER) ? subject.target.substring(PEER.length()) : "";
    }

    static void markReset(Object socket) {
        RESET.put(socket, true);
        areReset = true;
    }

    /** True if the agent has reset the connection of this socket because a partition has ended. */
    public static boolean isReset(Object socket) {
        return areReset && socket != null && RESET.get(socket) != null;
    }

    // --- datagrams: each one has its own peer

    /** A datagram socket: its number, and the subject found last. */
    private static final class Datagrams {
        final int number = NUMBER.incrementAndGet();
        InetSocketAddress local;
        InetSocketAddress remote;
        Subject subject;
    }

    /**
     * The subject of a datagram to or from an address; null: from anybody. A socket may get its own address only by the
     * first send.
     */
    static Subject datagram(ThreadState state, Object socket, InetSocketAddress remote, Object where) {
        AgentCore agent = AgentCore.current;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Datagrams own = datagramsOf(socket);
            synchronized (own) {
                InetSocketAddress local = where == null && own.local != null ? own.local : addressOf(where);
                boolean isSame = own.subject != null && same(own.remote, remote) && same(own.local, local);
                if (!isSame) {
                    own.subject = datagram(agent, own.number, remote, local);
                    own.remote = remote;
                    own.local = local;
                }
                return own.subject;
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
            return new Subject("other", "", false);
        } finally {
            state.busy = wasBusy;
        }
    }

    private static Datagrams datagramsOf(Object socket) {
        Datagrams own = DATAGRAMS.get(socket);
        if (own == null) {
            own = new Datagrams();
            DATAGRAMS.put(socket, own);
        }
        return own;
    }

    private static boolean same(Object one, Object other) {
        return one == null ? other == null : one.equals(other);
    }

    private static Subject datagram(AgentCore agent, int number, InetSocketAddress remote, InetSocketAddress local) {
        Subject called = agent.peers.connected(remote);
        if (local == null || local.getPort() == 0) {
            return called;
        }
        String other = remote == null ? ANYBODY : Peers.name(remote);
        return new Subject(called.target, Peers.name(local) + ">" + other + "/" + number + UDP, false);
    }

    /** The name of a connection; empty if it has none. */
    static String nameOf(Object socket) {
        Connection known = SOCKETS.get(socket);
        return known == null || known.name == null ? "" : known.name;
    }
}
