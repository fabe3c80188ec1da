package undermine.agent;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Called by the target instead of sleeps and what sets time limits: the same is done, and recorded. See Calls. */
public final class InsteadTimes {
    static final Subject NOTHING = new Subject("", "", false);
    /** Those of sockets that accept, in nanoseconds. Asking the socket itself would take a lock. */
    private static final Known<Long> LIMITS = new Known<Long>();

    private InsteadTimes() {
    }

    public static void sleep(long milliseconds) throws InterruptedException {
        Call call = Watch.begin(Ops.sleep, NOTHING, Watch.limit(milliseconds));
        try {
            Thread.sleep(milliseconds);
        } catch (Throwable error) {
            throw Watch.<RuntimeException>failed(call, error);
        }
        Watch.end(call, 0);
    }

    public static void sleep(long milliseconds, int nanoseconds) throws InterruptedException {
        Call call = Watch.begin(Ops.sleep, NOTHING, Watch.limit(milliseconds) + nanoseconds);
        try {
            Thread.sleep(milliseconds, nanoseconds);
        } catch (Throwable error) {
            throw Watch.<RuntimeException>failed(call, error);
        }
        Watch.end(call, 0);
    }

    public static void sleep(TimeUnit unit, long time) throws InterruptedException {
        Call call = Watch.begin(Ops.sleep, NOTHING, Watch.limit(time, unit));
        try {
            unit.sleep(time);
        } catch (Throwable error) {
            throw Watch.<RuntimeException>failed(call, error);
        }
        Watch.end(call, 0);
    }

    public static void parkNanos(long limit) {
        Call call = limit > 0 ? Watch.begin(Ops.sleep, NOTHING, limit) : null;
        LockSupport.parkNanos(limit);
        Watch.end(call, 0);
    }

    public static void parkNanos(Object blocker, long limit) {
        Call call = limit > 0 ? Watch.begin(Ops.sleep, NOTHING, limit) : null;
        LockSupport.parkNanos(blocker, limit);
        Watch.end(call, 0);
    }

    public static void parkUntil(long deadline) {
        Call call = beginUntil(deadline);
        LockSupport.parkUntil(deadline);
        Watch.end(call, 0);
    }

    public static void parkUntil(Object blocker, long deadline) {
        Call call = beginUntil(deadline);
        LockSupport.parkUntil(blocker, deadline);
        Watch.end(call, 0);
    }

    private static Call beginUntil(long deadline) {
        long limit = Watch.limit(deadline - System.currentTimeMillis());
        return limit > 0 ? Watch.begin(Ops.sleep, NOTHING, limit) : null;
    }

    /** From now on each receiving has a time limit, or no more: one that is lifted is one of 0. */
    public static void setSoTimeout(Socket socket, int milliseconds) throws SocketException {
        if (Ops.timeout != null && socket != null && (milliseconds > 0 || Endpoint.timeoutMs(socket) > 0)) {
            String name = NetHooks.nameOf(socket);
            Watch.record(Ops.timeout, new Subject("socket", name, false), Watch.limit(milliseconds));
        }
        socket.setSoTimeout(milliseconds);
    }

    /** The time limit lasts as long as the connecting. */
    public static void connect(Socket socket, SocketAddress remote, int milliseconds) throws IOException {
        Subject subject = new Subject("connect", "", false);
        Call call = milliseconds > 0 ? Watch.begin(Ops.timeout, subject, Watch.limit(milliseconds)) : null;
        try {
            socket.connect(remote, milliseconds);
        } catch (Throwable error) {
            throw Watch.<RuntimeException>failed(call, error);
        }
        Watch.end(call, 0);
    }

    /** From now on each accepting has a time limit. */
    public static void setSoTimeout(ServerSocket socket, int milliseconds) throws SocketException {
        socket.setSoTimeout(milliseconds);
        LIMITS.put(socket, Watch.limit(milliseconds));
    }

    /** The time limit lasts as long as the accepting. */
    public static Socket accept(ServerSocket socket) throws IOException {
        Long limit = socket == null ? null : LIMITS.get(socket);
        Subject subject = new Subject("accept", "", false);
        Call call = limit != null && limit > 0 ? Watch.begin(Ops.timeout, subject, limit) : null;
        Socket accepted;
        try {
            accepted = socket.accept();
        } catch (Throwable error) {
            throw Watch.<RuntimeException>failed(call, error);
        }
        Watch.end(call, 0);
        return accepted;
    }
}
