package undermine.agent.record;

import undermine.agent.process.AgentThread;
import undermine.agent.process.Clock;
import undermine.agent.wire.ToolLink;

/** The agent's hello to the tool, and the tool's welcome. */
public final class Greeting {
    /** A thread that holds a lock which the greeting needs must not wait for it longer than this. */
    private static final long WAIT_MS_MAX = 2000;

    private final AgentCore agent;
    private final ToolLink link;
    private volatile Thread thread;

    Greeting(AgentCore agent, ToolLink link) {
        this.agent = agent;
        this.link = link;
    }

    /**
     * Say hello to the tool. If no lasting fault has ever been in force, the answer can't hold one, and the program doesn't
     * wait for it: opening the first socket takes the JDK a while.
     */
    public void begin() {
        final int generation = agent.state.generation();
        if (generation != 0) {
            meet(generation);
            return;
        }
        thread = new AgentThread("undermine-hello") {
            @Override
            public void run() {
                try {
                    meet(generation);
                } catch (Throwable trouble) {
                    agent.note(trouble);
                }
                thread = null;
            }
        };
        thread.start();
    }

    private void meet(int generation) {
        agent.lasting.welcome(generation, link.welcome());
        if (!agent.config.steps.isEmpty()) {
            agent.faults.makeReady();
        }
    }

    /** Wait until the tool has answered: before that, nothing is asked of it. */
    void await() {
        Thread greeting = thread;
        if (greeting == null || greeting == Thread.currentThread()) {
            return;
        }
        boolean wasInterrupted = Thread.interrupted();
        try {
            greeting.join(Clock.ofTrueLength(WAIT_MS_MAX));
        } catch (InterruptedException interrupt) {
            wasInterrupted = true;
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
