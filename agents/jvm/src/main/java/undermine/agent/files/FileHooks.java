package undermine.agent.files;

import java.io.File;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Paths;
import undermine.agent.lib.Buffers;
import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.names.FilePaths;
import undermine.agent.net.ChannelHooks;
import undermine.agent.net.JdkSockets;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/**
 * Entries of the JDK's lowest methods for files. True: the method answers false, 0 or nothing at once.
 *
 * A file is recorded if its descriptor is known, that is, if it was opened below a configured folder.
 */
public final class FileHooks {
    public static final WeakIdentityMap<Subject> FILES = new WeakIdentityMap<Subject>();

    private FileHooks() {
    }

    // --- opening

    public static boolean openRead(Object descriptor, Object path) {
        return open(descriptor, (String) path, false, false, WovenFrame.RAISE);
    }

    public static boolean openWrite(Object descriptor, Object path) {
        return open(descriptor, (String) path, true, false, WovenFrame.RAISE);
    }

    /** `mode` is odd for reading only. */
    public static boolean openRandom(Object descriptor, Object path, int mode) {
        return open(descriptor, (String) path, (mode & 1) == 0, false, WovenFrame.RAISE);
    }

    /** Not recorded if the path is relative to the folder of a descriptor. */
    public static boolean openPath(int folder, Object path, boolean creates, boolean createsNew) {
        return open(null, folder >= 0 ? null : path.toString(), creates, createsNew, WovenFrame.RAISE_NIO);
    }

    /** With `mustCreate` the operation is a creation, even if the file exists and it will fail. */
    private static boolean open(Object descriptor, String path, boolean mayCreate, boolean mustCreate, int answer) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        Subject subject = subject(state, path);
        if (subject == null) {
            return false;
        }
        if (descriptor != null) {
            FILES.put(descriptor, subject);
            frame.handle = descriptor;
        }
        boolean isNew = mustCreate || mayCreate && !isThere(state, path);
        return MethodEntry.enter(state, frame, isNew ? Ops.create : Ops.open, subject, 0, answer);
    }

    /** The subject of a path; null if the path is outside the configured folders or this thread isn't recorded now. */
    private static Subject subject(ThreadState state, String path) {
        AgentCore agent = AgentCore.current;
        if (path == null || agent == null || agent.off || state.busy || state.inside > 0) {
            return null;
        }
        state.busy = true;
        try {
            return agent.paths.subject(path);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return null;
        } finally {
            state.busy = false;
        }
    }

    private static boolean isThere(ThreadState state, String path) {
        state.busy = true;
        try {
            return new File(path).exists();
        } catch (RuntimeException forbidden) {
            return true;
        } finally {
            state.busy = false;
        }
    }

    // --- descriptors

    public static boolean readOne(Object descriptor) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        frame.isOneByte = true;
        return reading(state, frame, descriptor, 1, -1);
    }

    public static boolean read(Object descriptor, Object bytes) {
        return read(descriptor, Buffers.length(bytes), -1);
    }

    public static boolean read(Object descriptor, int size) {
        return read(descriptor, size, -1);
    }

    public static boolean read(Object descriptor, Object buffers, int offset, int length) {
        return read(descriptor, Buffers.remaining(buffers, offset, length), -1);
    }

    /** From a position of its own. */
    public static boolean readAt(Object descriptor, Object buffer, long position) {
        return read(descriptor, Buffers.length(buffer), position);
    }

    /** A transfer to a connection is a send, any other one a read. */
    public static boolean transferTo(Object file, Object descriptor, long position, long size, Object channel) {
        Subject subject = channel instanceof SocketChannel ? ChannelHooks.connected((SocketChannel) channel) : null;
        if (subject == null) {
            return read(descriptor, size, position);
        }
        return ChannelHooks.sendFile((SocketChannel) channel, subject, Math.min(size, left((FileChannel) file, position)));
    }

    /** The bytes of a file from a position on. */
    private static long left(FileChannel file, long position) {
        try {
            return Math.max(0, file.size() - position);
        } catch (IOException closed) {
            return 0;
        }
    }

    private static boolean read(Object descriptor, long size, long position) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        return reading(state, frame, descriptor, size, position);
    }

    /** `position` less than 0: from where the descriptor is. */
    private static boolean reading(ThreadState state, WovenFrame frame, Object descriptor, long size, long position) {
        boolean isTold = onDescriptor(state, frame, Ops.read, descriptor, size);
        if (frame.call != null && frame.call.change != null) {
            changeFile(state, frame.call, descriptor, size, position);
        }
        return isTold;
    }

    /** Let the data in the file be changed that is about to be read, as was decided. */
    private static void changeFile(ThreadState state, Call call, Object descriptor, long size, long position) {
        state.busy = true;
        try {
            int number = JdkSockets.number(descriptor);
            long start = position < 0 ? positionOf(number) : position;
            call.change.inFile("/proc/self/fd/" + number, start, size);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = false;
        }
    }

    private static long positionOf(int descriptor) throws IOException {
        for (String line : Files.readAllLines(Paths.get("/proc/self/fdinfo/" + descriptor))) {
            if (line.startsWith("pos:")) {
                return Long.parseLong(line.substring("pos:".length()).trim());
            }
        }
        throw new IOException("no position of descriptor " + descriptor);
    }

    /** Two bytes, whatever number the method returns. */
    public static boolean read2(Object descriptor) {
        return readNumber(descriptor, 2);
    }

    public static boolean read4(Object descriptor) {
        return readNumber(descriptor, 4);
    }

    public static boolean read8(Object descriptor) {
        return readNumber(descriptor, 8);
    }

    private static boolean readNumber(Object descriptor, int size) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        frame.isValue = true;
        return reading(state, frame, descriptor, size, -1);
    }

    public static boolean readLine(Object descriptor) {
        return onDescriptor(Ops.read, descriptor, 0);
    }

    public static boolean write1(Object descriptor) {
        return onDescriptor(Ops.write, descriptor, 1);
    }

    public static boolean write2(Object descriptor) {
        return onDescriptor(Ops.write, descriptor, 2);
    }

    public static boolean write4(Object descriptor) {
        return onDescriptor(Ops.write, descriptor, 4);
    }

    public static boolean write8(Object descriptor) {
        return onDescriptor(Ops.write, descriptor, 8);
    }

    public static boolean write(Object descriptor, Object bytes) {
        return onDescriptor(Ops.write, descriptor, Buffers.length(bytes));
    }

    /** Two bytes for each character. */
    public static boolean writeChars(Object descriptor, Object text) {
        return onDescriptor(Ops.write, descriptor, 2 * Buffers.length(text));
    }

    public static boolean write(Object descriptor, int size) {
        return onDescriptor(Ops.write, descriptor, size);
    }

    public static boolean write(Object descriptor, Object buffers, int offset, int length) {
        return onDescriptor(Ops.write, descriptor, Buffers.remaining(buffers, offset, length));
    }

    public static boolean write(Object descriptor, long size) {
        return onDescriptor(Ops.write, descriptor, size);
    }

    /** FileDescriptor.sync. */
    public static boolean sync(Object descriptor) {
        ThreadState state = ThreadState.get();
        return onDescriptor(state, state.top(), Ops.fsync, descriptor, 0, WovenFrame.RAISE_SYNC);
    }

    public static boolean force(Object descriptor) {
        return onDescriptor(Ops.fsync, descriptor, 0);
    }

    public static boolean truncate(Object descriptor) {
        return onDescriptor(Ops.truncate, descriptor, 0);
    }

    /** The descriptor is closed even if the answer is an error, as on a real device. */
    public static boolean close(Object descriptor) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        if (descriptor == null || state.busy || FILES.get(descriptor) == null) {
            return false;
        }
        return MethodEntry.enter(state, frame, Ops.closeFile, FILES.remove(descriptor), 0, WovenFrame.RAISE_AT_END);
    }

    private static boolean onDescriptor(Operation operation, Object descriptor, long size) {
        ThreadState state = ThreadState.get();
        return onDescriptor(state, state.top(), operation, descriptor, size);
    }

    private static boolean onDescriptor(
            ThreadState state, WovenFrame frame, Operation operation, Object descriptor, long size) {
        return onDescriptor(state, frame, operation, descriptor, size, WovenFrame.RAISE);
    }

    private static boolean onDescriptor(
            ThreadState state, WovenFrame frame, Operation operation, Object descriptor, long size, int answer) {
        if (state.inside > 0 || state.busy || descriptor == null) {
            return false;
        }
        Subject subject = FILES.get(descriptor);
        return subject != null && MethodEntry.enter(state, frame, operation, subject, size, answer);
    }

    // --- paths of java.io.File

    public static boolean delete(Object path) {
        return remove(path.toString(), WovenFrame.ANSWER);
    }

    public static boolean rename(Object from, Object to) {
        return renamed(from.toString(), to.toString(), WovenFrame.ANSWER);
    }

    public static boolean mkdir(Object path) {
        return onPath(Ops.mkdir, path, WovenFrame.ANSWER);
    }

    public static boolean createNew(Object path) {
        return onPath(Ops.create, path, WovenFrame.RAISE);
    }

    /** The returned number is a length or a time, not a count of transferred bytes. */
    public static boolean stat(Object path) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        frame.isValue = true;
        return onPath(state, frame, Ops.stat, path, WovenFrame.ANSWER);
    }

    public static boolean list(Object path) {
        return onPath(Ops.list, path, WovenFrame.ANSWER);
    }

    // --- paths of java.nio.file

    public static boolean deletePath(Object path) {
        return remove(path.toString(), WovenFrame.RAISE_NIO);
    }

    public static boolean movePath(Object from, Object to) {
        return renamed(from.toString(), to.toString(), WovenFrame.RAISE_NIO);
    }

    public static boolean mkdirPath(Object path) {
        return onPath(Ops.mkdir, path, WovenFrame.RAISE_NIO);
    }

    /** A link or a copy creates a new name. */
    public static boolean createPath(Object path) {
        return onPath(Ops.create, path, WovenFrame.RAISE_NIO);
    }

    public static boolean copyPath(Object from, Object to) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        Subject target = subject(state, to.toString());
        if (target != null) {
            boolean isNew = !isThere(state, to.toString());
            return MethodEntry.enter(state, frame, isNew ? Ops.create : Ops.open, target, 0, WovenFrame.RAISE_NIO);
        }
        return MethodEntry.enter(state, frame, Ops.read, subject(state, from.toString()), 0, WovenFrame.RAISE_NIO);
    }

    public static boolean statPath(Object path) {
        return onPath(Ops.stat, path, WovenFrame.RAISE_NIO);
    }

    public static boolean listPath(Object path) {
        return onPath(Ops.list, path, WovenFrame.RAISE_NIO);
    }

    private static boolean onPath(Operation operation, Object path, int answer) {
        ThreadState state = ThreadState.get();
        return onPath(state, state.top(), operation, path, answer);
    }

    private static boolean onPath(ThreadState state, WovenFrame frame, Operation operation, Object path, int answer) {
        return path != null && MethodEntry.enter(state, frame, operation, subject(state, path.toString()), 0, answer);
    }

    private static boolean remove(String path, int answer) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        Subject subject = subject(state, path);
        if (subject == null) {
            return false;
        }
        return MethodEntry.enter(state, frame, isFolder(state, path) ? Ops.rmdir : Ops.unlink, subject, 0, answer);
    }

    private static boolean isFolder(ThreadState state, String path) {
        state.busy = true;
        try {
            return new File(path).isDirectory();
        } catch (RuntimeException forbidden) {
            return false;
        } finally {
            state.busy = false;
        }
    }

    private static boolean renamed(String from, String to, int answer) {
        ThreadState state = ThreadState.get();
        WovenFrame frame = state.top();
        Subject source = subject(state, from);
        Subject target = subject(state, to);
        boolean counts = source != null || target != null;
        return counts && MethodEntry.enter(state, frame, Ops.rename, FilePaths.pair(source, target), 0, answer);
    }
}
