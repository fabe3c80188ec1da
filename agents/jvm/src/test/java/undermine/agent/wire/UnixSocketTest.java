package undermine.agent.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Conversations over a Unix socket, with a server that answers each line with itself, doubled. */
class UnixSocketTest {
    @TempDir
    Path folder;

    private ServerSocketChannel server;
    private String path;

    @BeforeEach
    void listen() throws IOException {
        path = folder.resolve("tool").toString();
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(path));
        Thread thread = new Thread(this::serve);
        thread.setDaemon(true);
        thread.start();
    }

    @AfterEach
    void close() throws IOException {
        server.close();
    }

    private void serve() {
        try (SocketChannel channel = server.accept()) {
            BufferedReader lines = new BufferedReader(Channels.newReader(channel, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null && !line.equals("bye"); line = lines.readLine()) {
                if (!line.equals("wait")) {
                    channel.write(ByteBuffer.wrap((line + line + "\n").getBytes(StandardCharsets.UTF_8)));
                }
            }
        } catch (IOException error) {
            // the test is over
        }
    }

    private String talk(String lines, int answers, int timeoutMs) throws Exception {
        Method method = Class.forName("undermine.agent.wire.UnixSocket")
            .getDeclaredMethod("talk", String.class, String.class, int.class, int.class);
        method.setAccessible(true);
        try {
            return (String) method.invoke(null, path, lines, answers, timeoutMs);
        } catch (InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
    }

    @Test
    void theLastAnswerIsReturned() throws Exception {
        assertEquals("éaéa", talk("hello\néa\n", 2, 10_000));
    }

    @Test
    void longAnswersComeWhole() throws Exception {
        String line = "x".repeat(200_000);
        assertEquals(line + line, talk(line + "\n", 1, 10_000));
    }

    @Test
    void anInterruptedThreadTalksAndStaysInterrupted() throws Exception {
        Thread.currentThread().interrupt();
        String answer = talk("hello\n", 1, 10_000);
        assertTrue(Thread.interrupted());
        assertEquals("hellohello", answer);
    }

    @Test
    void aServerThatDoesNotAnswerTimesOut() {
        assertThrows(IOException.class, () -> talk("wait\n", 1, 100));
    }

    @Test
    void aServerThatHangsUpGivesNoAnswer() {
        assertThrows(IOException.class, () -> talk("bye\n", 1, 10_000));
    }

    @Test
    void aMissingServerGivesNoAnswer() throws Exception {
        server.close();
        path = folder.resolve("nobody").toString();
        assertThrows(IOException.class, () -> talk("hello\n", 1, 1000));
    }
}
