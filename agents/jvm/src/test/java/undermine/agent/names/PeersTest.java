package undermine.agent.names;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import undermine.agent.operations.Subject;
import undermine.agent.wire.SharedState;

/** The peers of connections: on a shared loopback, and with nodes that have their own addresses. */
class PeersTest {
    private static final List<String> NODES = List.of("s1", "s2", "s3");
    private static final Map<String, String> ADDRESSES =
        Map.of("127.0.0.1:20001", "s1", "127.0.0.1:20002", "s2", "::1:20003", "s3");

    private final SharedState state = new SharedState(stateWithPorts());
    private final Peers first = new Peers("s1", NODES, ADDRESSES, Map.of(), state);
    private final Peers second = new Peers("s2", NODES, ADDRESSES, Map.of(), state);

    private static ByteBuffer stateWithPorts() {
        ByteBuffer view = ByteBuffer.allocate(64 + 3 * 65536).order(ByteOrder.LITTLE_ENDIAN);
        view.put("UMS2".getBytes(StandardCharsets.US_ASCII));
        view.putInt(16, 64);
        return view;
    }

    @Test
    void theNodeThatListensAtAnAddressIsKnown() {
        assertEquals("peer:s2", first.connected(new InetSocketAddress("127.0.0.1", 20002)).target);
        assertEquals("127.0.0.1:20002", first.connected(new InetSocketAddress("127.0.0.1", 20002)).resource);
        assertEquals("peer:s2", first.connected(new InetSocketAddress("0.0.0.0", 20002)).target);
        assertEquals("peer:s2", first.connected(InetSocketAddress.createUnresolved("localhost", 20002)).target);
        assertEquals("peer:s3", first.connected(new InetSocketAddress("::1", 20003)).target);
        assertEquals("peer:s2", first.connected(new InetSocketAddress("::ffff:127.0.0.1", 20002)).target);
        assertEquals("other", first.connected(new InetSocketAddress("127.0.0.1", 9)).target);
        assertEquals("2001:db8::1:0:0:1:80", first.connected(new InetSocketAddress("2001:db8:0:0:1:0:0:1", 80)).resource);
    }

    @Test
    void callersAreKnownByThePortTheyPublished() {
        InetSocketAddress caller = new InetSocketAddress("127.0.0.1", 40001);
        Subject unknown = second.accepted(caller, 20002);
        assertEquals("accepted", unknown.target);
        first.told(40001, new InetSocketAddress("127.0.0.1", 20002));
        Subject known = second.accepted(caller, 20002);
        assertEquals("peer:s1", known.target);
        assertEquals("127.0.0.1:40001", known.resource);
        assertEquals("accepted", second.accepted(caller, 20003).target);
        assertEquals("accepted", first.accepted(caller, 20002).target);
    }

    @Test
    void callersAreKnownByTheirOwnAddresses() {
        Peers apart = new Peers("s1", NODES, ADDRESSES, Map.of("198.18.1.2", "s2"), state);
        assertEquals("peer:s2", apart.accepted(new InetSocketAddress("198.18.1.2", 5), 20001).target);
        Subject other = apart.accepted(new InetSocketAddress("198.18.9.9", 5), 20001);
        assertEquals("accepted", other.target);
    }

    @Test
    void listeningSocketsAreNamedByTheirAddress() {
        assertEquals("listen", first.listening(null).target);
        assertEquals("127.0.0.1:80", first.listening(new InetSocketAddress("127.0.0.1", 80)).resource);
    }
}
