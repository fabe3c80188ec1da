package undermine.agent.operations;

import undermine.agent.stacks.Stack;
import undermine.agent.wire.Cursor;

/** One operation under way, and what was decided about it. */
public final class Call {
    public final Operation operation;
    public final Subject subject;
    public final Stack stack;
    public final int seq;
    public Cursor cursor;
    /** Raised instead of doing the operation or, after it, instead of returning. */
    public Throwable error;
    /** True if the operation is on a channel that does not block: its thread must not be held for the peer's sake. */
    public boolean nonBlocking;
    /** Set for such a channel: nothing has arrived, or nothing can be sent, for now. */
    public boolean wouldBlock;
    /** Set for a datagram that gets lost: its sender is told that it was sent. */
    public boolean isLost;
    /** Who has to hear of the operation's end: the stream or channel, or null. */
    public Object subjectOf;

    public Call(Operation operation, Subject subject, Stack stack, int seq, Cursor cursor) {
        this.operation = operation;
        this.subject = subject;
        this.stack = stack;
        this.seq = seq;
        this.cursor = cursor;
    }
}
