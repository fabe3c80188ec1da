package undermine.agent.faults;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.BindException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.ProtocolException;
import java.net.SocketException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.FileSystemLoopException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;

/** Converts errors of the operating system to exceptions of the JDK, and back. */
public final class SystemErrors {
    private static final String[] TEXTS = {
        "EIO", "Input/output error", "ENOSPC", "No space left on device", "ENOENT", "No such file or directory",
        "EACCES", "Permission denied", "EEXIST", "File exists", "EROFS", "Read-only file system",
        "EDQUOT", "Disk quota exceeded", "EMFILE", "Too many open files", "ENFILE", "Too many open files in system",
        "ENOTDIR", "Not a directory", "EISDIR", "Is a directory", "ENOTEMPTY", "Directory not empty",
        "EPERM", "Operation not permitted", "EINVAL", "Invalid argument", "EBADF", "Bad file descriptor",
        "EFBIG", "File too large", "ENAMETOOLONG", "File name too long", "ELOOP", "Too many levels of symbolic links",
        "EXDEV", "Invalid cross-device link", "EBUSY", "Device or resource busy", "ESTALE", "Stale file handle",
        "EINTR", "Interrupted system call", "EAGAIN", "Resource temporarily unavailable", "ENOMEM", "Cannot allocate memory",
        "ENOBUFS", "No buffer space available", "EPIPE", "Broken pipe", "ECONNRESET", "Connection reset",
        "ECONNREFUSED", "Connection refused", "ECONNABORTED", "Software caused connection abort",
        "EHOSTUNREACH", "No route to host", "ENETUNREACH", "Network is unreachable", "ENETDOWN", "Network is down",
        "ETIMEDOUT", "Connection timed out", "EADDRINUSE", "Address already in use",
        "EADDRNOTAVAIL", "Cannot assign requested address", "ENOTCONN", "Transport endpoint is not connected",
        "EMSGSIZE", "Message too long", "EPROTO", "Protocol error", "EDESTADDRREQ", "Destination address required",
    };
    /** The Linux error numbers, in the order of TEXTS. */
    private static final int[] NUMBERS = {
        5, 28, 2, 13, 17, 30, 122, 24, 23, 20, 21, 39, 1, 22, 9, 27, 36, 40, 18, 16, 116, 4, 11, 12, 105, 32,
        104, 111, 103, 113, 101, 100, 110, 98, 99, 107, 90, 71, 89,
    };
    private static final Map<String, String> TEXT_OF = new HashMap<String, String>();
    private static final Map<String, String> NAME_OF = new HashMap<String, String>();
    private static final String OWN = "undermine.agent.";

    static {
        for (int i = 0; i < TEXTS.length; i += 2) {
            TEXT_OF.put(TEXTS[i], TEXTS[i + 1]);
            NAME_OF.put(TEXTS[i + 1], TEXTS[i]);
        }
        NAME_OF.put("Connection reset by peer", "ECONNRESET");
    }

    private SystemErrors() {
    }

    /** The exception for this errno; for files, as java.io raises it. An unknown errno becomes EIO. */
    static Throwable make(String errno, Operation operation, Subject subject) {
        String name = TEXT_OF.containsKey(errno) ? errno : "EIO";
        String text = TEXT_OF.get(name);
        String op = operation.name;
        if (op.startsWith("net.") || !op.startsWith("file.") && isOfNetwork(name)) {
            return bare(ofNetwork(name, text));
        }
        if (op.equals("file.open") || op.equals("file.create")) {
            return bare(new FileNotFoundException(subject.resource + " (" + text + ")"));
        }
        return bare(new IOException(text));
    }

    /** The exception for a connection that was reset. */
    public static Throwable ofReset() {
        return bare(ofNetwork("ECONNRESET", TEXT_OF.get("ECONNRESET")));
    }

    /** The same error as java.nio.file raises it. */
    public static Throwable ofFileSystem(Throwable error, String file, String other) {
        String name = nameOf(error);
        switch (name) {
            case "ENOENT":
                return bare(new NoSuchFileException(file, other, null));
            case "EACCES":
                return bare(new AccessDeniedException(file, other, null));
            case "EEXIST":
                return bare(new FileAlreadyExistsException(file, other, null));
            default:
                String text = TEXT_OF.get(name);
                return text == null ? error : bare(new FileSystemException(file, other, text));
        }
    }

    private static boolean isOfNetwork(String name) {
        return name.equals("EPIPE") || name.equals("ETIMEDOUT") || name.startsWith("ECONN") || name.startsWith("ENET")
                || name.equals("EHOSTUNREACH") || name.startsWith("EADDR") || name.equals("ENOTCONN");
    }

    private static IOException ofNetwork(String name, String text) {
        switch (name) {
            case "ECONNREFUSED":
            case "ETIMEDOUT":
            case "ENOTCONN":
                return new ConnectException(text);
            case "EHOSTUNREACH":
                return new NoRouteToHostException(text);
            case "EADDRINUSE":
            case "EADDRNOTAVAIL":
            case "EACCES":
                return new BindException(text);
            case "EPROTO":
                return new ProtocolException(text);
            default:
                return new SocketException(text);
        }
    }

    /** Remove the agent's frames from the top of the stack trace, so that the JDK's own method seems to raise it. */
    public static <T extends Throwable> T bare(T error) {
        List<StackTraceElement> frames = new ArrayList<StackTraceElement>();
        for (StackTraceElement frame : error.getStackTrace()) {
            if (!frames.isEmpty() || !frame.getClassName().startsWith(OWN)) {
                frames.add(frame);
            }
        }
        error.setStackTrace(frames.toArray(new StackTraceElement[0]));
        return error;
    }

    /** The errno of an exception; the simple name of its class if it has none. */
    public static String nameOf(Throwable error) {
        String name = null;
        if (error instanceof FileSystemException) {
            name = ofFileSystem((FileSystemException) error);
        } else if (error instanceof IOException && !error.getClass().getName().startsWith("javax.net.ssl.")) {
            name = ofMessage(error.getMessage());
        }
        if (name == null && error instanceof NoRouteToHostException) { // Netty's exception has no message with the errno
            name = "EHOSTUNREACH";
        }
        if (name != null) {
            return name;
        }
        String simple = error.getClass().getSimpleName();
        return simple.isEmpty() ? error.getClass().getName() : simple;
    }

    private static String ofFileSystem(FileSystemException error) {
        if (error instanceof NoSuchFileException) {
            return "ENOENT";
        }
        if (error instanceof AccessDeniedException) {
            return "EACCES";
        }
        if (error instanceof FileAlreadyExistsException) {
            return "EEXIST";
        }
        if (error instanceof DirectoryNotEmptyException) {
            return "ENOTEMPTY";
        }
        if (error instanceof NotDirectoryException) {
            return "ENOTDIR";
        }
        return error instanceof FileSystemLoopException ? "ELOOP" : ofMessage(error.getReason());
    }

    /** The Linux number of an error; that of EIO if it is unknown. */
    public static int numberOf(String name) {
        for (int i = 0; i < TEXTS.length; i += 2) {
            if (TEXTS[i].equals(name)) {
                return NUMBERS[i / 2];
            }
        }
        return NUMBERS[0];
    }

    /** The messages are `text`, `path (text)`, `text (what failed)` in older JDKs, and `what failed: text` in Netty. */
    private static String ofMessage(String message) {
        if (message == null) {
            return null;
        }
        String name = NAME_OF.get(message);
        int open = message.lastIndexOf(" (");
        if (name == null && open >= 0 && message.endsWith(")")) {
            name = NAME_OF.get(message.substring(open + 2, message.length() - 1));
            name = name == null ? NAME_OF.get(message.substring(0, open)) : name;
        }
        int colon = message.lastIndexOf(": ");
        return name == null && colon >= 0 ? NAME_OF.get(message.substring(colon + 2)) : name;
    }
}
