package undermine.agent.faults;

import java.io.Closeable;
import java.io.IOException;
import java.lang.ref.WeakReference;

/** A connection that loses everything in one direction, until its step is over or the program closes it. */
final class BlackHole {
    final int step;
    private final WeakReference<Object> socket;
    private final String op;
    private final Sockets sockets;
    private volatile boolean hasLost;
    /** The connection after the program has closed it: the peer must not see that yet. Else null. */
    private volatile Closeable closed;
    private boolean isOver;

    BlackHole(Object socket, String op, int step, Sockets sockets) {
        this.socket = new WeakReference<Object>(socket);
        this.op = op;
        this.step = step;
        this.sockets = sockets;
    }

    boolean isOf(Object other, String operation) {
        return closed == null && socket.get() == other && op.equals(operation);
    }

    boolean isGone() {
        return closed == null && socket.get() == null;
    }

    boolean hasLost() {
        return hasLost;
    }

    void lose() {
        hasLost = true;
    }

    /** Lose everything that has arrived. False: the connection has ended. */
    boolean swallow() {
        Object found = socket.get();
        int count = sockets.lose(found);
        while (count > 0) {
            hasLost = true;
            count = sockets.lose(found);
        }
        return count == 0;
    }

    /** The program is about to close the connection. False: there is nothing left to do when the step is over. */
    synchronized boolean close() {
        Object found = socket.get();
        if (isOver || !op.equals("net.send") || found == null) {
            return false;
        }
        closed = sockets.keepOpen(found);
        return closed != null;
    }

    /** The step is over. A connection that lost bytes is reset, since it could only continue with a gap. */
    synchronized void end() throws IOException {
        if (isOver) {
            return;
        }
        isOver = true;
        Object found = socket.get();
        if (closed != null) {
            closed.close();
        } else if (hasLost && found != null) {
            sockets.reset(found);
        }
    }
}
