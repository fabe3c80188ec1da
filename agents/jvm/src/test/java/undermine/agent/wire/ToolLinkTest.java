package undermine.agent.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import undermine.agent.Given;
import undermine.agent.lib.Json;

class ToolLinkTest {
    @TempDir
    Path dir;
    private final List<String> heard = new CopyOnWriteArrayList<>();
    private volatile String toHello = "{\"type\": \"welcome\", \"lasting\": []}\n";
    private volatile String toOthers = "{\"type\": \"go\", \"external\": true}\n";
    private ServerSocketChannel server;
    private ToolLink link;

    @BeforeEach
    void listen() throws IOException {
        Path path = dir.resolve("socket");
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(path));
        link = new ToolLink(path.toString(), Given.json("{'type': 'hello', 'node': 's1'}"));
        Thread thread = new Thread(this::serve, "server");
        thread.setDaemon(true);
        thread.start();
    }

    @AfterEach
    void close() throws IOException {
        server.close();
    }

    private void serve() {
        while (server.isOpen()) {
            try (SocketChannel connection = server.accept()) {
                BufferedReader lines = new BufferedReader(Channels.newReader(connection, StandardCharsets.UTF_8));
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    heard.add(line);
                    String answer = line.contains("hello") ? toHello : toOthers;
                    if (answer.isEmpty()) {
                        break;
                    }
                    connection.write(ByteBuffer.wrap(answer.getBytes(StandardCharsets.UTF_8)));
                }
            } catch (IOException ended) {
                continue;
            }
        }
    }

    private Map<String, Object> ask() {
        return link.ask(Given.json("{'type': 'claim', 'step': 1}"));
    }

    @Test
    void saysHelloBeforeEachRequest() {
        assertEquals("welcome", link.welcome().get("type"));
        assertEquals(Given.json("{'type': 'go', 'external': true}"), ask());
        assertEquals(3, heard.size());
        assertEquals(heard.get(0), heard.get(1));
        assertEquals(Given.json("{'type': 'claim', 'step': 1}"), Json.read(heard.get(2)));
    }

    @Test
    void aRefusedAgentAsksNoMore() {
        toHello = "{\"type\": \"refused\", \"why\": \"another version\"}\n";
        assertNull(link.welcome());
        assertNull(ask());
        assertEquals(1, heard.size());
    }

    @Test
    void aBrokenConnectionGivesNoAnswer() throws IOException {
        toOthers = "";
        assertNull(ask());
        toOthers = "not JSON\n";
        assertNull(ask());
        toOthers = "[1]\n";
        assertNull(ask());
        server.close();
        assertNull(ask());
        assertNull(link.welcome());
    }

    @Test
    void anInterruptedThreadGetsItsAnswerAndKeepsItsInterrupt() {
        Thread.currentThread().interrupt();
        Map<String, Object> answer = ask();
        assertTrue(Thread.interrupted());
        assertEquals("go", answer.get("type"));
    }
}
