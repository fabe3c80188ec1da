package undermine.agent.net;

import java.net.InetSocketAddress;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.wire.SharedState;

/** A socket: its peer and the name of its connection. */
public final class Connection {
    /** The subject of its operations, also for a listening socket. Null: not recorded. */
    final Subject subject;
    /** The address of a caller whose node isn't known yet; else null. */
    final InetSocketAddress caller;
    final int localPort;
    final boolean isClosed;
    /** `LOCAL>REMOTE/N`; null while it has none. */
    final String name;
    /** The time limit of a connect that is under way; 0: none. */
    final int connectTimeoutMs;

    Connection(Subject subject, InetSocketAddress caller, int localPort, boolean isClosed, String name) {
        this(subject, caller, localPort, isClosed, name, 0);
    }

    private Connection(
            Subject subject, InetSocketAddress caller, int localPort, boolean isClosed, String name, int connectTimeoutMs) {
        this.subject = subject;
        this.caller = caller;
        this.localPort = localPort;
        this.isClosed = isClosed;
        this.name = name;
        this.connectTimeoutMs = connectTimeoutMs;
    }

    /** A connection that isn't established yet, or a listening socket. */
    static Connection without(Subject subject) {
        return new Connection(subject, null, 0, false, null);
    }

    static Connection connecting(Subject subject, int timeoutMs) {
        return new Connection(subject, null, 0, false, null, timeoutMs);
    }

    Connection closed() {
        return new Connection(subject, null, 0, true, name);
    }

    /** True if the connection is named and its peer is known for good. */
    boolean isWhole() {
        return name != null && isCertain();
    }

    /** False once the agent of an unknown caller has published its port. */
    boolean isCertain() {
        return caller == null
                || AgentCore.current.state.callerAt(SharedState.slotOf(caller.getPort(), localPort), caller.getPort()) == 0;
    }
}
