package undermine.agent.lib;

/** Takes note of what went wrong inside the agent. */
public interface Troubles {
    void note(Throwable trouble);
}
