package undermine.agent.record;

import undermine.agent.operations.Subject;
import undermine.agent.process.Clock;
import undermine.agent.stacks.Stack;
import undermine.agent.variables.Samples;
import undermine.agent.wire.Cursor;

/** Records the values of variables that have changed when one operation begins or has ended. */
final class SampleRecorder implements Samples {
    /** The time of the latest sample of this process. Variables hold a lock when they call `changed`. */
    private static long latest;

    private final AgentCore agent;
    private final ThreadState state;
    private final Cursor cursor;
    private final Stack stack;
    private final long at;

    private SampleRecorder(AgentCore agent, ThreadState state, Cursor cursor, Stack stack, long at) {
        this.agent = agent;
        this.state = state;
        this.cursor = cursor;
        this.stack = stack;
        this.at = at;
    }

    /** Read the variables before an operation that begins at this time, or now (0). The caller has set `busy`. */
    static void read(AgentCore agent, ThreadState state, Cursor cursor, Stack stack, long at) {
        try {
            agent.variables.read(agent.state, new SampleRecorder(agent, state, cursor, stack, at));
        } catch (Throwable trouble) {
            agent.note(trouble);
        }
    }

    @Override
    public void changed(String name, String key, String text) {
        record(name, key, text == null ? "" : text, text == null ? 0 : 1);
    }

    /** An absent sample that has a text isn't a value. */
    @Override
    public void leadsNowhere(String name, String why) {
        record(name, "", why, 0);
    }

    private void record(String name, String key, String content, long size) {
        latest = Math.max(latest, at == 0 ? Clock.now() : at);
        Recorder.putAt(agent, state, cursor, Ops.sample, new Subject(name, key, false, content, true), stack, size, latest);
    }
}
