package undermine.agent.content;

import undermine.agent.lib.Payload;
import undermine.agent.operations.Call;
import undermine.agent.operations.Subject;
import undermine.agent.record.AgentCore;
import undermine.agent.record.Ops;
import undermine.agent.record.Recorder;
import undermine.agent.record.ThreadState;
import undermine.agent.record.WovenFrame;

/** Records the tokens of an operation's bytes, directly after the operation. */
public final class ContentRecorder {
    private ContentRecorder() {
    }

    /** The operation of this frame has moved `count` bytes, and the method returns `result` if it returns a number. */
    public static void record(AgentCore agent, ThreadState state, WovenFrame frame, long result, long count) {
        boolean wasBusy = state.busy;
        state.busy = true;
        try {
            Call call = frame.call;
            Payload payload = frame.payload == null ? returned(frame, result) : frame.payload;
            String digests = payload == null ? "" : digests(payload, count);
            if (!digests.isEmpty()) {
                Recorder.recordAt(agent, state, agent.cursor(state), Ops.tokens, Subject.unique("", digests), call.stack,
                        call.seq, 0, 0);
            }
        } catch (Throwable trouble) {
            agent.note(trouble);
        } finally {
            state.busy = wasBusy;
        }
    }

    /** The number that a method has read from a file, as bytes; null if it returns something else. */
    private static Payload returned(WovenFrame frame, long result) {
        boolean isNumber = frame.isValue && frame.call.operation == Ops.read;
        return isNumber ? Payload.of(new Object[] {result}, frame.size) : null;
    }

    static String digests(Payload payload, long count) {
        Tokens tokens = new Tokens();
        if (count <= 2 * Tokens.EDGE_BYTES) {
            tokens.add(payload.part(0, (int) count), true);
        } else {
            tokens.add(payload.part(0, Tokens.EDGE_BYTES), true);
            tokens.add(payload.part(count - Tokens.EDGE_BYTES, Tokens.EDGE_BYTES), false);
        }
        return tokens.digests();
    }
}
