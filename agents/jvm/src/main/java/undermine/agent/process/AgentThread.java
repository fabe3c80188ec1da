package undermine.agent.process;

/** A thread that belongs to the agent: nothing that it does is recorded, and the program may end while it runs. */
public class AgentThread extends Thread {
    public AgentThread(String name) {
        super(name);
        setDaemon(true);
    }
}
