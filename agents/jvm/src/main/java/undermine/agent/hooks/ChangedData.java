package undermine.agent.hooks;

import undermine.agent.lib.Payload;
import undermine.agent.operations.Call;
import undermine.agent.operations.DataChange;
import undermine.agent.record.AgentCore;
import undermine.agent.record.Ops;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/** Changes the data of a woven method, if that was decided: what it is given, or what it has received. */
public final class ChangedData {
    private ChangedData() {
    }

    /** The method is about to run; other arguments are put into the array. */
    static void begin(ThreadState state, WovenFrame frame, Object[] arguments) {
        AgentCore agent = AgentCore.current;
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            DataChange change = isGiven(frame.call) ? frame.call.change : null;
            Payload payload = frame.named == null ? Payload.of(arguments, frame.size) : Payload.of(arguments);
            frame.payload = payload;
            byte[] changed = payload == null || change == null ? null : change.of(payload.bytes());
            if (changed != null) {
                payload.replace(changed);
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** True if the bytes are known before the operation. Those of a file that is read were changed in the file. */
    private static boolean isGiven(Call call) {
        return call != null && call.operation != Ops.recv && call.operation != Ops.read;
    }

    /** A logical operation has returned a message; returns it, or a changed one. */
    static Object received(AgentCore agent, ThreadState state, Call call, Object result) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Object[] message = {result};
            Payload payload = Payload.of(message);
            byte[] changed = payload == null ? null : call.change.of(payload.bytes());
            if (changed != null) {
                payload.replace(changed);
            }
            return message[0];
        } catch (Throwable trouble) {
            agent.note(trouble);
            return result;
        } finally {
            state.busy = wasBusy;
        }
    }

    /** The method has ended, and has received this number of bytes if it is a receive. */
    static void end(AgentCore agent, ThreadState state, WovenFrame frame, long count) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Call call = frame.call;
            if (call.operation != Ops.recv) {
                frame.payload.settle();
            } else if (count > 0 && call.change != null) {
                call.cursor = agent.cursor(state);
                byte[] changed = call.change.of(frame.payload.received(count));
                if (changed != null) {
                    frame.payload.put(changed);
                }
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }
}
