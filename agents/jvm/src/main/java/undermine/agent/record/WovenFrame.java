package undermine.agent.record;

import java.net.DatagramPacket;
import java.nio.ByteBuffer;
import undermine.agent.operations.Call;
import undermine.agent.operations.EnclosingOperation;
import undermine.agent.operations.LogicalMethod;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;

/** A woven method under way in a thread. Used again and again: one for each depth. */
public final class WovenFrame {
    /** How an injected error is answered: raised as it is, as java.nio.file raises it, or by false, 0 or nothing. */
    public static final int RAISE = 0;
    public static final int RAISE_NIO = 1;
    public static final int ANSWER = 2;
    /** What is closed is given up all the same, then the error is raised. */
    public static final int RAISE_AT_END = 3;
    /** As FileDescriptor.sync raises it, whatever went wrong. */
    public static final int RAISE_SYNC = 4;

    /** The recorded operation, or null. */
    public Call call;
    /** On a channel that does not block: what will be recorded if it turns out not to be in vain. */
    public Operation late;
    public Subject subject;
    public long since;
    public long size;
    public int answer;
    /** True if the method's number is no number of bytes but one byte, or nothing (-1). */
    public boolean isOneByte;
    /** True if it is a value that was read: as many bytes as were asked for. */
    public boolean isValue;
    /** True if the method's number is the descriptor of what was accepted, or less than 0. */
    public boolean isDescriptor;
    /** True if what is done meanwhile is no part of it: it was handed over, and is run. */
    public boolean isTaking;
    /** True for a wait of Netty's for descriptors: its number is how many there are. */
    public boolean isPoll;
    /** If it is in the upper half of the number only. */
    public boolean isPacked;
    /** What a datagram is received into: a buffer, a packet, or several ones of Netty; or Netty's address of who sent it. */
    public Object datagram;
    /** In a method of Netty: what can be told of its class; else null. */
    public ForeignSocket side;
    /** What the method returns was handed over by this queue; or null. */
    public Subject queue;
    /** What the method is offered, and what that was recorded as; or null. */
    public Object item;
    public Subject given;
    /** What is opened, connected or listened on by this operation. */
    public Object thing;
    /** Raised when the method ends, whatever it does. */
    public Throwable atEnd;
    /** The enclosing logical operation, while another one is under way. */
    public EnclosingOperation outer;
    /** The logical operation that this method is, and what it was given; or null. */
    public LogicalMethod named;
    public Object[] arguments;

    /** The bytes of the datagram that has come, or of so many. */
    public long received(long count) {
        if (side != null) {
            return side.received(datagram, count);
        }
        if (datagram instanceof DatagramPacket) {
            return ((DatagramPacket) datagram).getLength();
        }
        return size - ((ByteBuffer) datagram).remaining();
    }

    void clear() {
        call = null;
        late = null;
        subject = null;
        since = 0;
        size = 0;
        answer = RAISE;
        isOneByte = false;
        isValue = false;
        isDescriptor = false;
        isTaking = false;
        isPoll = false;
        isPacked = false;
        datagram = null;
        side = null;
        queue = null;
        item = null;
        given = null;
        thing = null;
        atEnd = null;
        outer = null;
        named = null;
        arguments = null;
    }
}
