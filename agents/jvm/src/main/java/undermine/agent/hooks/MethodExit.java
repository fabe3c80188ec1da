package undermine.agent.hooks;

import java.io.IOException;
import undermine.agent.content.ContentRecorder;
import undermine.agent.faults.SystemErrors;
import undermine.agent.lib.Unchecked;
import undermine.agent.net.Connections;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.MethodEntry;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;
import undermine.agent.stacks.Stack;
import undermine.agent.sync.HandoverHooks;
import undermine.agent.sync.PendingItems;

/**
 * The end of a woven method. It records the end of the operation; then the method returns or raises an error, as was
 * decided.
 */
public final class MethodExit {
    private static final String RESET = "ECONNRESET";

    private MethodExit() {
    }

    /** The end of a method that takes an item from one of the JDK's own queues. Pops the frame. */
    static void got(ThreadState state, WovenFrame frame, Object item) {
        Subject queue = frame.queue;
        Call call = frame.call;
        long since = frame.since;
        exit(state, frame, item == null ? 0 : 1, null);
        Stack stack = call != null ? call.stack
                : item != null && since > 0 ? HandoverHooks.gotAt(state, queue, since) : null;
        PendingItems.take(state, queue, item, stack);
    }

    /**
     * The method ends, by an exception or with this number. True: answer with nothing instead.
     *
     * Throws the injected error. Pops the frame.
     */
    static boolean exit(ThreadState state, WovenFrame frame, long result, Throwable error) {
        boolean isAnswer = frame.answer == WovenFrame.ANSWER;
        Throwable instead;
        try {
            instead = ended(AgentCore.current, state, frame, result, error);
        } finally {
            state.pop();
        }
        if (instead != null && !isAnswer) {
            Unchecked.<RuntimeException>raise(instead);
        }
        return instead != null;
    }

    /** The error to raise instead, or null. */
    private static Throwable ended(AgentCore agent, ThreadState state, WovenFrame frame, long result, Throwable error) {
        if (frame.isPoll) {
            state.polls--;
        }
        if (frame.given != null && (error != null || result <= 0)) {
            withdraw(agent, frame);
        }
        if (frame.late != null) {
            recordLate(agent, state, frame, result, error);
        }
        if (frame.call != null && !frame.isTaking || frame.atEnd != null) {
            state.inside--;
        }
        Call call = frame.call;
        if (call == null) {
            return frame.atEnd;
        }
        boolean isReset = isReceive(call.operation) && Connections.isReset(frame.handle);
        long count = error == null && !call.hasLost && !isReset ? bytes(frame, result) : 0;
        if (frame.payload != null) {
            ChangedData.end(agent, state, frame, count);
        }
        String name = error == null ? null : nameOf(error);
        Recorder.leave(agent, state, call, count, call.hasLost ? MethodEntry.LOST : isReset ? RESET : name);
        if (Ops.tokens != null && count > 0) {
            ContentRecorder.record(agent, state, frame, result, count);
        }
        call.error = call.error == null && isReset ? SystemErrors.ofReset() : call.error;
        if (call.error == null) {
            return null;
        }
        if (error == null && frame.handle != null) {
            undo(agent, state, call.operation, frame.isDescriptor ? frame.side.accepted((int) result) : frame.handle);
        }
        return MethodEntry.raised(frame, call);
    }

    /** After a reset by the agent, TLS could still return bytes that it has decrypted before. */
    private static boolean isReceive(Operation operation) {
        return operation == Ops.recv || operation == Ops.rawRecv;
    }

    /** The item that the method was offered was refused. */
    private static void withdraw(AgentCore agent, WovenFrame frame) {
        try {
            PendingItems.withdraw(frame.item, frame.given);
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }

    /** The errno of the error. java.nio.file has an internal exception before it creates a public one. */
    private static String nameOf(Throwable error) {
        boolean isBare = error.getClass().getName().equals("sun.nio.fs.UnixException");
        return SystemErrors.nameOf(isBare ? new IOException(error.getMessage()) : error);
    }

    /** The number of bytes that the returned number stands for. */
    private static long bytes(WovenFrame frame, long result) {
        if (frame.isValue) {
            return frame.size;
        }
        if (frame.isPoll) {
            return Math.max(0, frame.isPacked ? result >> 32 : result);
        }
        return result < 0 ? 0 : frame.isOneByte ? 1 : frame.datagram != null ? frame.received(result) : result;
    }

    /** Record the operation of a non-blocking channel that did something. */
    private static void recordLate(AgentCore agent, ThreadState state, WovenFrame frame, long result, Throwable error) {
        boolean isInVain = frame.isDescriptor ? result < 0 : result == 0;
        if (isInVain && error == null || agent == null || agent.off) {
            return;
        }
        Call call = Recorder.begin(agent, state, frame.late, frame.subject, frame.size, frame.since, frame.handle, true,
                MethodEntry.isOfCaller(frame));
        if (call != null) {
            frame.call = call;
            state.inside++;
        }
    }

    /** Close the file or connection, since the program gets an error instead. */
    static void undo(AgentCore agent, ThreadState state, Operation operation, Object handle) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Undo.of(operation.name, handle);
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }
}
