package undermine.agent.instead;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import undermine.agent.lib.WeakIdentityMap;
import undermine.agent.net.Endpoint;
import undermine.agent.net.SocketHooks;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.record.Observer;
import undermine.agent.record.Ops;

/** Called by the target instead of sleeps and methods that set time limits; each call is recorded. See ReplacedCalls. */
public final class TimeCalls {
    /** The time limits of server sockets in nanoseconds. Asking the socket would take a lock. */
    private static final WeakIdentityMap<Long> LIMITS = new WeakIdentityMap<Long>();

    private TimeCalls() {
    }

    public static void sleep(long milliseconds) throws InterruptedException {
        Call call = Observer.begin(Ops.sleep, Subject.NOTHING, Observer.limit(milliseconds));
        try {
            Thread.sleep(milliseconds);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    public static void sleep(long milliseconds, int nanoseconds) throws InterruptedException {
        Call call = Observer.begin(Ops.sleep, Subject.NOTHING, Observer.limit(milliseconds) + nanoseconds);
        try {
            Thread.sleep(milliseconds, nanoseconds);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    public static void sleep(TimeUnit unit, long time) throws InterruptedException {
        Call call = Observer.begin(Ops.sleep, Subject.NOTHING, Observer.limit(time, unit));
        try {
            unit.sleep(time);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    public static void parkNanos(long limit) {
        Call call = limit > 0 ? Observer.begin(Ops.sleep, Subject.NOTHING, limit) : null;
        LockSupport.parkNanos(limit);
        Observer.end(call, 0);
    }

    public static void parkNanos(Object blocker, long limit) {
        Call call = limit > 0 ? Observer.begin(Ops.sleep, Subject.NOTHING, limit) : null;
        LockSupport.parkNanos(blocker, limit);
        Observer.end(call, 0);
    }

    public static void parkUntil(long deadline) {
        Call call = beginUntil(deadline);
        LockSupport.parkUntil(deadline);
        Observer.end(call, 0);
    }

    public static void parkUntil(Object blocker, long deadline) {
        Call call = beginUntil(deadline);
        LockSupport.parkUntil(blocker, deadline);
        Observer.end(call, 0);
    }

    private static Call beginUntil(long deadline) {
        long limit = Observer.limit(deadline - System.currentTimeMillis());
        return limit > 0 ? Observer.begin(Ops.sleep, Subject.NOTHING, limit) : null;
    }

    /** Each receive has this time limit from now on. A limit that is removed is recorded as 0. */
    public static void setSoTimeout(Socket socket, int milliseconds) throws SocketException {
        if (Ops.timeout != null && socket != null && (milliseconds > 0 || Endpoint.limitOf(socket) > 0)) {
            String name = SocketHooks.nameOf(socket);
            Observer.record(Ops.timeout, new Subject("socket", name, false), Observer.limit(milliseconds));
        }
        socket.setSoTimeout(milliseconds);
    }

    /** The time limit lasts as long as the connect. */
    public static void connect(Socket socket, SocketAddress remote, int milliseconds) throws IOException {
        Subject subject = new Subject("connect", "", false);
        Call call = milliseconds > 0 ? Observer.begin(Ops.timeout, subject, Observer.limit(milliseconds)) : null;
        try {
            socket.connect(remote, milliseconds);
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
    }

    /** Each accept has this time limit from now on. */
    public static void setSoTimeout(ServerSocket socket, int milliseconds) throws SocketException {
        socket.setSoTimeout(milliseconds);
        LIMITS.put(socket, Observer.limit(milliseconds));
    }

    /** The time limit lasts as long as the accept. */
    public static Socket accept(ServerSocket socket) throws IOException {
        Long limit = socket == null ? null : LIMITS.get(socket);
        Subject subject = new Subject("accept", "", false);
        Call call = limit != null && limit > 0 ? Observer.begin(Ops.timeout, subject, limit) : null;
        Socket accepted;
        try {
            accepted = socket.accept();
        } catch (Throwable error) {
            throw Observer.<RuntimeException>failed(call, error);
        }
        Observer.end(call, 0);
        return accepted;
    }
}
