package undermine.agent.faults;

import undermine.agent.wire.SharedState;

/** The flag that says whether the first occurrence of a pair was seen: in the run, on this node or in this process. */
final class FirstSeen {
    private static final int HERE = -1;

    private final int at;
    private volatile boolean isSeenHere;

    private FirstSeen(int at) {
        this.at = at;
    }

    /** The flag at this offset of the shared state. */
    static FirstSeen at(int offset) {
        return new FirstSeen(offset);
    }

    static FirstSeen inThisProcess() {
        return new FirstSeen(HERE);
    }

    boolean isSeen(SharedState state) {
        return at == HERE ? isSeenHere : state.flag(at);
    }

    void raise(SharedState state) {
        if (at == HERE) {
            isSeenHere = true;
        } else {
            state.raise(at);
        }
    }
}
