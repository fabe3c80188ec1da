package undermine.agent.faults;

import java.io.Closeable;
import java.util.List;

/** Questions that faults ask about a socket. A socket is given by the object that the JDK or Netty uses for it. */
public interface Sockets {
    /** False if the thread that waits for the socket would be woken: it was closed, or an interrupt is about to close it. */
    boolean isWaiting(Object socket);

    boolean isOfDatagrams(Object socket);

    /** The time limit of a receive in milliseconds; 0: none, or not known. */
    int timeoutMs(Object socket);

    /** The time limit of the connect that is under way, in milliseconds; 0: none, or not known. */
    int connectTimeoutMs(Object socket);

    /** Read and lose what has arrived, without waiting. The number of bytes; 0: nothing; -1: the connection has ended. */
    int lose(Object socket);

    /** Reset a connection, at both ends. */
    void reset(Object socket);

    /** Reset all connections with these nodes. */
    void resetAll(List<?> nodes);

    /** Keep a connection open that is about to be closed, so that its peer sees nothing. Closing the result resets it. */
    Closeable keepOpen(Object socket);
}
