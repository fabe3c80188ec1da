package undermine.agent.faults;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.EOFException;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.net.ssl.SSLException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import undermine.agent.Given;
import undermine.agent.operations.Subject;

class SystemErrorsTest {
    private final DecisionTable table = Given.table(Given.shared());
    private final Subject file = new Subject("wal", "/d/wal.1", true);

    private void isMade(Class<?> type, String message, String errno, String op) {
        Throwable error = SystemErrors.make(errno, table.operation(op), file);
        assertSame(type, error.getClass(), op);
        assertEquals(message, error.getMessage());
    }

    @Test
    void errorsOfNettyHaveTheirErrno() {
        assertEquals("ECONNRESET", SystemErrors.nameOf(
                new IOException("recvAddress(..) failed with error(-104): Connection reset by peer")));
        assertEquals("EHOSTUNREACH", SystemErrors.nameOf(new java.net.NoRouteToHostException()));
        assertEquals(104, SystemErrors.numberOf("ECONNRESET"));
        assertEquals(5, SystemErrors.numberOf("UNKNOWN"));
    }

    @Test
    void filesAnswerAsJavaIoDoes() {
        isMade(IOException.class, "Input/output error", "EIO", "file.write");
        isMade(IOException.class, "No space left on device", "ENOSPC", "file.write");
        isMade(FileNotFoundException.class, "/d/wal.1 (Input/output error)", "EIO", "file.open");
        isMade(FileNotFoundException.class, "/d/wal.1 (No space left on device)", "ENOSPC", "file.create");
        isMade(IOException.class, "Input/output error", "ENOTHING", "file.read");
    }

    @Test
    void connectionsAnswerAsJavaNetDoes() {
        isMade(SocketException.class, "Connection reset", "ECONNRESET", "net.recv");
        isMade(SocketException.class, "Broken pipe", "EPIPE", "net.send");
        isMade(ConnectException.class, "Connection refused", "ECONNREFUSED", "net.connect");
        isMade(ConnectException.class, "Connection timed out", "ETIMEDOUT", "net.connect");
        isMade(NoRouteToHostException.class, "No route to host", "EHOSTUNREACH", "net.connect");
        isMade(SocketException.class, "Connection reset", "ECONNRESET", "msg.send");
        isMade(IOException.class, "Input/output error", "EIO", "db.write");
    }

    @Test
    void theNewFileApiHasItsOwnClasses() {
        Throwable error = SystemErrors.make("EIO", table.operation("file.open"), file);
        FileSystemException found = (FileSystemException) SystemErrors.ofFileSystem(error, "/d/a", "/d/b");
        assertEquals("/d/a -> /d/b: Input/output error", found.getMessage());
        assertEquals("EIO", SystemErrors.nameOf(found));
        Throwable denied = SystemErrors.ofFileSystem(new IOException("Permission denied"), "/d/a", null);
        assertSame(AccessDeniedException.class, denied.getClass());
        Throwable own = new IOException("of the target");
        assertSame(own, SystemErrors.ofFileSystem(own, "/d/a", null));
    }

    @Test
    void theAgentIsNotAtTheTopOfTheTrace() {
        Throwable error = SystemErrors.make("EIO", table.operation("file.write"), file);
        assertFalse(error.getStackTrace()[0].getClassName().startsWith("undermine.agent."));
    }

    @Test
    void errorsOfTheJdkHaveTheirErrno(@TempDir Path dir) throws IOException {
        File absent = dir.resolve("absent").toFile();
        assertEquals("ENOENT", SystemErrors.nameOf(assertThrows(IOException.class, () -> new FileInputStream(absent))));
        assertEquals("ENOENT", SystemErrors.nameOf(assertThrows(IOException.class, () -> Files.delete(absent.toPath()))));
        assertEquals("EISDIR", SystemErrors.nameOf(assertThrows(IOException.class, () -> new FileInputStream(dir.toFile()))));
        Path folder = Files.createDirectories(dir.resolve("folder"));
        Files.createFile(folder.resolve("file"));
        assertEquals("ENOTEMPTY", SystemErrors.nameOf(assertThrows(IOException.class, () -> Files.delete(folder))));
        assertEquals("EEXIST", SystemErrors.nameOf(assertThrows(IOException.class, () -> Files.createDirectory(folder))));
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        IOException refused = assertThrows(IOException.class, () -> new Socket("127.0.0.1", port).close());
        assertEquals("ECONNREFUSED", SystemErrors.nameOf(refused));
    }

    @Test
    void olderMessagesAndErrorsWithoutErrno() {
        assertEquals("EPIPE", SystemErrors.nameOf(new SocketException("Broken pipe (Write failed)")));
        assertEquals("ECONNREFUSED", SystemErrors.nameOf(new ConnectException("Connection refused (Connection refused)")));
        assertEquals("ECONNRESET", SystemErrors.nameOf(new IOException("Connection reset by peer")));
        assertEquals("SocketTimeoutException", SystemErrors.nameOf(new SocketTimeoutException("Read timed out")));
        assertEquals("EOFException", SystemErrors.nameOf(new EOFException()));
        assertEquals("SSLException", SystemErrors.nameOf(new SSLException("Connection reset")));
        assertEquals("IllegalStateException", SystemErrors.nameOf(new IllegalStateException("Broken pipe")));
    }
}
