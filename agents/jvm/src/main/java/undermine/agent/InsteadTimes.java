package undermine.agent;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Called by the target instead of sleeps and what sets time limits: the same is done, and recorded. See Calls. */
public final class InsteadTimes {
    static final Subject NOTHING = new Subject("", "", false);

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
}
