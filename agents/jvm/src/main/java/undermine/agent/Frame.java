package undermine.agent;

import java.net.DatagramPacket;
import java.nio.ByteBuffer;

/** A woven method under way in a thread. Used again and again: one for each depth. */
final class Frame {
    /** How an injected error is answered: raised as it is, as java.nio.file raises it, or by false, 0 or nothing. */
    static final int RAISE = 0;
    static final int RAISE_NIO = 1;
    static final int ANSWER = 2;
    /** What is closed is given up all the same, then the error is raised. */
    static final int RAISE_AT_END = 3;
    /** As FileDescriptor.sync raises it, whatever went wrong. */
    static final int RAISE_SYNC = 4;

    /** The recorded operation, or null. */
    Call call;
    /** On a channel that does not block: what will be recorded if it turns out not to be in vain. */
    Operation late;
    Subject subject;
    long since;
    long size;
    int answer;
    /** True if the method's number is no number of bytes but one byte, or nothing (-1). */
    boolean isOneByte;
    /** True if it is a value that was read: as many bytes as were asked for. */
    boolean isValue;
    /** True if the method's number is the descriptor of what was accepted, or less than 0. */
    boolean isDescriptor;
    /** True if what is done meanwhile is no part of it: it was handed over, and is run. */
    boolean isTaking;
    /** True for a wait of Netty's for descriptors: its number is how many there are. */
    boolean isPoll;
    /** If it is in the upper half of the number only. */
    boolean isPacked;
    /** What a datagram is received into: a buffer, a packet, or several ones of Netty; or Netty's address of who sent it. */
    Object datagram;
    /** In a method of Netty: what can be told of its class; else null. */
    NettySide side;
    /** What the method returns was handed over by this queue; or null. */
    Subject queue;
    /** What the method is offered, and what that was recorded as; or null. */
    Object item;
    Subject given;
    /** What is opened, connected or listened on by this operation. */
    Object thing;
    /** Raised when the method ends, whatever it does. */
    Throwable atEnd;
    /** The enclosing logical operation, while another one is under way. */
    Scope outer;
    /** The logical operation that this method is, and what it was given; or null. */
    Named.Method named;
    Object[] arguments;

    /** The bytes of the datagram that has come, or of so many. */
    long received(long count) {
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
