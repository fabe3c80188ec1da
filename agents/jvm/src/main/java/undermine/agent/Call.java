package undermine.agent;

/** One operation under way, and what was decided about it. */
final class Call {
    final Operation operation;
    final Subject subject;
    final Stack stack;
    final int seq;
    Cursor cursor;
    /** Raised instead of doing the operation or, after it, instead of returning. */
    Throwable error;
    /** True if the operation is on a channel that does not block: its thread must not be held for the peer's sake. */
    boolean nonBlocking;
    /** Set for such a channel: nothing has arrived, or nothing can be sent, for now. */
    boolean wouldBlock;
    /** Set for a datagram that gets lost: its sender is told that it was sent. */
    boolean isLost;
    /** Who has to hear of the operation's end: the stream or channel, or null. */
    Object subjectOf;

    Call(Operation operation, Subject subject, Stack stack, int seq, Cursor cursor) {
        this.operation = operation;
        this.subject = subject;
        this.stack = stack;
        this.seq = seq;
        this.cursor = cursor;
    }
}
