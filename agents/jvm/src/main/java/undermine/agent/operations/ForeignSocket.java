package undermine.agent.operations;

/** Answers questions about sockets that the JDK doesn't know: those of Netty's native transport. */
public abstract class ForeignSocket {
    /** True if the library itself is among the target's packages. */
    public final boolean isOfTarget;

    public ForeignSocket(boolean isOfTarget) {
        this.isOfTarget = isOfTarget;
    }

    /** The injected error as the library raises it. */
    public abstract Throwable raised(Call call);

    /** The accepted connection with this descriptor: the agent may have to close it. */
    public abstract Object accepted(int descriptor);

    /** The bytes that were received into a datagram, or into the first `count` of several. */
    public abstract long received(Object datagram, long count);
}
