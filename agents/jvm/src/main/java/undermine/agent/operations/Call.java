package undermine.agent.operations;

import javax.net.ssl.SSLSocket;
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
    /** Set for a message that gets lost: its sender believes that it was sent. */
    public boolean isLost;
    /** Set for a receive that has lost bytes: its end is recorded like that of a lost message. */
    public boolean hasLost;
    /** Set if the bytes of the operation may be changed. */
    public DataChange change;
    public long size;
    /** The stream or channel that the operation uses, or null. */
    public Object handle;

    public Call(Operation operation, Subject subject, Stack stack, int seq, Cursor cursor) {
        this.operation = operation;
        this.subject = subject;
        this.stack = stack;
        this.seq = seq;
        this.cursor = cursor;
    }

    /** True for a handshake of TLS that the program asked for: it moves no payload. */
    public boolean isHandshake() {
        return handle instanceof SSLSocket && size == 0;
    }
}
