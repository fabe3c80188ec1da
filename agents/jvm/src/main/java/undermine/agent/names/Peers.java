package undermine.agent.names;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import undermine.agent.operations.Subject;
import undermine.agent.wire.Config;
import undermine.agent.wire.SharedState;

/**
 * Finds the node at the other end of a connection: the one that listens at an address, or the one that called.
 *
 * On a shared loopback, an agent that connects publishes its port in the shared state for the other side.
 */
public final class Peers {
    private static final int CACHE_MAX = 10_000;
    private static final String LOOPBACK = "127.0.0.1";

    private final Map<String, String> addresses;
    private final Map<String, String> hosts;
    private final List<String> nodes;
    /** The index of this node in `nodes`, plus 1; 0: it isn't one of them. */
    private final int own;
    private final SharedState state;
    private final ConcurrentHashMap<InetSocketAddress, Subject> known = new ConcurrentHashMap<InetSocketAddress, Subject>();

    public Peers(Config config, SharedState state) {
        this(config.node, config.nodes, config.addresses, config.hosts, state);
    }

    public Peers(String node, List<String> nodes, Map<String, String> addresses, Map<String, String> hosts, SharedState state) {
        this.addresses = addresses;
        this.hosts = hosts;
        this.nodes = nodes;
        own = nodes.indexOf(node) + 1;
        this.state = state;
    }

    /** The subject of a connection that this process opened to this address. */
    public Subject connected(InetSocketAddress remote) {
        if (remote == null) {
            return new Subject("other", "", false);
        }
        Subject found = known.get(remote);
        if (found == null) {
            String name = name(remote);
            found = subject(addresses.get(name), "other", name);
            if (known.size() >= CACHE_MAX) {
                known.clear();
            }
            known.put(remote, found);
        }
        return found;
    }

    /** The subject of a caller: a node, if it has published its port or has an address of its own. */
    public Subject accepted(InetSocketAddress remote, int localPort) {
        if (remote == null) {
            return new Subject("accepted", "", false);
        }
        String name = name(remote);
        String node = hosts.get(host(remote));
        return subject(node != null ? node : caller(remote.getPort(), localPort), "accepted", name);
    }

    private String caller(int port, int localPort) {
        int number = hosts.isEmpty() ? state.callerAt(SharedState.slotOf(port, localPort), port) : 0;
        return number > 0 && number <= nodes.size() && number != own ? nodes.get(number - 1) : null;
    }

    /** Publish that this node called from this port. */
    public void told(int localPort, InetSocketAddress remote) {
        if (own > 0 && hosts.isEmpty() && localPort > 0 && remote != null) {
            state.putCallerAt(SharedState.slotOf(localPort, remote.getPort()), localPort, own);
        }
    }

    /** The subject of a socket that listens at this address. */
    public Subject listening(InetSocketAddress local) {
        return new Subject("listen", local == null ? "" : name(local), false);
    }

    private static Subject subject(String node, String otherwise, String name) {
        return new Subject(node == null ? otherwise : "peer:" + node, name, false);
    }

    /** `HOST:PORT`. */
    public static String name(InetSocketAddress address) {
        return host(address) + ":" + address.getPort();
    }

    private static String host(InetSocketAddress address) {
        InetAddress found = address.getAddress();
        if (found == null) {
            String host = address.getHostString();
            return host.equals("localhost") || host.isEmpty() ? LOOPBACK : host;
        }
        if (found instanceof Inet6Address) {
            return short6(found.getAddress());
        }
        return found.isAnyLocalAddress() ? LOOPBACK : found.getHostAddress();
    }

    /** The canonical text of an IPv6 address: `::` for the longest run of zeros. */
    private static String short6(byte[] bytes) {
        int[] parts = new int[8];
        for (int i = 0; i < 8; i++) {
            parts[i] = (bytes[2 * i] & 0xff) << 8 | bytes[2 * i + 1] & 0xff;
        }
        int start = longestZeros(parts);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 8; i++) {
            if (i == start) {
                text.append("::");
                i += zerosFrom(parts, i) - 1;
            } else {
                boolean needsColon = text.length() > 0 && text.charAt(text.length() - 1) != ':';
                text.append(needsColon ? ":" : "").append(Integer.toHexString(parts[i]));
            }
        }
        return text.toString();
    }

    /** The start of the first of the longest runs of two or more zeros; -1 if there is none. */
    private static int longestZeros(int[] parts) {
        int found = -1;
        int length = 1;
        for (int i = 0; i < 8; i++) {
            int zeros = zerosFrom(parts, i);
            if (zeros > length) {
                found = i;
                length = zeros;
            }
        }
        return found;
    }

    private static int zerosFrom(int[] parts, int start) {
        int end = start;
        while (end < 8 && parts[end] == 0) {
            end++;
        }
        return end - start;
    }
}
