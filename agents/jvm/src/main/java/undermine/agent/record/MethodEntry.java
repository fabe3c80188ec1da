package undermine.agent.record;

import java.io.SyncFailedException;
import undermine.agent.faults.SystemErrors;
import undermine.agent.lib.Unchecked;
import undermine.agent.operations.Call;
import undermine.agent.operations.Operation;
import undermine.agent.operations.Subject;

/**
 * The entry of a woven method. It records the operation; then the method runs, answers at once, or raises an error, as
 * was decided.
 */
public final class MethodEntry {
    /** The error with which a message that got lost is recorded. */
    public static final String LOST = "LOST";
    /** The answer of a lost send whose size is still to be found out. */
    public static final long ALL = -1;

    private MethodEntry() {
    }

    /**
     * Begin the operation of a method whose frame was just pushed. True: don't run the method, answer with nothing; the
     * frame is popped. Or the method's data is wanted first (`wantsData` of the thread's state), and then it is run.
     *
     * Throws the injected error; woven code then pops the frame.
     */
    public static boolean enter(
            ThreadState state, WovenFrame frame, Operation operation, Subject subject, long size, int answer) {
        AgentCore agent = AgentCore.current;
        Operation seen = Recorder.seen(agent, state, operation, subject);
        if (seen == null) {
            return false;
        }
        frame.size = size;
        frame.answer = answer;
        Call call = Recorder.begin(agent, state, seen, subject, size, 0, frame.handle, false, isOfCaller(frame));
        return call != null && proceed(agent, state, frame, call);
    }

    /** True if the woven method itself may belong to the target: then its caller is the call site. */
    public static boolean isOfCaller(WovenFrame frame) {
        return frame.side != null && frame.side.isOfTarget;
    }

    /** Continue as was decided before the operation. */
    public static boolean proceed(AgentCore agent, ThreadState state, WovenFrame frame, Call call) {
        if (call.error != null) {
            return refuse(agent, state, frame, call);
        }
        if (call.wouldBlock) {
            Recorder.leave(agent, state, call, 0, call.hasLost ? LOST : "EAGAIN");
            if (call.error != null) { // by a step after the operation
                Unchecked.<RuntimeException>raise(raised(frame, call));
            }
            state.pop();
            return true;
        }
        if (call.isLost) {
            return lose(agent, state, frame, call);
        }
        frame.call = call;
        state.inside++;
        return wantsData(state, frame);
    }

    /** True if the method has to show its data before it is run: to change it, or to record its tokens. */
    public static boolean wantsData(ThreadState state, WovenFrame frame) {
        boolean isChanged = frame.call != null && frame.call.change != null;
        state.wantsData = frame.hasData && (isChanged || Ops.tokens != null);
        if (state.wantsData) {
            state.answer = 0; // the answer of an earlier method would make this one's hook believe that it is lost
        }
        return state.wantsData;
    }

    /** Tell the sender that all of it, or the first of several datagrams, was sent. Its hook finds out an unknown size. */
    private static boolean lose(AgentCore agent, ThreadState state, WovenFrame frame, Call call) {
        Recorder.leave(agent, state, call, 0, LOST);
        if (call.error != null) {
            Unchecked.<RuntimeException>raise(raised(frame, call));
        }
        state.answer = frame.isOfUnknownSize ? ALL : frame.side == null ? frame.size : Math.max(1, frame.size);
        state.pop();
        return true;
    }

    private static boolean refuse(AgentCore agent, ThreadState state, WovenFrame frame, Call call) {
        Throwable error = raised(frame, call);
        Recorder.leave(agent, state, call, 0, call.hasLost ? LOST : SystemErrors.nameOf(call.error));
        if (frame.answer == WovenFrame.RAISE_AT_END) {
            frame.atEnd = error;
            state.inside++;
            return false;
        }
        if (frame.answer != WovenFrame.ANSWER) {
            Unchecked.<RuntimeException>raise(error);
        }
        state.pop();
        return true;
    }

    /** The error in the form in which the method raises it. */
    public static Throwable raised(WovenFrame frame, Call call) {
        if (frame.side != null) {
            return frame.side.raised(call);
        }
        if (frame.answer == WovenFrame.RAISE_SYNC) {
            return SystemErrors.bare(new SyncFailedException("sync failed"));
        }
        if (frame.answer != WovenFrame.RAISE_NIO) {
            return call.error;
        }
        String path = call.subject.resource;
        int arrow = path.indexOf(" -> ");
        return arrow < 0 ? SystemErrors.ofFileSystem(call.error, path, null)
                : SystemErrors.ofFileSystem(call.error, path.substring(0, arrow), path.substring(arrow + 4));
    }
}
