package undermine.agent.operations;

/** A logical operation under way. It covers the operations below it that have the same peer. */
public final class EnclosingOperation {
    private final String op;
    private final String peer;

    public EnclosingOperation(String op, String peer) {
        this.op = op;
        this.peer = peer;
    }

    /** True if this operation is part of it; false if no peer is known. */
    public boolean covers(String below, Subject subject) {
        if (!isBelow(below)) {
            return false;
        }
        return !peer.isEmpty() && (subject.target.equals(peer) || subject.target.endsWith(" " + peer));
    }

    private boolean isBelow(String below) {
        if (op.equals("msg.recv")) {
            return below.equals("net.recv") || below.equals("msg.recv"); // messages that a handler sends are not part of it
        }
        boolean isRaw = below.equals("net.connect") || below.equals("net.send") || below.equals("net.recv")
                || below.equals("net.close");
        return isRaw || (op.equals("msg.send") ? below.equals("msg.send") : below.startsWith("db."));
    }
}
