package undermine.agent.net;

import java.net.InetSocketAddress;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.record.AgentCore;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/**
 * The steps that the hooks of all kinds of sockets share.
 *
 * An operation of a non-blocking channel that does nothing leaves no event. So it is recorded after it was done. If a
 * step waits before it, the channel is first asked whether it is ready. Unix sockets are never observed.
 */
public final class SocketOperations {
    private SocketOperations() {
    }

    static boolean isIdle(ThreadState state) {
        AgentCore agent = AgentCore.current;
        return agent != null && !agent.off && !state.busy && state.inside == 0;
    }

    /** The subject of a peer that this process calls. */
    static Subject called(ThreadState state, InetSocketAddress remote) {
        AgentCore agent = AgentCore.current;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            return agent.peers.connected(remote);
        } catch (Throwable trouble) {
            agent.note(trouble);
            return new Subject("other", "", false);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** A socket begins to connect; 0 means that it has no time limit. */
    static boolean connecting(ThreadState state, WovenFrame frame, Object socket, Object remote, int timeoutMs) {
        if (!isIdle(state) || !(remote instanceof InetSocketAddress)) {
            return false;
        }
        InetSocketAddress address = (InetSocketAddress) remote;
        if (address.isUnresolved()) {
            return false;
        }
        Subject subject = called(state, address);
        Connections.put(socket, Connection.connecting(subject, timeoutMs));
        frame.handle = socket;
        boolean isBegun = false;
        try {
            MethodEntry.enter(state, frame, Ops.connect, subject, 0, WovenFrame.RAISE);
            isBegun = true;
        } finally {
            if (!isBegun) {
                Connections.remove(socket); // it was refused: closing it is not an event
                close(state, socket); // as the JDK does after a failed connect
            }
        }
        return false;
    }

    private static void close(ThreadState state, Object socket) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            JdkSockets.closeAny(socket);
        } catch (Throwable trouble) {
            AgentCore.current.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    static boolean closing(ThreadState state, WovenFrame frame, Object socket, Subject subject) {
        Connections.put(socket, Connection.without(subject).closed());
        AgentCore agent = AgentCore.current;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            agent.faults.closing(socket, subject);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
        return MethodEntry.enter(state, frame, Ops.close, subject, 0, WovenFrame.RAISE_AT_END);
    }

    /** The subject of a listening socket; `where` is its address or its descriptor. */
    static Subject listening(ThreadState state, Object socket, Object where) {
        Connection known = Connections.get(socket);
        if (known != null) {
            return known.subject;
        }
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Subject subject = AgentCore.current.peers.listening(
                    where instanceof InetSocketAddress ? (InetSocketAddress) where : JdkSockets.localOf(where));
            Connections.put(socket, Connection.without(subject));
            return subject;
        } finally {
            state.busy = wasBusy;
        }
    }

    /** Begin an operation of a non-blocking channel: see the comment of the class. */
    static boolean withoutBlocking(
            ThreadState state, WovenFrame frame, Operation operation, Subject subject, Object descriptor, long size) {
        AgentCore agent = AgentCore.current;
        Operation seen = Recorder.seen(agent, state, operation, subject);
        if (seen == null) {
            return false;
        }
        boolean isAsked;
        state.busy = true;
        try {
            if (seen == operation && agent.faults.mustWait(operation, subject, frame.handle, agent.cursor(state))) {
                state.pop();
                return true;
            }
            isAsked = seen == operation && (operation.before.length > 0 || agent.lasting.any());
            if (isAsked && agent.lasting.errorOf(operation, subject) == null
                    && !JdkSockets.isReady(descriptor, operation == Ops.send)) {
                return false;
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
            return false;
        } finally {
            state.busy = false;
        }
        if (isAsked) {
            frame.size = size;
            Call call = Recorder.begin(
                    agent, state, operation, subject, size, 0, frame.handle, true, MethodEntry.isOfCaller(frame));
            return call != null && MethodEntry.proceed(agent, state, frame, call);
        }
        frame.late = seen;
        frame.subject = subject;
        frame.size = size;
        frame.since = Clock.now();
        return MethodEntry.wantsData(state, frame);
    }
}
