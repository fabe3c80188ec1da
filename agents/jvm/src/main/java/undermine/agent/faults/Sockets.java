package undermine.agent.faults;

/** The questions that faults ask about a socket, given by the object that stands for it. */
public interface Sockets {
    /** False if the thread that waits for the socket would be woken: it was closed, or an interrupt is about to close it. */
    boolean isWaiting(Object socket);

    boolean isOfDatagrams(Object socket);

    /** The time limit of a receive in milliseconds; 0: none, or not known. */
    int timeoutMs(Object socket);
}
