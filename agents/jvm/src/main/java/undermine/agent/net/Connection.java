package undermine.agent.net;

import java.net.InetSocketAddress;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.wire.SharedState;

/** What is known of a socket: whom it talks to, and what its connection is called. */
public final class Connection {
    /** Also of what listens. Null: it does not count. */
    final Subject subject;
    /** Of somebody who called and is not known yet: where to look again; else null. */
    final InetSocketAddress caller;
    final int localPort;
    final boolean isClosed;
    /** `LOCAL>REMOTE/N`; null while it has none. */
    final String name;

    Connection(Subject subject, InetSocketAddress caller, int localPort, boolean isClosed, String name) {
        this.subject = subject;
        this.caller = caller;
        this.localPort = localPort;
        this.isClosed = isClosed;
        this.name = name;
    }

    /** Whom we call: not connected yet. Or what listens. */
    static Connection without(Subject subject) {
        return new Connection(subject, null, 0, false, null);
    }

    Connection closed() {
        return new Connection(subject, null, 0, true, name);
    }

    /** True if it has its name, and there is nothing more to find out. */
    boolean isWhole() {
        return name != null && isCertain();
    }

    /** False once the port of a caller who was not known has been told by its agent. */
    boolean isCertain() {
        return caller == null
                || AgentCore.current.state.callerAt(SharedState.slotOf(caller.getPort(), localPort), caller.getPort()) == 0;
    }
}
