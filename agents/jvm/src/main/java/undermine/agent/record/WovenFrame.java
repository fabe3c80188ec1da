package undermine.agent.record;

import java.net.DatagramPacket;
import java.nio.ByteBuffer;
import undermine.agent.lib.Payload;
import undermine.agent.operations.Call;
import undermine.agent.operations.EnclosingOperation;
import undermine.agent.operations.ForeignSocket;
import undermine.agent.operations.LogicalMethod;
import undermine.agent.operations.Operation;
import undermine.agent.operations.StoreCall;
import undermine.agent.operations.Subject;

/** The state of a woven method under way. Frames are reused: a thread has one for each depth. */
public final class WovenFrame {
    /**
     * How an injected error is delivered: raised as it is, raised as java.nio.file does, or answered with false, 0 or
     * nothing.
     */
    public static final int RAISE = 0;
    public static final int RAISE_NIO = 1;
    public static final int ANSWER = 2;
    /** The resource is closed all the same; then the error is raised. */
    public static final int RAISE_AT_END = 3;
    /** Raised as FileDescriptor.sync does. */
    public static final int RAISE_SYNC = 4;

    /** The recorded operation, or null. */
    public Call call;
    /** For a non-blocking channel: the operation to record at the end, if it did something. */
    public Operation late;
    public Subject subject;
    public long since;
    public long size;
    public int answer;
    /** True if the method can show its data and take other data instead. */
    public boolean hasData;
    /** The data that it was given or returns, if that may be changed or its tokens are recorded; else null. */
    public Payload payload;
    /** True if the method returns one byte, or -1. */
    public boolean isOneByte;
    /** True if the method returns a value that was read: the size is known beforehand. */
    public boolean isValue;
    /** True if a send can't tell its size beforehand. */
    public boolean isOfUnknownSize;
    /** True if the method returns the descriptor of an accepted connection, or less than 0. */
    public boolean isDescriptor;
    /** True if operations inside are not part of it: it runs work that was handed over. */
    public boolean isTaking;
    /** True for Netty's wait for descriptors, which returns their number. */
    public boolean isPoll;
    /** True if that number is in the upper half of the returned value. */
    public boolean isPacked;
    /** Receives a datagram: a buffer, a packet, or several packets of Netty; or Netty's address of the sender. */
    public Object datagram;
    /** For a method of Netty: its kind of socket; else null. */
    public ForeignSocket side;
    /** The queue from which the method returns an item, or null. */
    public Subject queue;
    /** The item that the method is offered, and the subject that it was recorded with; or null. */
    public Object item;
    public Subject given;
    /** The file or socket that this operation opens, connects or listens on. */
    public Object handle;
    /** The error to raise when the method ends. */
    public Throwable atEnd;
    /** The enclosing logical operation, which is current again when this one ends. */
    public EnclosingOperation outer;
    /** The logical operation that this method is, and its arguments; or null. */
    public LogicalMethod named;
    public Object[] arguments;
    /** The request of that operation to an external store, or null. */
    public StoreCall asked;

    /** The bytes of the datagram, or of `count` datagrams, that were received. */
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
        hasData = false;
        payload = null;
        isOneByte = false;
        isValue = false;
        isOfUnknownSize = false;
        isDescriptor = false;
        isTaking = false;
        isPoll = false;
        isPacked = false;
        datagram = null;
        side = null;
        queue = null;
        item = null;
        given = null;
        handle = null;
        atEnd = null;
        outer = null;
        named = null;
        arguments = null;
        asked = null;
    }
}
