package undermine.agent.operations;

import undermine.agent.stacks.Stack;
import undermine.agent.wire.Cursor;

/** One call of an operation that is under way, and the decisions about it. */
public final class Call {
    public final Operation operation;
    public final Subject subject;
    public final Stack stack;
    public final int seq;
    public Cursor cursor;
    /** The error to raise instead of the operation or, after it, instead of returning. */
    public Throwable error;
    /** True for a non-blocking channel: its thread must not wait for the peer. */
    public boolean nonBlocking;
    /** Set for such a channel: nothing has arrived, or nothing can be sent now. */
    public boolean wouldBlock;
    /** Set for a datagram that gets lost: its sender is told that it was sent. */
    public boolean isLost;
    /** The stream or channel that the operation uses, or null. */
    public Object handle;

    public Call(Operation operation, Subject subject, Stack stack, int seq, Cursor cursor) {
        this.operation = operation;
        this.subject = subject;
        this.stack = stack;
        this.seq = seq;
        this.cursor = cursor;
    }
}
