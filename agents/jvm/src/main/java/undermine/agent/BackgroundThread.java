package undermine.agent;

import undermine.agent.net.NettyHooks;
import undermine.agent.process.AgentThread;
import undermine.agent.process.Clock;
import undermine.agent.record.AgentCore;
import undermine.agent.record.ThreadState;
import undermine.agent.weave.Weaver;
import undermine.agent.wire.Cursor;

/** A thread of the agent that looks for work every 100 ms: write stacks, end delays, save woven classes. */
final class BackgroundThread extends AgentThread {
    private static final long LOOK_MS = 100;

    private final AgentCore agent;
    private final Weaver weaver;

    BackgroundThread(AgentCore agent, Weaver weaver) {
        super("undermine-stacks");
        this.agent = agent;
        this.weaver = weaver;
    }

    @Override
    public void run() {
        ThreadState own = ThreadState.get();
        int asked = agent.state.stacksAsked();
        while (!agent.off) {
            try {
                rest();
                int now = agent.state.stacksAsked();
                if (now != asked) {
                    asked = now;
                    settle(agent.cursor(own));
                    StackDump.write(agent.config, agent.threadNames, agent.sites);
                }
                agent.faults.look(agent.cursor(own));
                if (weaver.hasNetty()) {
                    NettyHooks.wake();
                }
                weaver.save();
            } catch (Throwable trouble) {
                agent.note(trouble);
            }
        }
    }

    /** Record monitors whose entry is still deferred: a thread that is stuck may hold others up. */
    private void settle(Cursor cursor) {
        for (Cursor each : agent.file.owners()) {
            if (each.unwritten != null) {
                each.unwritten.settle(cursor);
            }
        }
    }

    /** A program may interrupt all threads of its group. */
    private static void rest() {
        try {
            Thread.sleep(Clock.ofTrueLength(LOOK_MS));
        } catch (InterruptedException interrupt) {
            return;
        }
    }
}
