package undermine.agent.faults;

/** Questions that faults ask about a socket. A socket is given by the object that the JDK or Netty uses for it. */
public interface Sockets {
    /** False if the thread that waits for the socket would be woken: it was closed, or an interrupt is about to close it. */
    boolean isWaiting(Object socket);

    boolean isOfDatagrams(Object socket);

    /** The time limit of a receive in milliseconds; 0: none, or not known. */
    int timeoutMs(Object socket);
}
