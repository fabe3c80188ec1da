package undermine.agent.faults;

import java.io.IOException;
import java.util.concurrent.CopyOnWriteArrayList;
import undermine.agent.wire.SharedState;

/** All connections that lose everything in one direction. The caller has set `busy`. */
final class BlackHoles {
    private final SharedState state;
    private final LastingFaults lasting;
    private final Sockets sockets;
    private final CopyOnWriteArrayList<BlackHole> holes = new CopyOnWriteArrayList<BlackHole>();

    BlackHoles(SharedState state, LastingFaults lasting, Sockets sockets) {
        this.state = state;
        this.lasting = lasting;
        this.sockets = sockets;
    }

    synchronized void add(Object socket, String op, int step) {
        if (of(socket, op) == null) {
            holes.add(new BlackHole(socket, op, step, sockets));
            lasting.setBlackHoles(true);
        }
    }

    /** The black hole that this operation of a socket falls into, or null. */
    BlackHole of(Object socket, String op) {
        if (holes.isEmpty()) {
            return null;
        }
        look();
        for (BlackHole each : holes) {
            if (each.isOf(socket, op)) {
                return each;
            }
        }
        return null;
    }

    /** End those whose step is over. */
    void look() {
        for (BlackHole each : holes) {
            if (each.isGone() || state.over(each.step)) {
                end(each);
            }
        }
    }

    /** Returns when the connection is reset: nothing may be sent before. */
    private void end(BlackHole hole) {
        try {
            hole.end();
        } catch (IOException trouble) {
            return; // closed
        } finally {
            remove(hole);
        }
    }

    /** The program is about to close this socket. */
    void closing(Object socket) {
        for (String op : DecisionTable.TRANSFERS) {
            BlackHole hole = of(socket, op);
            if (hole != null && !hole.close()) {
                remove(hole);
            }
        }
    }

    private synchronized void remove(BlackHole hole) {
        holes.remove(hole);
        lasting.setBlackHoles(!holes.isEmpty());
    }
}
